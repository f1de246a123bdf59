package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/broadcast/rival"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/peer"
)

// broadcastRun is what one kind of group did.
type broadcastRun struct {
	Kind     string  `json:"kind"` // fastct, ct96 or raft
	Clients  int     `json:"clients"`
	Payload  int     `json:"payload_bytes"`
	Rate     float64 `json:"messages_per_s"`
	Median   float64 `json:"median_ms"`
	P99      float64 `json:"p99_ms"`
	Recovery float64 `json:"leader_crash_ms,omitempty"` // longest time without a message after the leader ended
}

// ordered is a member of any kind.
type ordered interface {
	Leader() machine.NodeID
	Close() error
}

// orderedGroup is three members on the loopback.
type orderedGroup struct {
	members map[machine.NodeID]ordered
	say     func(ctx context.Context, at machine.NodeID, payload []byte) error
}

func startOrdered(kind, dir string) (g orderedGroup, err error) {
	g.members = map[machine.NodeID]ordered{}
	addrs, listeners := map[machine.NodeID]string{}, map[machine.NodeID]net.Listener{}
	ids := []machine.NodeID{1, 2, 3}
	for _, id := range ids {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return g, err
		}
		listeners[id], addrs[id] = ln, ln.Addr().String()
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	for _, id := range ids {
		sub := filepath.Join(dir, fmt.Sprintf("%s-%d", kind, id))
		if kind == "raft" {
			g.members[id], err = rival.Start(peer.Config{Self: id, ClusterID: 1, Listener: listeners[id], Peers: addrs, Logger: quiet}, ids, sub)
		} else {
			g.members[id], err = broadcast.Start(broadcast.Config{ID: id, Group: 1, Members: addrs, Listener: listeners[id], Dir: sub, Plain: kind == "ct96", Logger: quiet})
		}
		if err != nil {
			return g, errors.Join(err, g.close())
		}
	}
	g.say = func(ctx context.Context, at machine.NodeID, payload []byte) error {
		switch m := g.members[at].(type) {
		case *broadcast.Node:
			_, err := m.Broadcast(ctx, payload)
			return err
		case *rival.Node:
			return m.Broadcast(ctx, payload)
		}
		return nil
	}
	return g, nil
}

func (g orderedGroup) close() (err error) {
	for _, m := range g.members {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}

// measure lets clients, spread over the members, the leader first, broadcast one message
// after the other.
func (g orderedGroup) measure(kind string, clients, payload int, length time.Duration) (r broadcastRun, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), length+10*time.Second)
	defer cancel()
	r = broadcastRun{Kind: kind, Clients: clients, Payload: payload}
	for id := machine.NodeID(1); id <= 3; id++ {
		if err := g.say(ctx, id, make([]byte, payload)); err != nil {
			return r, fmt.Errorf("%s: the first message at member %d: %w", kind, id, err)
		}
	}
	leader := g.members[1].Leader()
	var all sync.WaitGroup
	var mu sync.Mutex
	var times []time.Duration
	began := time.Now()
	for i := range clients {
		all.Go(func() {
			var own []time.Duration
			for time.Since(began) < length {
				t := time.Now()
				if failed := g.say(ctx, (leader+machine.NodeID(i)-1)%3+1, make([]byte, payload)); failed != nil {
					mu.Lock()
					err = failed
					mu.Unlock()
					return
				}
				own = append(own, time.Since(t))
			}
			mu.Lock()
			times = append(times, own...)
			mu.Unlock()
		})
	}
	all.Wait()
	if err != nil {
		return r, err
	}
	slices.Sort(times)
	r.Rate = float64(len(times)) / time.Since(began).Seconds()
	r.Median = times[len(times)/2].Seconds() * 1000
	r.P99 = times[len(times)*99/100].Seconds() * 1000
	return r, nil
}

