package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
)

func greetingsOf(t *testing.T, sent []sentMessage) (list []string) {
	t.Helper()
	for _, m := range sent {
		var g greeting
		if len(m.message) == 0 || m.message[0] != wireGreeting {
			list = append(list, fmt.Sprintf("to %d: no greeting", m.to))
		} else if err := json.Unmarshal(m.message[1:], &g); err != nil {
			t.Error(err)
		} else {
			list = append(list, fmt.Sprintf("to %d: %+v", m.to, g))
		}
	}
	return list
}

// The state of a greeting member's directory determines whether the greeting is answered, remembered,
// heard and believed.
func TestWhatAGreetingDoes(t *testing.T) {
	now := replica.FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}, {ID: 5, IsLearner: true}})
	now.Members[3].Name = "d" // which joined, and has told its name
	now.Removed = []uint64{8}
	at := func(directory, boot uint64) origin { return origin{directory, boot << 32} }
	me := at(5, 1)
	told := func(yours origin, how string) []string {
		g := greeting{Origin: me, Yours: yours, Voters: []uint64{1, 2, 3, 4}}
		g.Refused, g.First = strings.Contains(how, "refused"), strings.Contains(how, "first")
		return []string{fmt.Sprintf("%+v", g)}
	}
	known := map[uint64]origin{2: at(22, 3), 8: at(88, 1)} // of whom one was removed since
	with := func(id uint64, o origin) map[uint64]origin { return map[uint64]origin{2: at(22, 3), id: o} }
	for _, tt := range []struct {
		name  string
		set   func(n *Node)
		from  machine.NodeID
		g     greeting
		told  []string
		knows map[uint64]origin
		deaf  bool // it does not listen to the sender then
		ends  bool
		opens bool // it takes part then, and did not before
	}{
		{"one that is known, and asks", nil, 2, greeting{Origin: at(22, 3), Ask: true}, told(at(22, 3), ""), known, false, false, false},
		{"one that is known, and does not ask", nil, 2, greeting{Origin: at(22, 3)}, nil, known, false, false, false},
		{"one that has started again", nil, 2, greeting{Origin: at(22, 4), Ask: true}, told(at(22, 4), ""), map[uint64]origin{2: at(22, 4)}, false, false, false},
		{"one that is new", nil, 3, greeting{Origin: at(33, 1), Ask: true}, told(at(33, 1), ""), with(3, at(33, 1)), false, false, false},
		{"one that joined, is new and has told no name", nil, 5, greeting{Origin: at(55, 1), First: true, Ask: true}, told(at(55, 1), ""), with(5, at(55, 1)), false, false, false},
		{"one that joined, is new and had told its name", nil, 4, greeting{Origin: at(44, 1), First: true, Ask: true}, nil, known, false, false, false},
		{"one from another directory", nil, 2, greeting{Origin: at(23, 9), Ask: true}, told(at(22, 3), "refused"), known, true, false, false},
		{"one from an earlier start", nil, 2, greeting{Origin: at(22, 2)}, told(at(22, 3), "refused"), known, true, false, false},
		{"a founder that is new, to one that takes part", nil, 3, greeting{Origin: at(33, 1), First: true, Ask: true}, told(origin{}, "refused"), known, true, false, false},
		{"one that was not listened to, and is as before", func(n *Node) { n.admission.refused.Store(machine.NodeID(2), true) }, 2,
			greeting{Origin: at(22, 3)}, nil, known, false, false, false},
		{"a stranger", nil, 9, greeting{Origin: at(99, 1), Ask: true}, nil, known, false, false, false},
		{"one that was removed", nil, 8, greeting{Origin: at(88, 1), Ask: true}, nil, known, false, false, false},
		{"one from no directory", nil, 2, greeting{Ask: true}, nil, known, false, false, false},
		{"one that knows more of this member", nil, 2, greeting{Origin: at(22, 3), Yours: at(6, 1), Ask: true}, nil, known, false, true, false},
		{"one that refuses this member", nil, 2, greeting{Origin: at(22, 3), Refused: true, Ask: true}, nil, known, false, true, false},
		{"one that confirms this directory, of one of whom it is needed", awaiting(2), 2, greeting{Origin: at(22, 3), Yours: me, Ask: true}, told(at(22, 3), ""), known, false, false, true},
		{"one that does not know this directory yet", awaiting(2), 2, greeting{Origin: at(22, 3), Ask: true}, told(at(22, 3), "first"), known, true, false, false},
		{"one that is new itself, and does not know this directory yet", awaiting(2), 2, greeting{Origin: at(22, 3), First: true, Ask: true}, told(at(22, 3), "first"), known, true, false, false},
		{"one that is new itself, and confirms", awaiting(2), 2, greeting{Origin: at(22, 3), Yours: me, First: true, Ask: true}, told(at(22, 3), ""), known, false, false, true},
		{"one of two that have to confirm", awaiting(2, 3), 3, greeting{Origin: at(33, 1), Yours: me, First: true, Ask: true}, told(at(33, 1), "first"), with(3, at(33, 1)), true, false, false},
		{"one that has forgotten, and confirms", awaiting(2), 2, greeting{Origin: at(23, 9), Yours: me}, told(at(22, 3), "refused first"), known, true, false, false},
		{"a stranger, to one that joins", func(n *Node) { awaiting()(n); n.admission.joins, n.admission.voted = true, []uint64{2} }, 9,
			greeting{Origin: at(99, 1), Ask: true}, told(at(99, 1), "first"), with(9, at(99, 1)), true, false, false},
		{"a stranger, to one that has joined", func(n *Node) { n.admission.joins, n.admission.voted = true, []uint64{2} }, 9,
			greeting{Origin: at(99, 1), Ask: true}, nil, known, false, false, false},
		{"a stranger that had to confirm, to one that takes part", func(n *Node) { n.admission.need = []uint64{9} }, 9,
			greeting{Origin: at(99, 1), Ask: true}, nil, known, false, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, _, links := linked(t)
			defer n.end()
			n.is(now)
			if err := n.directories.change(func(m *memory) { m.Known = map[uint64]origin{2: at(22, 3), 8: at(88, 1)} }); err != nil {
				t.Fatal(err)
			}
			n.admission.open.Store(true)
			if tt.set != nil {
				tt.set(n)
			}
			opened := n.admission.open.Load()
			var failed error
			n.cfg.Fail = func(err error) { failed = err }
			p, err := json.Marshal(tt.g)
			if err != nil {
				t.Fatal(err)
			}
			n.deliver(tt.from, [][]byte{append([]byte{wireGreeting}, p...)})
			synctest.Wait()
			got := greetingsOf(t, links.take())
			var want []string
			for _, g := range tt.told {
				want = append(want, fmt.Sprintf("to %d: %s", tt.from, g))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: told %q, want %q", tt.name, got, want)
			}
			if got := n.directories.get().Known; !reflect.DeepEqual(got, tt.knows) {
				t.Errorf("%s: remembered are %v, want %v", tt.name, got, tt.knows)
			}
			if got := !n.listensTo(tt.from); got != tt.deaf {
				t.Errorf("%s: not listened to: %v, want %v", tt.name, got, tt.deaf)
			}
			if tt.ends != errors.Is(failed, errForgetful) {
				t.Errorf("%s: this member ends with %v, want that it ends: %v", tt.name, failed, tt.ends)
			}
			if got := !opened && n.admission.open.Load(); got != tt.opens || got != n.directories.get().Admitted {
				t.Errorf("%s: this member takes part then: %v, as it remembers: %v; want %v", tt.name, got, n.directories.get().Admitted, tt.opens)
			}
		})
	}
}

