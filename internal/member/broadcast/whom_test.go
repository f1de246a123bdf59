package broadcast

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A member has connections with the members at the addresses of the order, or at those of the
// configuration if the order has none. It also has them with removed ones as long as they are
// needed, and with others that the configuration names.
func TestWhomAMemberHasConnectionsWith(t *testing.T) {
	n := &Node{cfg: Config{Members: map[machine.NodeID]string{1: "a:1", 2: "b:1", 3: "c:1", 5: "e:1"}}}
	g := abcast.Group{
		First:   7,
		Members: []abcast.Member{{ID: 1, Address: "a:1"}, {ID: 2, Address: "b:2"}, {ID: 4, Address: "d:1"}, {ID: 5}},
		Removed: []abcast.Member{{ID: 3, Address: "c:3"}},
	}
	for established, want := range map[bool]map[machine.NodeID]string{
		false: {1: "a:1", 2: "b:2", 3: "c:3", 4: "d:1", 5: "e:1"},
		true:  {1: "a:1", 2: "b:2", 4: "d:1", 5: "e:1"},
	} {
		if got := n.addresses(g, established); !maps.Equal(got, want) {
			t.Errorf("new members, which can do without those that were removed: %v: connections with %v, want %v", established, got, want)
		}
	}
	if !maps.Equal(n.cfg.Members, map[machine.NodeID]string{1: "a:1", 2: "b:1", 3: "c:1", 5: "e:1"}) {
		t.Errorf("the configuration has become %v", n.cfg.Members)
	}
}

// The others are all members but this one.
func TestTheOthers(t *testing.T) {
	n := minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:2", 3: "127.0.0.1:3"}, slog.New(slog.DiscardHandler))
	if got := n.others(); !slices.Equal(got, []machine.NodeID{2, 3}) {
		t.Errorf("the others of member %d are %d, want 2 and 3", n.cfg.ID, got)
	}
}

// Of the members that the order cannot tell, none but the one that is replaced may be at the address of a new
// one.
func TestWhoMayBeAtAnAddress(t *testing.T) {
	n := minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:2", 3: "127.0.0.1:3"}, slog.New(slog.DiscardHandler))
	n.mu.Lock()
	n.group = abcast.Group{
		First:      1,
		Members:    []abcast.Member{{ID: 1, Address: "127.0.0.1:1"}, {ID: 2, Address: "127.0.0.1:2"}, {ID: 3, Address: "127.0.0.1:3"}, {ID: 5, Address: "127.0.0.1:5"}},
		Configured: []machine.NodeID{1, 2, 3},
	}
	n.mu.Unlock()
	for _, tt := range []struct {
		id   machine.NodeID
		addr string
		old  machine.NodeID
		ok   bool
	}{
		{4, "127.0.0.1:2", 0, false},
		{4, "127.0.0.1:2", 3, false},
		{4, "127.0.0.1:2", 2, true},
		{2, "127.0.0.1:2", 0, true},
		{4, "127.0.0.1:5", 0, true}, // a change has named it: the order tells
		{4, "127.0.0.1:4", 0, true},
		{4, "127.0.0.1", 0, false},
		{4, "", 0, false},
	} {
		if err := n.checkAddress(tt.id, tt.addr, tt.old); tt.ok != (err == nil) || !tt.ok && !errors.Is(err, ErrChange) {
			t.Errorf("member %d at %q, in place of %d: got %v, want that it can be: %v", tt.id, tt.addr, tt.old, err, tt.ok)
		}
		ended, cancel := context.WithCancel(patience.Soon(t))
		cancel() // an unnecessary message is not sent
		var err error
		if tt.old == 0 {
			_, err = n.AddMember(ended, tt.id, tt.addr)
		} else {
			_, err = n.ReplaceMember(ended, tt.old, tt.id, tt.addr)
		}
		if errors.Is(err, ErrChange) == tt.ok || errors.Is(err, context.Canceled) != tt.ok {
			t.Errorf("a call for member %d at %q, in place of %d: got %v, want that it can be: %v", tt.id, tt.addr, tt.old, err, tt.ok)
		}
	}
}

// The word of a member that was removed itself, and is not needed any more, does not count, nor is it
// missing.
func TestRemovedMembersHaveNoSay(t *testing.T) {
	for _, tt := range []struct {
		by   machine.NodeID
		ends bool
	}{{2, true}, {3, false}} {
		n := minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:2", 3: "127.0.0.1:3"}, slog.New(slog.DiscardHandler))
		n.mu.Lock()
		n.group.Members = []abcast.Member{{ID: 1, Address: "127.0.0.1:1"}, {ID: 2, Address: "127.0.0.1:2"}}
		n.group.Removed = []abcast.Member{{ID: 3, Address: "127.0.0.1:3"}}
		n.mu.Unlock()
		n.noteRemovalClaim(tt.by)
		if ended := errors.Is(n.reason(), ErrRemoved); ended != tt.ends {
			t.Errorf("member %d says that this one was removed, of 2, as 3 was removed: it ends %v, want %v", tt.by, ended, tt.ends)
		}
	}
}

