package abcastsim

import (
	"errors"
	"slices"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	. "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// catchUpScripts are schedules with members that are behind, and owners that trim.
var catchUpScripts = []script{
	{name: "trimmed-and-restarted", play: func(th *theater) {
		for seq := range uint64(4) {
			th.broadcast(1, seq+1, 2)
			th.Settle()
		}
		th.trim(2, 2)
		th.restart(2)
		if p := th.members[2].Base().Position; p != 2 {
			th.t.Errorf("the log begins after position %d, want 2", p)
		}
		th.delivered(4, 2)
		if _, ok := th.members[2].Messages(1, 10); ok {
			th.t.Error("message 2 was trimmed, and is there")
		}
		th.broadcast(1, 4, 2) // ordered before the trimmed part is forgotten
		th.Settle()
		th.delivered(4, 1, 2)
	}},
	{name: "far-behind", play: func(th *theater) {
		behind := To(3)
		th.broadcast(1, 1, 1)
		th.Settle()
		for seq := range uint64(6) {
			th.broadcast(1, seq+2, 1)
			th.Settle(behind)
			th.Lose(behind)
		}
		th.delivered(1, 3)
		th.trim(5, 1, 2)
		th.broadcast(1, 8, 1)
		for range 6 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.delivered(8, 1, 2, 3)
		th.broadcast(1, 7, 3) // it knows the earlier order
		th.broadcast(1, 9, 1)
		th.Settle()
		th.delivered(9, 1, 2, 3)
		th.restart(3)
		th.delivered(9, 3)
	}},
	{name: "an-older-state-comes-late", change: alive, play: func(th *theater) {
		state := Kind[abcast.Transfer]()
		th.Settle()
		for seq := range uint64(4) {
			th.broadcast(1, seq+1, 1)
			th.Settle(To(3))
			th.Lose(To(3))
		}
		th.trim(3, 1, 2)
		for range 6 {
			th.Wait(retry)
			th.Settle(state)
		}
		older := th.Lose(state, To(3))[:1] // after 3
		for range 6 {
			th.Wait(retry)
			th.Settle()
		}
		th.broadcast(1, 5, 1)
		th.Settle()
		th.delivered(5, 1, 2, 3)
		th.trim(5, 3) // the decisions from there on are forgotten, too
		th.Late(older)
		th.Settle()
		if p := th.members[3].Position(); p != 5 {
			th.t.Errorf("contiguity: member 3 is at position %d behind a state that came late, want 5", p)
		}
		if th.lacks[3] > 3 || th.members[3].Instance() < th.members[1].Instance() {
			th.t.Errorf("contiguity: member 3 is at instance %d behind a state that came late, and member 1 is at %d", th.members[3].Instance(), th.members[1].Instance())
		}
		th.broadcast(1, 6, 3)
		th.Settle()
		th.delivered(6, 1, 2, 3)
	}},
	{name: "two-orders", change: alive, play: func(th *theater) {
		// Member 3's disk is emptied, and no other than 3 knows the decision of 1 and 3.
		away := func(e machine.Envelope) bool { return e.From == 2 || e.To == 2 }
		th.broadcast(1, 1, 1)
		th.Settle(away)
		th.delivered(1, 1, 3)
		for th.Has(away) {
			th.Lose(away)
		}
		// Its later messages are those of a member that has ordered something else with 2.
		says := func(from, to machine.NodeID, s abcast.Status) {
			th.Receive(machine.Envelope{From: from, To: to, Body: s})
		}
		at := func(id machine.NodeID) abcast.Status {
			b := th.members[id].Base().Order
			messages, _ := th.members[id].Messages(b.Position, 1000)
			return abcast.Status{Delivered: th.members[id].Instance(), Position: uint64(len(messages)), Digest: messages[len(messages)-1].Digest}
		}
		other := at(1)
		other.Digest++
		says(3, 1, other)
		if want := []abcast.Contradicted{{From: 3, Position: 1}}; !slices.Equal(th.contradicted[1], want) {
			th.t.Errorf("digest: member 1 says %v, want %v", th.contradicted[1], want)
		}
		says(3, 1, at(1)) // and is not listened to any more
		th.Receive(machine.Envelope{From: 3, To: 1, Body: abcast.Fetch{From: 1}})
		if th.Has(From(1), To(3), Kind[abcast.Decisions]()) {
			th.t.Error("digest: member 3 has another order, and member 1 answers it")
		}
		ahead := at(1)
		ahead.Delivered, ahead.Position, ahead.Digest = 2, 2, 99
		says(2, 1, ahead) // of a position that 1 comes to later
		if len(th.contradicted[1]) != 1 {
			th.t.Errorf("digest: member 1 says %v of an order that is further than its own", th.contradicted[1])
		}
		th.Receive(machine.Envelope{From: 2, To: 1, Body: abcast.Decisions{From: 2, Values: [][]byte{th.batch(2, 1, 1)}}})
		if want := (abcast.Contradicted{From: 2, Position: 2, Outvoted: true}); len(th.contradicted[1]) != 2 || th.contradicted[1][1] != want {
			th.t.Errorf("digest: member 1 says %v, want that 2 has another order, too, and that it is outvoted", th.contradicted[1])
		}
	}},
	{name: "a-digest-goes-on", change: alive, play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.broadcast(2, 1, 2)
		th.Settle()
		th.trim(1, 1)
		th.trim(2, 2)
		th.restart(1)
		th.rewrites = func() bool { return true }
		th.broadcast(1, 2, 1)
		th.Settle()
		for _, id := range []machine.NodeID{1, 2, 3} {
			th.restart(id)
		}
		for range 3 {
			th.beat()
		}
		th.delivered(3, 1, 2, 3)
		if len(th.contradicted) > 0 {
			th.t.Errorf("digest: %v say that others have another order", th.contradicted)
		}
	}},
	{name: "the-owner-first", change: alive, play: func(th *theater) {
		th.slow = true
		th.broadcast(1, 1, 1)
		th.Settle()
		for seq := range uint64(3) {
			th.broadcast(1, seq+2, 1)
			th.Settle(To(3))
			th.Lose(To(3))
		}
		th.trim(4, 1, 2)
		th.beat()
		if th.delivered(1, 3); th.lacks[3] != 4 {
			th.t.Errorf("member 3 says to lack what led to %d, want 4", th.lacks[3])
		}
		older := th.members[1].Base()
		older.Order.Instance, older.Order.Position, older.Position = 3, 3, 3
		older.Order.Sessions = []abcast.Session{{Client: older.Order.Sessions[0].Client, Upto: 3, Position: 3}}
		th.Receive(machine.Envelope{From: 2, To: 3, Body: abcast.Transfer{Base: older}}) // that 2 sent before it trimmed
		if th.lacks[3] != 4 || th.impossible[3] != nil {
			th.t.Errorf("contiguity: behind an older state member 3 says to lack what led to %d (%v), want 4", th.lacks[3], th.impossible[3])
		}
		th.owners[3].has = 3 // of a part that was transferred
		th.Step(3, abcast.Restored{Position: 3})
		th.delivered(1, 3)
		th.restart(3)
		th.delivered(1, 3)
		th.beat()
		th.restore(3)
		th.delivered(4, 3)
		th.restart(3)
		th.broadcast(1, 5, 3)
		th.beat()
		th.delivered(5, 1, 2, 3)
	}},
	{name: "the-owner-is-not-needed", change: alive, play: func(th *theater) {
		th.slow = true
		for seq := range uint64(3) {
			th.broadcast(1, seq+1, 1)
			th.Settle(To(3))
			th.Lose(To(3))
		}
		th.trim(3, 1)
		th.beat(From(2))
		th.Lose(From(2))
		if th.lacks[3] != 3 {
			th.t.Errorf("member 3 says to lack what led to %d, want 3", th.lacks[3])
		}
		th.Crash(1) // for good, and its owner with it
		for range 4 {
			th.beat()
		}
		th.delivered(3, 2, 3)
	}},
	{name: "a-state-takes-long", change: alive, play: func(th *theater) {
		state := Kind[abcast.Transfer]()
		sent := func(what string, waits, want int) {
			th.t.Helper()
			for range waits {
				th.Wait(retry)
				th.Settle(state)
			}
			if got := len(th.Lose(state, From(1))); got != want {
				th.t.Errorf("%s: %d states are on their way from 1, want %d", what, got, want)
			}
		}
		th.Settle()
		for seq := range uint64(4) {
			th.broadcast(1, seq+1, 1)
			th.Settle(To(3))
			th.Lose(To(3))
		}
		th.Crash(2)
		th.trim(3, 1)
		sent("asked for again and again", 3, 1)
		sent("again behind Relay", 3, 1)
		th.trim(4, 1)
		sent("another state", 1, 1)
		th.beat()
		th.delivered(4, 1, 3)
	}},
	{name: "what-was-delivered-may-be-lost", play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.Settle()
		th.delivered(1, 3)
		of := th.members[3].Group()
		ahead := abcast.Base{Order: abcast.State{Instance: 9, Position: 1, Group: of, Clients: 100}, Position: 1} // eight had nothing in them
		th.slow = true
		th.Receive(machine.Envelope{From: 2, To: 3, Body: abcast.Transfer{Base: ahead}})
		if p := th.members[3].Base().Position; p != 0 || th.lacks[3] != 1 {
			th.t.Errorf("member 3 begins after %d, and its owner has nothing on disk", p)
		}
	}},
	{name: "states-that-cannot-be", play: func(th *theater) {
		th.slow = true
		is := func(what string, want uint64, change func(*abcast.Base)) {
			th.t.Helper()
			b := abcast.Base{Position: 9, Order: abcast.State{
				Instance: 9, Position: 8, Horizon: 2, Group: th.members[3].Group(), Clients: th.cfg.Clients,
				Sessions: []abcast.Session{{Client: abcast.NewClient(1, 1), Upto: 2, Position: 4}, {Client: abcast.NewClient(1, 2), Upto: 1, Position: 8}},
			}}
			b.Order.Group.Members = slices.Clone(b.Order.Group.Members)
			change(&b)
			th.Receive(machine.Envelope{From: 2, To: 3, Body: abcast.Transfer{Base: b}})
			if th.lacks[3] != want {
				th.t.Errorf("%s: member 3 says to lack what led to %d, want %d", what, th.lacks[3], want)
			}
			if err := th.impossible[3]; (want == 0) != errors.Is(err, abcast.ErrImpossible) {
				th.t.Errorf("%s: member 3 says %v of it", what, err)
			}
			th.lacks[3], th.impossible[3] = 0, nil
		}
		is("another number of clients", 0, func(b *abcast.Base) { b.Order.Clients++ })
		is("more clients than may be", 0, func(b *abcast.Base) { b.Order.Sessions = make([]abcast.Session, th.cfg.Clients+1) })
		is("no members", 0, func(b *abcast.Base) { b.Order.Group.Members = nil })
		is("a member twice", 0, func(b *abcast.Base) { b.Order.Group.Members[1].ID = 1 })
		is("a member without an ID", 0, func(b *abcast.Base) { b.Order.Group.Members[0].ID = 0 })
		is("too many members", 0, func(b *abcast.Base) {
			for id := range machine.NodeID(abcast.MembersMax) {
				b.Order.Group.Members = append(b.Order.Group.Members, abcast.Member{ID: 4 + id})
			}
		})
		is("a member that was removed", 0, func(b *abcast.Base) { b.Order.Group.Removed = []abcast.Member{{ID: 2}} })
		is("an epoch of the future", 0, func(b *abcast.Base) { b.Order.Group.First = 11 })
		is("other members of this epoch", 0, func(b *abcast.Base) {
			b.Order.Group.Members[0].ID = 7
			b.Order.Group.Members, b.Order.Group.Configured = b.Order.Group.Members[:1], nil
		})
		is("a founder without an ID", 0, func(b *abcast.Base) { b.Order.Group.Configured = []machine.NodeID{7} })
		is("no epoch", 0, func(b *abcast.Base) { b.Order.Group.First = 0 })
		is("further than what led there", 0, func(b *abcast.Base) { b.Position = 7 })
		is("forgotten before it was ordered", 0, func(b *abcast.Base) { b.Order.Horizon = 9 })
		is("a client beyond the end", 0, func(b *abcast.Base) { b.Order.Sessions[1].Position = 9 })
		is("two clients at a position", 0, func(b *abcast.Base) { b.Order.Sessions[0].Position = 8 })
		is("a client without a message", 0, func(b *abcast.Base) { b.Order.Sessions[0].Upto = 0 })
		is("founders at other addresses", 9, func(b *abcast.Base) { b.Order.Group.Members[0].Address = "localhost:1" })
		is("one that can be", 9, func(*abcast.Base) {})
	}},
	{name: "who-is-behind-catches-up-at-once", change: alive, play: func(th *theater) {
		for seq := range uint64(200) {
			th.broadcast(1, seq+1, 1)
			th.Settle(To(3))
			th.Lose(To(3))
		}
		th.Wait(retry)
		th.Settle()
		th.delivered(200, 1, 2, 3)
	}},
	{name: "a-state-within-a-batch", play: func(th *theater) {
		behind := To(3)
		th.broadcast(2, 1, 1)
		for seq := range uint64(4) {
			th.broadcast(1, seq+1, 1) // one instance orders them all
		}
		th.Settle(behind)
		th.Lose(behind)
		th.trim(3, 1, 2)
		th.broadcast(1, 5, 1)
		for range 4 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.delivered(6, 1, 2, 3)
		th.restart(1)
		if p := th.members[1].Base().Position; p != 3 {
			th.t.Errorf("the log begins after position %d, want 3", p)
		}
		th.delivered(6, 1)
	}},
	{name: "told-of-what-a-state-has-in-it", play: func(th *theater) {
		th.broadcast(1, 1, 3)
		th.Pass(submits, To(1))
		th.Settle(To(3)) // 1 and 2 order it, and 3 does not hear of it
		th.Lose(To(3))
		th.trim(1, 1, 2)
		th.delivered(0, 3)
		for range 4 {
			th.Wait(2 * retry)
			th.Settle()
		}
		th.delivered(1, 1, 2, 3)
		if th.repeated[3] != 1 {
			th.t.Error("member 3 does not say that the message was ordered")
		}
	}},
	{name: "told-of-what-a-state-within-a-batch-has-in-it", play: func(th *theater) {
		th.broadcast(2, 1, 1)
		th.broadcast(1, 1, 3)
		th.broadcast(1, 2, 3)
		th.Pass(submits, From(3), To(1)) // one instance orders them both
		th.Settle(To(3))
		th.Lose(To(3))
		th.trim(2, 1, 2)
		for range 4 {
			th.Wait(2 * retry)
			th.Settle()
		}
		th.delivered(3, 1, 2, 3)
		if p := th.members[3].Base().Position; p != 2 || th.repeated[3] != 1 {
			th.t.Errorf("member 3 was given the state after %d and told of number %d, want 2 and 1", p, th.repeated[3])
		}
	}},
}