// awaiting makes a member wait until the given members have confirmed its directory.
func awaiting(need ...uint64) func(*Node) {
	return func(n *Node) {
		n.admission.open.Store(false)
		n.admission.need, n.storage.founding = need, true
	}
}

// A member that waits to be admitted asks the members that have not confirmed it yet. A newcomer asks
// all members that it knows.
func TestWhoIsAskedToConfirm(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(n *Node)
		want []machine.NodeID
	}{
		{"a founder", func(n *Node) { awaiting(3, 2)(n); n.admission.confirmed[2] = []uint64{} }, []machine.NodeID{3}},
		{"a founder that nobody has confirmed", awaiting(3, 2), []machine.NodeID{2, 3}},
		{"one that joins", func(n *Node) {
			awaiting()(n)
			n.admission.joins, n.admission.voted = true, []uint64{2, 3}
			n.admission.confirmed[2] = []uint64{}
			n.contacts.heard = map[machine.NodeID]string{7: "heard:1"}
		}, []machine.NodeID{2, 3, 7}},
		{"one that takes part", func(n *Node) { n.admission.open.Store(true) }, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, _, links := linked(t)
			defer n.end()
			tt.set(n)
			for range 2 {
				n.admission.look(n, time.Now())
				var got []machine.NodeID
				for _, m := range links.take() {
					got = append(got, m.to)
					var g greeting
					if err := json.Unmarshal(m.message[1:], &g); err != nil || !g.Ask || g.Origin != n.admission.me {
						t.Errorf("%s sends member %d %q, %v, want a greeting that asks", tt.name, m.to, m.message, err)
					}
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("%s asks %v, want %v", tt.name, got, tt.want)
				}
			}
		})
	}
}