// Only the member that said that this one was removed takes that back, by letting it in again.
func TestOneTakesItsWordBack(t *testing.T) {
	n := minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:2", 3: "127.0.0.1:3", 4: "127.0.0.1:4", 5: "127.0.0.1:5"}, slog.New(slog.DiscardHandler))
	for _, id := range []machine.NodeID{2, 3} {
		n.noteRemovalClaim(id)
	}
	n.noteAccepted(2)
	n.noteRemovalClaim(4)
	if err := n.reason(); err != nil {
		t.Fatalf("2 of 4 others say that this one was removed: it ends with %v", err)
	}
	n.noteRemovalClaim(5)
	if err := n.reason(); !errors.Is(err, ErrRemoved) {
		t.Errorf("3 of 4 others say that this one was removed, and it goes on: %v", err)
	}
}

// A caller that waits at a removed member gets ErrUnknown at once; the member itself goes on until the
// others can do without it. A node that is made a member has joined, and no caller gets an error.
func TestNewMembers(t *testing.T) {
	n := minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:2", 3: "127.0.0.1:3"}, slog.New(slog.DiscardHandler))
	k := key{n.NewClient(), 1}
	one, two := abcast.Member{ID: 1, Address: "127.0.0.1:1"}, abcast.Member{ID: 2, Address: "127.0.0.1:2"}
	n.mu.Lock()
	n.joined = make(chan struct{}) // as that of one that joins
	n.mu.Unlock()
	waiters := n.awaited(k, 2)
	for range 2 { // again, as when another change follows
		n.handle([]abcast.Outcome{abcast.Began{Group: abcast.Group{First: 5, Members: []abcast.Member{one, two}}}})
		select {
		case <-n.joined:
		default:
			t.Error("a member of the group has not joined")
		}
		if k := n.waiters(); k != 2 {
			t.Errorf("%d of 2 calls wait at a member of new members", k)
		}
	}
	if got := n.Members(); !maps.Equal(got, map[machine.NodeID]string{1: "127.0.0.1:1", 2: "127.0.0.1:2"}) {
		t.Errorf("the members are 1 and 2, and Members says %v", got)
	}
	without := abcast.Group{First: 9, Members: []abcast.Member{two}, Removed: []abcast.Member{one}}
	n.handle([]abcast.Outcome{abcast.Began{Group: without}})
	n.answered(t, "the member is removed", waiters, 0, ErrRemoved)
	if err := n.reason(); err != nil {
		t.Errorf("a member that the others cannot do without yet has ended: %v", err)
	}
	n.handle([]abcast.Outcome{abcast.Established{Group: without}})
	if err := n.reason(); !errors.Is(err, ErrRemoved) {
		t.Errorf("a member that the others can do without goes on: %v", err)
	}
}

// A member that removes itself waits until the others can do without it, or until its caller gives up.
// Where the change is in the order is known by then.
func TestAMemberThatRemovesItselfWaits(t *testing.T) {
	why := errors.New("it takes too long")
	for _, ends := range []bool{false, true} {
		n := minority(t)
		ctx, cancel := context.WithCancelCause(patience.Soon(t))
		type result struct {
			position Position
			err      error
		}
		done := make(chan result, 1)
		go func() {
			position, err := n.RemoveMember(ctx, 1)
			done <- result{position, err}
		}()
		patience.Until(t, "the change is under way", func() bool { return n.waiters() == 1 })
		n.mu.Lock()
		for k := range n.waiting {
			n.answer(k, outcome{position: 7})
		}
		n.mu.Unlock()
		var want error
		if ends {
			n.fail(ErrRemoved)
		} else {
			want = why
			cancel(why)
		}
		if got := patience.Within(t, done, "the call returns"); got.position != 7 || !errors.Is(got.err, want) || errors.Is(got.err, ErrUnknown) {
			t.Errorf("the change is at 7, and the member has ended %v: got position %d, %v; want 7, %v, and no doubt", ends, got.position, got.err, want)
		}
		cancel(nil)
	}
}

// A change that failed is not waited for, though it would have removed the member itself.
func TestARemovalThatFails(t *testing.T) {
	n := minority(t)
	n.fail(ErrClosed)
	if _, err := n.RemoveMember(patience.Soon(t), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("a member that is closed removes itself: got %v, want %v", err, ErrClosed)
	}
}
