package sim

import "testing"

// script is a directed schedule: a suspicion, played out. Each has a mutant in
// testdata/mutants that it catches.
type script struct {
	name    string
	members int // 0: three
	tail    int // bytes of log in memory; 0: smallTail
	play    func(*stage)
}

func TestScripts(t *testing.T) {
	for _, list := range [][]script{proposalScripts, leaseScripts, leaderScripts, readScripts, logScripts} {
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
