package asyncleasesim

import (
	"testing"
	"time"

	. "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
)

func TestScripts(t *testing.T) {
	for _, sc := range scripts {
		t.Run(sc.name, func(t *testing.T) {
			n := sc.members
			if n == 0 {
				n = 3
			}
			th := newTheater(t, n)
			sc.play(th)
			if err := th.judge.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// between chooses what goes between some members.
func between(ids ...machine.NodeID) Match {
	return func(e machine.Envelope) bool { return From(ids...)(e) && To(ids...)(e) }
}

// scripts are schedules in which one rule each is needed, with three members unless
// they say otherwise.
var scripts = []struct {
	name    string
	members int
	play    func(th *theater)
}{
	{name: "an-interval-that-contains-another", play: func(th *theater) {
		th.ask(1, 1, 5, 6)
		th.Settle()
		th.granted(1, 1)
		th.ask(2, 1, 1, 10)
		th.Settle()
		th.refused(2, 1)
	}},
	{name: "an-interval-within-another", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Settle()
		th.ask(2, 1, 5, 6)
		th.Settle()
		th.refused(2, 1)
	}},
	{name: "the-same-arguments-twice", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Settle()
		th.granted(1, 1)
		th.ask(1, 2, 1, 10)
		th.Settle()
		th.refused(1, 2)
	}},
	{name: "a-later-life-asks-again", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Settle()
		th.granted(1, 1)
		th.crash(1)
		th.ask(1, 1, 5, 6)
		th.Settle()
		th.refused(1, 1)
	}},
	{name: "the-answer-is-lost", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Lose(To(3))
		th.Hold(1) // it does not count its own answer yet
		th.Pass(To(2))
		th.Lose(Kind[asynclease.Ack]())
		th.Wait(retry)
		th.Settle(To(3))
		th.Sync(1)
		th.granted(1, 1)
	}},
	{name: "the-answer-is-lost-by-a-crash", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Lose(To(3))
		th.Pass(To(2))
		th.Lose(Kind[asynclease.Ack]())
		th.crash(2)
		th.Wait(retry)
		th.Settle(To(3))
		th.granted(1, 1)
	}},
	{name: "halves-of-four", members: 4, play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.ask(3, 1, 1, 10)
		th.Pass(From(1), To(2))
		th.Pass(From(3), To(4))
		th.Pass(From(2), To(1))
		th.Pass(From(4), To(3))
		th.wait(1, 1)
		th.wait(3, 1)
		th.Settle()
	}},
	{name: "an-answer-counts-once", members: 5, play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.ask(4, 1, 1, 10)
		th.Pass(From(1), To(2))
		ack := th.Lose(To(1), Kind[asynclease.Ack]())
		th.Late(ack)
		th.Late(ack)
		th.wait(1, 1)
		th.Pass(From(4), To(3, 5))
		th.Pass(From(3, 5), To(4))
		th.granted(4, 1)
		th.Settle()
		th.refused(1, 1)
	}},
	{name: "one-refusal-refuses", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Lose(To(2))
		th.Pass(To(3))
		th.Pass(From(3)) // granted by 1 and 3
		th.granted(1, 1)
		th.ask(2, 1, 5, 15)
		th.Lose(To(1))
		th.Settle()
		th.refused(2, 1)
	}},
	{name: "durable-before-it-is-granted", play: func(th *theater) {
		th.Hold(2)
		th.ask(1, 1, 1, 10)
		th.Lose(To(3))
		th.Settle()
		th.wait(1, 1)
		th.crash(2)
		th.ask(3, 1, 5, 6)
		th.Lose(From(3), To(1))
		th.Settle()
		th.granted(3, 1)
		th.Wait(retry)
		th.Settle(between(1, 3))
		th.refused(1, 1)
	}},
	{name: "a-repeated-answer-is-durable-too", play: func(th *theater) {
		th.Hold(2)
		th.ask(1, 1, 1, 10)
		th.Lose(To(3))
		th.Settle()
		th.Wait(retry) // it asks again, and the permission of 2 is not durable
		th.Lose(To(3))
		th.Settle()
		th.wait(1, 1)
		th.crash(2)
		th.ask(3, 1, 5, 6)
		th.Lose(From(3), To(1))
		th.Settle()
		th.granted(3, 1)
	}},
	{name: "permissions-survive", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Settle()
		th.granted(1, 1)
		th.crash(2)
		th.crash(3)
		th.ask(2, 1, 10, 20)
		th.Settle(between(1, 2))
		th.refused(2, 1)
	}},
	{name: "the-tail-goes-back", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Settle()
		th.giveBack(1, 1, 6)
		th.Settle()
		th.ask(2, 1, 6, 10)
		th.Settle()
		th.granted(2, 1)
		th.ask(3, 1, 5, 5)
		th.Settle()
		th.refused(3, 1)
		th.crash(1)
		th.crash(2)
		th.crash(3)
		th.ask(3, 2, 6, 6)
		th.Settle()
		th.refused(3, 2)
	}},
	{name: "returned-twice", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Settle()
		th.giveBack(1, 1, 6)
		late := th.Lose(To(3))
		th.Settle()
		th.Late(late)
		th.ask(2, 1, 6, 10)
		th.Lose(From(2), To(1))
		th.Settle()
		th.granted(2, 1)
		th.Late(late) // it is about the first lease, and not about the present one
		th.ask(3, 1, 7, 7)
		th.Lose(From(3), To(2))
		th.Settle()
		th.refused(3, 1)
	}},
	{name: "returned-and-asked-for-late", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		late := th.Lose(To(3))
		th.Late(late)
		th.Settle()
		th.giveBack(1, 1, 1)
		th.Settle()
		th.crash(3)
		th.Late(late) // it marks nothing again, for nothing would ever take that back
		th.Settle()
		th.ask(2, 1, 5, 6)
		th.Lose(From(2), To(1))
		th.Settle()
		th.granted(2, 1)
	}},
	{name: "a-refused-request-leaves-nothing", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Pass(To(2))
		th.Settle(To(3))
		th.ask(3, 1, 5, 15) // 1 and 2 refuse, 3 has permitted it to itself
		th.Settle(From(1), From(3), To(3))
		th.Settle()
		th.refused(3, 1)
		th.ask(2, 1, 11, 15)
		th.Lose(To(1))
		th.Settle()
		th.granted(2, 1)
	}},
	{name: "forgotten-is-refused", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Settle()
		th.granted(1, 1)
		for _, id := range th.ids {
			th.forget(id, 11)
		}
		th.ask(2, 1, 5, 15)
		th.Settle()
		th.refused(2, 1)
		th.ask(2, 2, 11, 15)
		th.Settle()
		th.granted(2, 2)
	}},
	{name: "two-at-once", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		th.Lose(Kind[asynclease.Lease]())
		th.ask(1, 2, 11, 20)
		th.Settle()
		th.granted(1, 2)
		th.Wait(retry)
		th.Settle()
		th.granted(1, 1)
	}},
	{name: "asked-until-a-majority-answers", play: func(th *theater) {
		th.ask(1, 1, 1, 10)
		for _, pause := range []time.Duration{retry, 2 * retry, 4 * retry, 4 * retry} {
			th.Lose(Kind[asynclease.Lease]())
			th.Wait(pause - time.Millisecond)
			if th.Has(Kind[asynclease.Lease]()) {
				th.t.Errorf("asked again before %v have passed", pause)
			}
			th.Wait(time.Millisecond)
		}
		th.Settle(To(3))
		th.granted(1, 1)
	}},
}
