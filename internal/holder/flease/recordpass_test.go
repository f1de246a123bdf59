package flease_test

import (
	"testing"
	"time"

	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestPassingManyLists: a peer whose host has passed several lists does not begin records anew with a newcomer, while a majority goes
// by the list before, which it has not read.
func TestPassingManyLists(t *testing.T) {
	inLists(t, brief, func(l *lab, s *lists, first engine.Members) {
		active := func(epoch uint64, ids ...int) {
			for _, id := range ids {
				for i := 0; l.peers[id-1].Status().Active < epoch; i++ {
					if time.Sleep(100 * time.Millisecond); i > 300 {
						t.Fatalf("epoch %d is never active at peer %d", epoch, id)
					}
				}
			}
		}
		second := listOf(2, &first, 1, 2, 3, 4)
		s.give(second, 1, 2, 4) // the third host reads none for long
		if l.join(s, false); !l.peers[3].complete(20 * time.Second) {
			t.Fatal("the fourth misses records")
		}
		active(2, 1, 2, 3, 4)
		third := listOf(3, nil, 2, 3, 4)
		s.give(third, 1, 2, 4)
		active(3, 2, 3, 4)
		fourth := listOf(4, nil, 3, 4, 5)
		s.give(fourth, 3)
		time.Sleep(time.Second)
		fourth.Was = third.Addrs
		s.give(fourth, machine.NodeID(5))
		l.join(s, false)
		if err := l.peers[3].spread("new", 2*time.Second); err != nil { // at 2 and 4
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got, err := l.peers[2].record("x", 2*time.Second); err == nil && got != "new" {
			t.Errorf("a record was acknowledged under the list before, and one that has passed it reads %q", got)
		}
		s.give(fourth, 2, 4)
		for _, i := range []int{2, 3, 4} {
			if got, err := l.peers[i].record("x", time.Minute); got != "new" || err != nil {
				t.Errorf("all have read the list, and peer %d reads %q, %v", i+1, got, err)
			}
		}
	})
}
