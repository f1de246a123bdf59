package abcast_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// BenchmarkTrim orders 100 messages and trims, as package broadcast does, with so many
// clients that are remembered. longest-ms is the longest that a Trim has taken, with all that
// a new log begins with: once in so many messages as that has bytes.
func BenchmarkTrim(b *testing.B) {
	for _, clients := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			cfg := config()
			cfg.Clients, cfg.BatchCount, cfg.BatchBytes, cfg.PendingCount, cfg.PendingBytes = clients, 1000, 1<<20, 1<<16, 1<<24
			m, err := abcast.New(cfg, nil)
			if err != nil {
				b.Fatal(err)
			}
			a := &alone{m: m}
			seqs := make([]uint64, clients)
			next := 0
			broadcasts := func(n int) {
				for range n {
					k := next * 7919 % clients
					next++
					seqs[k]++
					a.step(abcast.Broadcast{Message: abcast.Message{Client: abcast.NewClient(0, uint64(k)), Seq: seqs[k], Payload: make([]byte, 100)}})
					a.log, a.delivered = nil, nil
				}
			}
			broadcasts(clients)
			a.step(abcast.Trim{Position: m.Position()})
			var longest time.Duration
			for b.Loop() {
				broadcasts(100)
				before := time.Now()
				if t := (abcast.Trim{Position: m.Position()}); m.Worthwhile(t) {
					a.step(t)
					m.Records()
				}
				longest = max(longest, time.Since(before))
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
		})
	}
}

// BenchmarkInstall is what a member does that takes in another's state, in one step.
func BenchmarkInstall(b *testing.B) {
	for _, clients := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			cfg := config()
			cfg.Clients = clients
			state := abcast.State{Instance: 9, Position: 9, Group: abcast.Group{First: 1, Members: []abcast.Member{{ID: 1}, {ID: 2}}}, Clients: clients}
			for k := range clients {
				state.Sessions = append(state.Sessions, abcast.Session{Client: abcast.NewClient(0, uint64(k)), Upto: 1, Position: 1})
			}
			cfg.Consensus.Members = []machine.NodeID{1, 2}
			for b.Loop() {
				b.StopTimer()
				m, err := abcast.New(cfg, nil)
				if err != nil {
					b.Fatal(err)
				}
				m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: abcast.Transfer{Base: abcast.Base{Order: state, Position: 9}}})
				b.StartTimer()
				m.Step(machine.Now{}, abcast.Restored{Position: 9})
				if m.Position() != 9 {
					b.Fatal("it was not taken in")
				}
			}
		})
	}
}
