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

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/rival"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// broadcastRun is what one kind of group did in one turn.
type broadcastRun struct {
	Round   int     `json:"round"`
	Turn    int     `json:"turn"` // in the round, with so many clients
	Kind    string  `json:"kind"` // fastct, ct96 or raft
	Clients int     `json:"clients"`
	Payload int     `json:"payload_bytes"`
	Rate    float64 `json:"messages_per_s"`
	Median  float64 `json:"median_ms"`
	P99     float64 `json:"p99_ms"`
	CPU     float64 `json:"cpu_us_per_message"` // of all three
}

// broadcastFailure is how long nothing was ordered after the leader of a group failed, in
// milliseconds: the longest time without a message.
type broadcastFailure struct {
	Round   int     `json:"round"`
	Kind    string  `json:"kind"`
	Killed  float64 `json:"leader_crash_ms"`
	Stopped float64 `json:"leader_hangs_ms"`
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
			done, err = g[id].work(orderedWork{Clients: 1})
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
			done, failed := g[(leader+i-1)%3+1].work(work)
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

// fail kills the leader, or stops it, while a client at another member broadcasts. It returns
// the longest time between two messages from then on, for some time, and the leader of that
// time.
func (g orderedGroup) fail(leader machine.NodeID, hangs bool, after time.Duration) (gap time.Duration, next machine.NodeID, err error) {
	const before = 300 * time.Millisecond
	var done orderedDone
	var failed error
	var other sync.WaitGroup
	other.Go(func() { done, failed = g[leader%3+1].work(orderedWork{Clients: 1, Payload: 1, Length: before + after}) })
	time.Sleep(before)
	at := clock.Now()
	err = g[leader].fail(hangs)
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

// broadcastBench is the plan of a measurement.
type broadcastBench struct {
	clients         []int
	payload, rounds int
	length          time.Duration
	crash           bool
	progress        io.Writer
}

// orderedKinds are the kinds that are compared. The yardstick of the others is last.
var orderedKinds = []string{"fastct", "ct96", "raft"}

// turn is how long a kind is measured before it is another's turn. Other work of the machine
// lasts longer, so that it does not hit one kind alone.
const turn = 250 * time.Millisecond

// run measures the kinds of groups, in new processes in each round.
func (b broadcastBench) run(ctx context.Context, dir string) (report broadcastReport, err error) {
	report.Rounds = b.rounds
	for round := 1; round <= b.rounds; round++ {
		at := filepath.Join(dir, fmt.Sprint(round))
		runs, err := b.rates(ctx, at)
		if err != nil {
			return report, err
		}
		for _, r := range runs {
			r.Round = round
			report.Runs = append(report.Runs, r)
		}
		for _, kind := range orderedKinds {
			if !b.crash {
				break
			}
			f, err := b.measureFailures(ctx, kind, at)
			if err != nil {
				return report, err
			}
			f.Round = round
			report.Failures = append(report.Failures, f)
		}
		if err := os.RemoveAll(at); err != nil {
			return report, err
		}
	}
	fmt.Fprintln(b.progress)
	report.Summary = summaries(report.Runs, report.Failures)
	return report, nil
}

// rates measures a group of each kind, in turns.
func (b broadcastBench) rates(ctx context.Context, dir string) (runs []broadcastRun, err error) {
	groups, leaders := map[string]orderedGroup{}, map[string]machine.NodeID{}
	defer func() {
		for _, g := range groups {
			if err != nil {
				g.kill()
			} else {
				err = g.close()
			}
		}
	}()
	for _, kind := range orderedKinds {
		if groups[kind], leaders[kind], err = startOrdered(ctx, kind, filepath.Join(dir, "rates"), 0); err != nil {
			return nil, err
		}
	}
	for _, c := range b.clients {
		fmt.Fprintf(b.progress, "\r%d clients   ", c)
		for i := range b.turns() {
			for k := range orderedKinds {
				kind := orderedKinds[(i+k)%len(orderedKinds)] // no kind is always the one behind another
				r, err := groups[kind].measure(kind, leaders[kind], c, b.payload, b.length/time.Duration(b.turns()))
				if err != nil {
					return nil, err
				}
				r.Turn = i + 1
				runs = append(runs, r)
			}
		}
	}
	return runs, nil
}

// turns is how many each kind has with each number of clients.
func (b broadcastBench) turns() int { return max(int(b.length/turn), 1) }

// measureFailures has the leader of a kind of group fail in both ways.
func (b broadcastBench) measureFailures(ctx context.Context, kind, dir string) (f broadcastFailure, err error) {
	f.Kind = kind
	for _, way := range []struct {
		how   string
		hangs bool
		took  *float64
	}{{"killed", false, &f.Killed}, {"stopped", true, &f.Stopped}} {
		fmt.Fprintf(b.progress, "\r%s, leader %s   ", kind, way.how)
		gap, _, err := failure(ctx, kind, filepath.Join(dir, way.how), way.hangs, 3*time.Second)
		if err != nil {
			return f, fmt.Errorf("%s, leader %s: %w", kind, way.how, err)
		}
		*way.took = gap.Seconds() * 1000
	}
	return f, nil
}

func broadcastCommand() *cobra.Command {
	var o cli.Output
	var b broadcastBench
	var dir string
	cmd := &cobra.Command{
		Use:   "broadcast",
		Short: "Atomic broadcast against raft: three processes, sockets and fsyncs",
		Long: `Measures package broadcast with FastCT and with CT96, and beside it proposals through
go.etcd.io/raft, in the same run: three processes, over the loopback, each with its own
log and fsync, the same payloads and bounds of batches, and clients spread over the
members, the leader first. Then the leader is killed: raft finds that by its election timeout (200 to 400 ms
here), package broadcast by the connections that close. In another group it is stopped
(SIGSTOP) while its connections stay open: then package broadcast, too, has only a
timeout, of 200 ms. The kinds take turns, for --rounds; what is printed are medians, and
the least and the greatest rate. -o json has each round besides.`,
		Example: "  tenure-lab broadcast\n  tenure-lab broadcast --clients 1,64 --payload 1000 --rounds 5 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch {
			case len(b.clients) == 0 || slices.Min(b.clients) < 1 || b.payload < 0 || b.payload > broadcast.MessageBytesMax || b.length <= 0:
				return cli.Usagef("--clients %v, --payload %d, --time %v: want at least one client, up to %d bytes, and some time", b.clients, b.payload, b.length, broadcast.MessageBytesMax)
			case b.rounds < 1:
				return cli.Usagef("--rounds %d: want at least one", b.rounds)
			}
			ctx, stop := cli.UntilSignal(cmd.Context())
			defer stop()
			if dir, err = os.MkdirTemp(dir, "tenure-bench-"); err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			if inMemory(dir) {
				fmt.Fprintf(cmd.ErrOrStderr(), "tenure-lab: %s is in memory, where an fsync costs nothing: name a directory on a disk with --dir\n", filepath.Dir(dir))
			}
			b.progress = cmd.ErrOrStderr()
			report, err := b.run(ctx, dir)
			if ctx.Err() != nil {
				return cli.Interrupted(context.Cause(ctx)) // which has ended the processes, and that is what went wrong
			}
			if err != nil {
				return err
			}
			return o.Print(cmd.OutOrStdout(), report, func() { report.table(cmd.OutOrStdout()) })
		},
	}
	cmd.Flags().IntSliceVar(&b.clients, "clients", []int{1, 16, 256}, "how many clients broadcast at a time")
	cmd.Flags().IntVar(&b.payload, "payload", 100, "`bytes` of a message")
	cmd.Flags().DurationVar(&b.length, "time", 3*time.Second, "`duration` of each measurement in a round, in turns")
	cmd.Flags().BoolVar(&b.crash, "crash", true, "kill and stop leaders in the end, and see how long nothing is ordered")
	cmd.Flags().IntVar(&b.rounds, "rounds", 3, "how often all this is `done`")
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` for the logs (default that of temporary files)")
	o.Register(cmd)
	return cmd
}
