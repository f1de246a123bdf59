package sim

import "testing"

// script is a directed schedule: a suspicion, played out.
type script struct {
	name    string
	members int // 0: three
	tail    int // bytes of log in memory; 0: smallTail
	play    func(*stage)
}

var scriptLists = [][]script{proposalScripts, leaseScripts, leaderScripts, readScripts, logScripts}

func TestScripts(t *testing.T) {
	for _, list := range scriptLists {
		for _, sc := range list {
			t.Run(sc.name, func(t *testing.T) {
				if sc.members == 0 {
					sc.members = 3
				}
				if sc.tail == 0 {
					sc.tail = smallTail
				}
				s := newStage(t, sc.members, sc.tail)
				sc.play(s)
				s.end()
			})
		}
	}
}
