package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/broadcast/rival"
	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/machine"
)

// broadcastRun is what one kind of group did.
type broadcastRun struct {
	Kind     string  `json:"kind"` // fastct, ct96 or raft
	Clients  int     `json:"clients"`
	Payload  int     `json:"payload_bytes"`
	Rate     float64 `json:"messages_per_s"`
	Median   float64 `json:"median_ms"`
	P99      float64 `json:"p99_ms"`
	CPU      float64 `json:"cpu_us_per_message"`        // of all three
	Recovery float64 `json:"leader_crash_ms,omitempty"` // longest time without a message after the leader was killed
	Hang     float64 `json:"leader_hangs_ms,omitempty"` // the same after it was stopped
}

// orderedGroup is three members on the loopback, each a process.
type orderedGroup map[machine.NodeID]*orderedMember

// startOrdered starts a group, and returns when each has had a message ordered.
func startOrdered(kind, dir string, timeout time.Duration) (g orderedGroup, leader machine.NodeID, err error) {
	ids, listeners, addrs, err := loopback(3)
	if err != nil {
		return nil, 0, err
	}
	g = orderedGroup{}
	for _, id := range ids {
		cfg := orderedConfig{Kind: kind, ID: id, Members: addrs, Dir: filepath.Join(dir, fmt.Sprintf("%s-%d", kind, id)), Timeout: timeout}
		m, failed := startOrderedMember(cfg, listeners[id])
		if failed == nil {
			g[id] = m
		}
		err = errors.Join(err, failed, listeners[id].Close())
	}
	for _, id := range ids {
		if err == nil {
			var done orderedDone
			done, err = g[id].does(orderedWork{Clients: 1})
			leader = done.Leader
		}
	}
	if err != nil {
		g.kill()
		return nil, 0, fmt.Errorf("%s: %w", kind, err)
	}
	return g, leader, nil
}

// loopback returns members' IDs, from 1, and where they listen.
func loopback(n int) (ids []machine.NodeID, listeners map[machine.NodeID]net.Listener, addrs map[machine.NodeID]string, err error) {
	addrs, listeners = map[machine.NodeID]string{}, map[machine.NodeID]net.Listener{}
	for i := range n {
		id := machine.NodeID(i + 1)
		if listeners[id], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, nil, nil, err
		}
		ids, addrs[id] = append(ids, id), listeners[id].Addr().String()
	}
	return ids, listeners, addrs, nil
}

func (g orderedGroup) close() (err error) {
	for _, m := range g {
		err = errors.Join(err, m.close())
	}
	return err
}

func (g orderedGroup) kill() {
	for _, m := range g {
		m.kill()
	}
}

// measure lets clients broadcast, spread over the members, the leader first.
func (g orderedGroup) measure(kind string, leader machine.NodeID, clients, payload int, length time.Duration) (r broadcastRun, err error) {
	r = broadcastRun{Kind: kind, Clients: clients, Payload: payload}
	var all sync.WaitGroup
	var mu sync.Mutex
	var times []time.Duration
	var cpu time.Duration
	for i := range machine.NodeID(3) {
		work := orderedWork{Clients: (clients + 2 - int(i)) / 3, Payload: payload, Length: length}
		all.Go(func() {
			done, failed := g[(leader+i-1)%3+1].does(work)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failed)
			times = append(times, done.Times...)
			cpu += done.CPU
		})
	}
	all.Wait()
	if err != nil {
		return r, fmt.Errorf("%s, %d clients: %w", kind, clients, err)
	}
	slices.Sort(times)
	r.Rate = float64(len(times)) / length.Seconds()
	r.Median = times[len(times)/2].Seconds() * 1000
	r.P99 = times[len(times)*99/100].Seconds() * 1000
	r.CPU = float64(cpu.Microseconds()) / float64(len(times))
	return r, nil
}

