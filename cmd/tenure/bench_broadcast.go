package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/broadcast/rival"
	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/machine"
)

// broadcastRun is what one kind of group did in one round.
type broadcastRun struct {
	Round    int     `json:"round"`
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

// startOrdered starts a group, and returns when each has had a message ordered. Its
// processes end with the context.
func startOrdered(ctx context.Context, kind, dir string, timeout time.Duration) (g orderedGroup, leader machine.NodeID, err error) {
	ids, listeners, addrs, err := loopback(3)
	if err != nil {
		return nil, 0, err
	}
	g = orderedGroup{}
	for _, id := range ids {
		cfg := orderedConfig{Kind: kind, ID: id, Members: addrs, Dir: filepath.Join(dir, fmt.Sprintf("%s-%d", kind, id)), Timeout: timeout}
		m, failed := startOrderedMember(ctx, cfg, listeners[id])
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

// fail kills the leader, or stops it, while a client at another member broadcasts. It
// returns the longest time between two messages from then on, for some time, and who leads
// then.
func (g orderedGroup) fail(leader machine.NodeID, hangs bool, after time.Duration) (gap time.Duration, next machine.NodeID, err error) {
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
	return gap, done.Leader, errors.Join(err, failed)
}

// failTimeout is after what silence a leader that hangs is suspected, to be compared with
// rival's least.
const failTimeout = 10 * rival.Tick

// failure is how long nothing is ordered after the leader of a new group failed, and
// whether another one leads then.
func failure(ctx context.Context, kind, dir string, hangs bool, after time.Duration) (gap time.Duration, replaced bool, err error) {
	g, leader, err := startOrdered(ctx, kind, dir, failTimeout)
	if err != nil {
		return 0, false, err
	}
	defer g.kill()
	gap, next, err := g.fail(leader, hangs, after)
	return gap, next != leader && next != 0, err
}

// broadcastBench says what is measured.
type broadcastBench struct {
	clients         []int
	payload, rounds int
	length          time.Duration
	crash           bool
	progress        io.Writer
}

// run measures the kinds of groups in turns, so that what else the machine does from time to
// time is not one kind's alone.
func (b broadcastBench) run(ctx context.Context, dir string) (runs []broadcastRun, err error) {
	for round := range b.rounds {
		for _, kind := range []string{"fastct", "ct96", "raft"} {
			at := filepath.Join(dir, fmt.Sprint(round+1))
			list, err := b.kind(ctx, kind, at)
			if err != nil {
				return nil, err
			}
			for i := range list {
				list[i].Round = round + 1
			}
			runs = append(runs, list...)
			if err := os.RemoveAll(at); err != nil {
				return nil, err
			}
		}
	}
	fmt.Fprintln(b.progress)
	return runs, nil
}

// kind measures one kind of group in one round.
func (b broadcastBench) kind(ctx context.Context, kind, dir string) (runs []broadcastRun, err error) {
	g, leader, err := startOrdered(ctx, kind, filepath.Join(dir, "rates"), 0)
	if err != nil {
		return nil, err
	}
	for _, c := range b.clients {
		fmt.Fprintf(b.progress, "\r%s, %d clients   ", kind, c)
		r, err := g.measure(kind, leader, c, b.payload, b.length)
		if err != nil {
			g.kill()
			return nil, err
		}
		runs = append(runs, r)
	}
	if err := g.close(); err != nil || !b.crash {
		return runs, err
	}
	last := &runs[len(runs)-1]
	for _, f := range []struct {
		how   string
		hangs bool
		took  *float64
	}{{"killed", false, &last.Recovery}, {"stopped", true, &last.Hang}} {
		fmt.Fprintf(b.progress, "\r%s, leader %s   ", kind, f.how)
		gap, _, err := failure(ctx, kind, filepath.Join(dir, f.how), f.hangs, 3*time.Second)
		if err != nil {
			return nil, fmt.Errorf("%s, leader %s: %w", kind, f.how, err)
		}
		*f.took = gap.Seconds() * 1000
	}
	return runs, nil
}

func benchBroadcastCommand() *cobra.Command {
	var o output
	var b broadcastBench
	var dir string
	cmd := &cobra.Command{
		Use:   "broadcast",
		Short: "Atomic broadcast against raft: three processes, sockets and fsyncs",
		Long: `Measures package broadcast with FastCT and with CT96, and beside it proposals through
go.etcd.io/raft, in the same run: three processes, over the loopback, each with its own
log and fsync, the same payloads and bounds of batches, and clients spread over the
members. Then the leader is killed: raft finds that by its election timeout (200 to 400 ms
here), package broadcast by the connections that close. In another group it is stopped
(SIGSTOP) while its connections stay open: then package broadcast, too, has only a
timeout, of 200 ms. The kinds take turns, for --rounds; what is printed are medians, and
the least and the greatest rate. -o json has each round besides.`,
		Example: "  tenure bench broadcast\n  tenure bench broadcast --clients 1,64 --payload 1000 --rounds 5 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch {
			case len(b.clients) == 0 || slices.Min(b.clients) < 1 || b.payload < 0 || b.payload > broadcast.MessageBytesMax || b.length <= 0:
				return fmt.Errorf("--clients %v, --payload %d, --time %v: want at least one client, up to %d bytes, and some time", b.clients, b.payload, b.length, broadcast.MessageBytesMax)
			case b.rounds < 1:
				return fmt.Errorf("--rounds %d: want at least one", b.rounds)
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			if dir, err = os.MkdirTemp(dir, "tenure-bench-"); err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			if inMemory(dir) {
				fmt.Fprintf(cmd.ErrOrStderr(), "tenure: %s is in memory, where an fsync costs nothing: name a directory on a disk with --dir\n", filepath.Dir(dir))
			}
			b.progress = cmd.ErrOrStderr()
			runs, err := b.run(ctx, dir)
			if ctx.Err() != nil {
				return interrupted(context.Cause(ctx)) // which has ended the processes, and that is what went wrong
			}
			if err != nil {
				return err
			}
			report := broadcastReport{b.rounds, summaries(runs), runs}
			return o.print(cmd.OutOrStdout(), report, func() { report.table(cmd.OutOrStdout()) })
		},
	}
	cmd.Flags().IntSliceVar(&b.clients, "clients", []int{1, 16, 256}, "how many clients broadcast at a time")
	cmd.Flags().IntVar(&b.payload, "payload", 100, "`bytes` of a message")
	cmd.Flags().DurationVar(&b.length, "time", 3*time.Second, "`duration` of each measurement")
	cmd.Flags().BoolVar(&b.crash, "crash", true, "kill and stop leaders in the end, and see how long nothing is ordered")
	cmd.Flags().IntVar(&b.rounds, "rounds", 3, "how often each kind has its `turn`")
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` for the logs (default that of temporary files)")
	outputFlag(cmd, &o)
	return cmd
}