// crash ends the leader while a client at another member broadcasts, and returns the
// longest time between two messages from then on.
func (g orderedGroup) crash() (longest time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	at := machine.NodeID(1)
	leader := g.members[at].Leader()
	if leader == at {
		at = 2
	}
	var last atomic.Int64
	var done sync.WaitGroup
	began := time.Now()
	var killed atomic.Int64
	stop := make(chan struct{})
	var gap time.Duration
	done.Go(func() {
		last.Store(int64(time.Since(began)))
		for ctx.Err() == nil {
			select {
			case <-stop:
				return
			default:
			}
			if g.say(ctx, at, []byte("x")) != nil {
				return
			}
			now := time.Since(began)
			if k := killed.Load(); k > 0 && int64(now) > k {
				gap = max(gap, now-max(time.Duration(last.Load()), time.Duration(k)))
			}
			last.Store(int64(now))
		}
	})
	time.Sleep(300 * time.Millisecond)
	killed.Store(int64(time.Since(began)))
	dead := g.members[leader]
	delete(g.members, leader)
	err = dead.Close()
	time.Sleep(3 * time.Second)
	close(stop)
	done.Wait()
	return gap, err
}

func benchBroadcastCommand() *cobra.Command {
	var o output
	var length time.Duration
	var clients []int
	var payload int
	var dir string
	var crash bool
	cmd := &cobra.Command{
		Use:   "broadcast",
		Short: "Atomic broadcast against raft: three members, sockets and fsyncs",
		Long: `Measures package broadcast with FastCT and with CT96, and beside it proposals through
go.etcd.io/raft, in the same run: three members in this process, over the loopback, each
with its own log and fsync, the same payloads and bounds of batches, and clients spread
over the members. Then the leader ends: raft finds that by its election timeout (200 to
400 ms here), package broadcast by the connections that close.`,
		Example: "  tenure bench broadcast\n  tenure bench broadcast --clients 1,64 --payload 1000 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if len(clients) == 0 || slices.Min(clients) < 1 || payload < 0 || payload > broadcast.MessageBytesMax || length <= 0 {
				return fmt.Errorf("--clients %v, --payload %d, --time %v: want at least one client, up to %d bytes, and some time", clients, payload, length, broadcast.MessageBytesMax)
			}
			if dir, err = os.MkdirTemp(dir, "tenure-bench-"); err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			runs := []broadcastRun{}
			for _, kind := range []string{"fastct", "ct96", "raft"} {
				g, err := startOrdered(kind, dir)
				if err != nil {
					return err
				}
				for i, c := range clients {
					fmt.Fprintf(cmd.ErrOrStderr(), "\r%s, %d clients   ", kind, c)
					r, err := g.measure(kind, c, payload, length)
					if err != nil {
						return errors.Join(err, g.close())
					}
					if i == len(clients)-1 && crash {
						gap, err := g.crash()
						if err != nil {
							return errors.Join(err, g.close())
						}
						r.Recovery = gap.Seconds() * 1000
					}
					runs = append(runs, r)
				}
				if err := g.close(); err != nil {
					return err
				}
			}
			fmt.Fprintln(cmd.ErrOrStderr())
			return o.print(cmd.OutOrStdout(), runs, func() { broadcastTable(cmd.OutOrStdout(), runs) })
		},
	}
	cmd.Flags().IntSliceVar(&clients, "clients", []int{1, 16, 256}, "how many clients broadcast at a time")
	cmd.Flags().IntVar(&payload, "payload", 100, "`bytes` of a message")
	cmd.Flags().DurationVar(&length, "time", 3*time.Second, "`duration` of each measurement")
	cmd.Flags().BoolVar(&crash, "crash", true, "end the leader in the end, and see how long nothing is ordered")
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` for the logs (default that of temporary files)")
	outputFlag(cmd, &o)
	return cmd
}

func broadcastTable(w io.Writer, runs []broadcastRun) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "KIND\tCLIENTS\tMESSAGES/S\tMEDIAN\tP99\tLEADER ENDS\t")
	for _, r := range runs {
		crash := ""
		if r.Recovery > 0 {
			crash = fmt.Sprintf("%.0f ms", r.Recovery)
		}
		fmt.Fprintf(tw, "%s\t%d\t%.0f\t%.2f ms\t%.2f ms\t%s\t\n", r.Kind, r.Clients, r.Rate, r.Median, r.P99, crash)
	}
	tw.Flush()
}