// fail kills the leader, or stops it, while a client at another member broadcasts, and
// returns the longest time between two messages from then on, for some time.
func (g orderedGroup) fail(leader machine.NodeID, hangs bool, after time.Duration) (gap time.Duration, err error) {
	const before = 300 * time.Millisecond
	var done orderedDone
	var failed error
	var other sync.WaitGroup
	other.Go(func() { done, failed = g[leader%3+1].does(orderedWork{Clients: 1, Payload: 1, Length: before + after}) })
	time.Sleep(before)
	at := clock.Now()
	err = g[leader].fails(hangs)
	other.Wait()
	last := at
	for _, end := range done.Ends {
		if end > at {
			gap = max(gap, end.Sub(last))
			last = end
		}
	}
	if last == at && failed == nil {
		failed = errors.New("nothing was ordered after the leader failed")
	}
	return gap, errors.Join(err, failed)
}

// failure is how long nothing is ordered after the leader of a new group failed.
func failure(kind, dir string, hangs bool, after time.Duration) (gap time.Duration, err error) {
	g, leader, err := startOrdered(kind, dir, 10*rival.Tick)
	if err != nil {
		return 0, err
	}
	defer g.kill()
	return g.fail(leader, hangs, after)
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
		Short: "Atomic broadcast against raft: three processes, sockets and fsyncs",
		Long: `Measures package broadcast with FastCT and with CT96, and beside it proposals through
go.etcd.io/raft, in the same run: three processes, over the loopback, each with its own
log and fsync, the same payloads and bounds of batches, and clients spread over the
members. Then the leader is killed: raft finds that by its election timeout (200 to 400 ms
here), package broadcast by the connections that close. In another group it is stopped
(SIGSTOP) while its connections stay open: then package broadcast, too, has only a
timeout, of 200 ms.`,
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
				g, leader, err := startOrdered(kind, filepath.Join(dir, "rates"), 0)
				if err != nil {
					return err
				}
				for _, c := range clients {
					fmt.Fprintf(cmd.ErrOrStderr(), "\r%s, %d clients   ", kind, c)
					r, err := g.measure(kind, leader, c, payload, length)
					if err != nil {
						g.kill()
						return err
					}
					runs = append(runs, r)
				}
				if err := g.close(); err != nil {
					return err
				}
				if !crash {
					continue
				}
				last := &runs[len(runs)-1]
				for _, f := range []struct {
					how   string
					hangs bool
					took  *float64
				}{{"killed", false, &last.Recovery}, {"stopped", true, &last.Hang}} {
					fmt.Fprintf(cmd.ErrOrStderr(), "\r%s, leader %s   ", kind, f.how)
					gap, err := failure(kind, filepath.Join(dir, f.how), f.hangs, 3*time.Second)
					if err != nil {
						return fmt.Errorf("%s, leader %s: %w", kind, f.how, err)
					}
					*f.took = gap.Seconds() * 1000
				}
			}
			fmt.Fprintln(cmd.ErrOrStderr())
			return o.print(cmd.OutOrStdout(), runs, func() { broadcastTable(cmd.OutOrStdout(), runs) })
		},
	}
	cmd.Flags().IntSliceVar(&clients, "clients", []int{1, 16, 256}, "how many clients broadcast at a time")
	cmd.Flags().IntVar(&payload, "payload", 100, "`bytes` of a message")
	cmd.Flags().DurationVar(&length, "time", 3*time.Second, "`duration` of each measurement")
	cmd.Flags().BoolVar(&crash, "crash", true, "kill and stop leaders in the end, and see how long nothing is ordered")
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` for the logs (default that of temporary files)")
	outputFlag(cmd, &o)
	return cmd
}

func broadcastTable(w io.Writer, runs []broadcastRun) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "KIND\tCLIENTS\tMESSAGES/S\tMEDIAN\tP99\tCPU\tLEADER KILLED\tLEADER STOPPED\t")
	for _, r := range runs {
		crash, hang := "", ""
		if r.Recovery > 0 {
			crash, hang = fmt.Sprintf("%.0f ms", r.Recovery), fmt.Sprintf("%.0f ms", r.Hang)
		}
		fmt.Fprintf(tw, "%s\t%d\t%.0f\t%.2f ms\t%.2f ms\t%.1f µs\t%s\t%s\t\n", r.Kind, r.Clients, r.Rate, r.Median, r.P99, r.CPU, crash, hang)
	}
	tw.Flush()
}
