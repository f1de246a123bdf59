package abcastsim

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// death lets the leader's process end, as package broadcast sees it: it is suspected as soon as
// its connections close, without a timeout. A client at each of some members broadcasts one
// message after the other. It returns the longest time that one of them waited from then on,
// for a second: that is until the next leader leads, and beyond.
func death(seed uint64, n int, direct bool, clients ...machine.NodeID) (time.Duration, error) {
	w := sim.NewWorld(seed)
	net := sim.NewNetwork(w, func(b any) any { return b })
	cfg := abcast.Config{
		Consensus: fastct.Config{
			Spread: true, Lambda: 1000, Prefetch: true, Retry: 250 * time.Millisecond, Heartbeat: 200 * time.Millisecond, Timeout: time.Second,
		},
		Life: 1, BatchCount: 100, BatchBytes: 1 << 20, PendingCount: 1000, PendingBytes: 1 << 24, Pipeline: 4, Relay: time.Second, Direct: direct, Clients: 100,
	}
	for i := range n {
		cfg.Consensus.Members = append(cfg.Consensus.Members, machine.NodeID(i+1))
	}
	hosts := map[machine.NodeID]*sim.Process[abcast.Input, abcast.Outcome]{}
	seqs, since := map[machine.NodeID]uint64{}, map[machine.NodeID]time.Duration{}
	var died, longest time.Duration
	broadcast := func(id machine.NodeID) {
		seqs[id]++
		since[id] = w.Now()
		hosts[id].Step(abcast.Broadcast{Message: abcast.Message{Client: abcast.NewClient(0, uint64(id)), Seq: seqs[id], Payload: make([]byte, 100)}})
	}
	waited := func(id machine.NodeID) {
		if died > 0 {
			longest = max(longest, w.Now()-max(since[id], died))
		}
	}
	for _, id := range cfg.Consensus.Members {
		cfg.Consensus.ID = id
		m, err := abcast.New(cfg, nil)
		if err != nil {
			return 0, err
		}
		h := sim.NewProcess[abcast.Input, abcast.Outcome](w, net, id, 1e-5)
		h.Outcome = func(out abcast.Outcome) {
			if d, ok := out.(abcast.Delivered); ok && d.Client == abcast.NewClient(0, uint64(id)) && d.Seq == seqs[id] {
				waited(id)
				w.After(5*time.Millisecond, func() { broadcast(id) })
			}
		}
		hosts[id] = h
		h.Start(m)
	}
	for _, id := range clients {
		broadcast(id)
	}
	w.Run(500*time.Millisecond + w.Between(0, cfg.Consensus.Heartbeat))
	died = w.Now()
	hosts[1].Crash()
	w.Run(time.Millisecond)
	for _, id := range cfg.Consensus.Members[1:] {
		hosts[id].Step(abcast.Suspect{Node: 1, Suspected: true})
	}
	w.Run(time.Second)
	for _, id := range clients {
		waited(id)
		if seqs[id] < 20 {
			return 0, fmt.Errorf("seed %d: member %d has ordered %d messages in a second and a half", seed, id, seqs[id])
		}
	}
	return longest, nil
}

// A leader's death holds up no broadcast for a Retry, of any member, whether or not messages go
// to the leader alone as long as it lives.
func TestLeaderDies(t *testing.T) {
	for _, n := range []int{3, 5} {
		for _, clients := range [][]machine.NodeID{{2}, {3}, {2, 3}} {
			for _, direct := range []bool{false, true} {
				var all []time.Duration
				for seed := range uint64(*deaths) {
					longest, err := death(seed, n, direct, clients...)
					if err != nil {
						t.Fatal(err)
					}
					if longest > 60*time.Millisecond {
						t.Errorf("%d members, clients at %v, direct %v, seed %d: somebody waits for %v", n, clients, direct, seed, longest)
					}
					all = append(all, longest)
				}
				slices.Sort(all)
				t.Logf("%d members, clients at %v, direct %v: median %v, longest %v", n, clients, direct, all[len(all)/2], all[len(all)-1])
			}
		}
	}
}

var deaths = flag.Int("deaths", 2, "how often a leader dies, in each kind of group")
