package abcastsim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

var storms = stage.NewStorms(300)

// TestWeather plays a few clients' messages under random orders of messages, writes,
// crashes, suspicions and trims, without regard to time.
func TestWeather(t *testing.T) { storms.Play(t, weather) }

func weather(t *testing.T, r *rand.Rand) {
	chance := func(p float64) bool { return r.Float64() < p }
	cfg := config()
	cfg.Consensus.Plain, cfg.Consensus.Spread = chance(0.1), chance(0.5)
	cfg.Consensus.Lambda, cfg.Consensus.Prefetch = 1+r.Uint64N(5), chance(0.3)
	cfg.Consensus.Heartbeat, cfg.Consensus.Timeout = retry, 10*retry // Status comes with it
	cfg.Pipeline, cfg.BatchCount, cfg.Direct = 1+r.IntN(3), 1+r.IntN(4), chance(0.5)
	th := newTheater(t, cfg)
	ids := slices.Clone(cfg.Consensus.Members)
	w := stage.Weather[abcast.Input, abcast.Outcome]{Stage: th.Stage, Rand: r, Step: 5 * retry}
	some := func() machine.NodeID { return ids[r.IntN(len(ids))] }
	th.slow = chance(0.5)
	crash, suspect, trim := 0.02*r.Float64(), 0.02*r.Float64(), 0.02*r.Float64()
	if chance(0.3) {
		crash = 0
	}
	if rewrite := 0.05 * r.Float64(); chance(0.5) {
		th.rewrites = func() bool { return chance(rewrite) }
	}
	change := 0.0
	if chance(0.5) {
		change = 0.01 * r.Float64()
	}
	changes := uint64(0)                // by a client of their own
	last := make([]uint64, 1+r.IntN(3)) // of each client, that was not refused
	at := make([]machine.NodeID, len(last))
	for range 100 + r.IntN(400) {
		switch x := r.Float64(); {
		case x < crash:
			if id := some(); !th.gone[id] {
				th.start(id, w.Crashes(id))
			}
		case x < crash+suspect:
			th.Step(some(), abcast.Suspect{Node: some(), Suspected: chance(0.6)})
		case x < crash+suspect+trim && chance(0.5):
			th.restore(some())
		case x < crash+suspect+trim:
			id := some()
			if p := th.replicas[id].position; p > 0 {
				th.trim(p-r.Uint64N(min(p, 4)), id)
			}
		case x < crash+suspect+trim+0.03:
			c := r.IntN(len(last))
			if at[c] == 0 || chance(0.3) {
				at[c] = some()
			}
			first := th.next(c) // in a group of one they are ordered at once
			for seq := first; seq <= first+r.Uint64N(2); seq++ {
				th.refused[at[c]] = nil
				if th.broadcast(byte(c), seq, at[c]); th.refused[at[c]] == nil {
					last[c] = max(last[c], seq)
				}
			}
		case x < crash+suspect+trim+0.03+change:
			c, members := abcast.Change{}, th.epochs.last.IDs()
			if chance(0.6) && len(ids) < 8 {
				ids = append(ids, ids[len(ids)-1]+1)
				c = add(ids[len(ids)-1])
				th.start(ids[len(ids)-1], nil)
			}
			for len(members) > 1 && chance(0.5) {
				c.Remove = append(c.Remove, members[r.IntN(len(members))])
			}
			if ordered := th.judge.ordered(abcast.Message{Client: th.clients[9], Seq: changes}); ordered || changes == 0 {
				changes++
				th.lastChange = c
			}
			th.change(9, changes, some(), th.lastChange)
		default:
			w.Changes()
		}
		for _, id := range ids { // a member that is not needed any more may die
			if g := th.epochs.last; g.Gone(id) && !th.gone[id] && th.mayGo(id) && chance(0.1) {
				th.gone[id] = true
				w.Crashes(id)
			}
		}
	}
	for _, id := range ids {
		for _, of := range ids {
			th.Step(id, abcast.Suspect{Node: of})
		}
	}
	missing := func() error {
		for c, seq := range last {
			if next := th.next(c); next <= seq {
				return fmt.Errorf("validity: number %d of client %d is not ordered", next, c)
			}
		}
		for _, id := range ids {
			if p := th.replicas[id].position; p != th.judge.length() && th.epochs.last.Has(id) {
				return fmt.Errorf("agreement: member %d has delivered up to %d of %d", id, p, th.judge.length())
			}
		}
		return nil
	}
	if !w.Clears(40, func() bool {
		for _, id := range ids {
			th.restore(id)
		}
		if crash > 0 || changes > 0 { // a client that crashed or was removed has forgotten its next messages
			for c, seq := range last {
				if next := th.next(c); next <= seq {
					th.broadcast(byte(c), next, some())
				}
			}
			for _, id := range ids {
				if m := th.members[id]; changes > 0 && !th.gone[id] && m.Group().Has(id) {
					th.change(9, changes, id, th.lastChange)
				}
			}
		}
		return missing() == nil
	}) {
		t.Error(missing())
	}
	if len(th.contradicted) > 0 {
		t.Errorf("digest: of members that agree some say that others have another order: %v", th.contradicted)
	}
	if err := th.judge.Err(); err != nil {
		t.Error(err)
	}
	if err := th.epochs.Err(); err != nil {
		t.Error(err)
	}
}

// mayGo reports whether a member calls an epoch established that another is no part of.
func (th *theater) mayGo(id machine.NodeID) bool {
	for _, first := range th.established {
		if g := th.epochs.groups[first]; g.Gone(id) {
			return true
		}
	}
	return false
}

// next is the number of a client's first message that has no position.
func (th *theater) next(client int) (seq uint64) {
	for seq = 1; th.judge.ordered(abcast.Message{Client: th.clients[byte(client)], Seq: seq}); seq++ {
	}
	return seq
}
