package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/abcastsim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// measuredRow is a row of Figure 5, measured between real members. Bytes are those of messages,
// as they are encoded; frames and their overhead are in Frames and WireBytes.
type measuredRow struct {
	Algorithm  string `json:"algorithm"` // fastct or ct96
	Members    int    `json:"members"`
	Lambda     uint64 `json:"lambda,omitempty"`
	Broadcasts int    `json:"broadcasts"` // one at a time, each with an instance of its own
	// Instances are those, and some that order nothing: a member that has the message takes
	// part before it is where it is proposed.
	Instances uint64 `json:"instances"`
	// Messages and Bytes are of consensus and leases, as in the simulated counts.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	// Submits are the messages that carry payloads to all.
	Submits     uint64 `json:"submits"`
	SubmitBytes uint64 `json:"submit_bytes"`
	// Heartbeats are the messages that were sent meanwhile though nothing had to be ordered.
	// They are in none of the above.
	Heartbeats     uint64 `json:"heartbeats"`
	HeartbeatBytes uint64 `json:"heartbeat_bytes"`
	// Frames and WireBytes are the connections' totals of all this, heartbeats included. Pings
	// are not.
	Frames    uint64 `json:"frames"`
	WireBytes uint64 `json:"wire_bytes"`
	// Median and P99 are of the time from a broadcast to its delivery at the same member.
	Median float64 `json:"median_ms"`
	P99    float64 `json:"p99_ms"`
}

// silence is the timeout of suspicion: so long that a message that stays away on a busy machine
// is late and not lost. A member asks again after a quarter of it, as the simulated members do.
const silence = 4 * time.Second

// measureFigure5 broadcasts over members in this process, with logs below dir, for each row
// of the figure.
func measureFigure5(ctx context.Context, dir string, broadcasts int, sizes []int) (rows []measuredRow, err error) {
	var lambdas []uint64
	for _, p := range abcastsim.PaperFigure5 {
		lambdas = append(lambdas, p.Lambda)
	}
	lambdas = append(lambdas, 0) // CT96
	line := cli.NewProgress(os.Stderr, len(sizes)*len(lambdas), "rows measured over sockets")
	defer line.Clear()
	for _, n := range sizes {
		for _, lambda := range lambdas {
			line.Show(len(rows), 0)
			row, err := measureRow(ctx, dir, n, lambda, broadcasts)
			if err != nil {
				return nil, fmt.Errorf("%d members, λ = %s, over sockets: %w", n, lambdaName(lambda), err)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func measureRow(ctx context.Context, dir string, n int, lambda uint64, broadcasts int) (row measuredRow, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute+time.Duration(broadcasts)*time.Second)
	defer cancel()
	if dir, err = os.MkdirTemp(dir, "tenure-bench-"); err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	g, err := startStable(dir, n, lambda)
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return row, err
	}
	if err := g.connected(ctx); err != nil {
		return row, err
	}
	row = measuredRow{Algorithm: "fastct", Members: n, Lambda: lambda, Broadcasts: broadcasts}
	if lambda == 0 {
		row.Algorithm = "ct96"
	}
	for range 10 { // a leader is trusted, and leases begin anywhere
		if _, err := g.broadcast(ctx); err != nil {
			return row, err
		}
	}
	before, instances := g.total(), g[0].Stats().Instances
	var times []time.Duration
	for range broadcasts {
		took, err := g.broadcast(ctx)
		if err != nil {
			return row, err
		}
		times = append(times, took)
	}
	if err := g.written(ctx, before); err != nil {
		return row, err
	}
	row.add(g.total(), before)
	row.Instances = g[0].Stats().Instances - instances
	slices.Sort(times)
	row.Median, row.P99 = times[len(times)/2].Seconds()*1000, times[len(times)*99/100].Seconds()*1000
	return row, nil
}

// stable is a group without failures, in which one member broadcasts at a time.
type stable []*broadcast.Node

func startStable(dir string, n int, lambda uint64) (g stable, err error) {
	ids, listeners, addrs, err := loopback(n)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		node, err := broadcast.Start(broadcast.Config{
			ID: id, Group: 1, Members: addrs, Listener: listeners[id], Dir: fmt.Sprintf("%s/%d", dir, id),
			Algorithm: figure5(lambda), Timeout: silence, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			return g, err
		}
		g = append(g, node)
	}
	return g, nil
}

// figure5 is the algorithm of the paper's figure: each lease is for lambda instances, is asked for
// when an instance needs it, and messages go to all members. Without leases it is CT96.
func figure5(lambda uint64) func(*abcast.Config) {
	return func(c *abcast.Config) {
		f := &c.Consensus
		f.Plain, f.Lambda, f.Fixed = lambda == 0, max(lambda, 1), true
		f.Spread, f.Prefetch, c.Direct = false, false, false
		c.Pipeline = 1
	}
}

// connected waits until all reach each other: earlier messages are lost, and a member would
// wait to send them again.
func (g stable) connected(ctx context.Context) error {
	for _, node := range g {
		for {
			up := 0
			for _, s := range node.Stats().Peers {
				if s.Connected {
					up++
				}
			}
			if up == len(g)-1 {
				break
			}
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// broadcast has a message of 100 bytes ordered and delivered at all members, and returns how
// long its sender waited. The sender does not lead.
func (g stable) broadcast(ctx context.Context) (took time.Duration, err error) {
	sender := g[len(g)-1]
	if sender.Leader() == machine.NodeID(len(g)) {
		sender = g[0]
	}
	began := time.Now()
	position, err := sender.Broadcast(ctx, make([]byte, 100))
	took = time.Since(began)
	if err != nil {
		return 0, err
	}
	for _, node := range g {
		for _, err := range node.Deliver(ctx, position) {
			if err != nil {
				return 0, err
			}
			break
		}
	}
	return took, nil
}

// written waits until the frames of what was sent since before are written, which is when they count. Frames that
// a connection has lost never are: it waits for a second at most.
func (g stable) written(ctx context.Context, before measuredRow) error {
	for began := time.Now(); time.Since(began) < time.Second; {
		var sent measuredRow
		if sent.add(g.total(), before); sent.WireBytes > sent.Bytes+sent.SubmitBytes+sent.HeartbeatBytes {
			break
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// total is what all have sent so far.
func (g stable) total() (sum measuredRow) {
	for _, node := range g {
		s := node.Stats()
		sum.Messages += s.Consensus.Messages + s.Leases.Messages
		sum.Bytes += s.Consensus.Bytes + s.Leases.Bytes
		sum.Submits += s.Submits.Messages
		sum.SubmitBytes += s.Submits.Bytes
		sum.Heartbeats += s.Heartbeats.Messages
		sum.HeartbeatBytes += s.Heartbeats.Bytes
		for _, p := range s.Peers {
			sum.Frames += p.FramesSent
			sum.WireBytes += p.BytesSent
		}
	}
	return sum
}

// add adds the difference of two totals.
func (r *measuredRow) add(after, before measuredRow) {
	r.Messages += after.Messages - before.Messages
	r.Bytes += after.Bytes - before.Bytes
	r.Submits += after.Submits - before.Submits
	r.SubmitBytes += after.SubmitBytes - before.SubmitBytes
	r.Heartbeats += after.Heartbeats - before.Heartbeats
	r.HeartbeatBytes += after.HeartbeatBytes - before.HeartbeatBytes
	r.Frames += after.Frames - before.Frames
	r.WireBytes += after.WireBytes - before.WireBytes
}

func (g stable) close() (err error) {
	for _, node := range g {
		err = errors.Join(err, node.Close())
	}
	return err
}

func measuredTable(w io.Writer, rows []measuredRow) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "\n%d BROADCASTS OVER SOCKETS\tMEMBERS\tLAMBDA\tINSTANCES\tMESSAGES\tBYTES\tSUBMITS\tBYTES\tHEARTBEATS\tFRAMES\tBYTES\tMEDIAN\tP99\t\n", rows[0].Broadcasts)
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.2f ms\t%.2f ms\t\n", r.Algorithm, r.Members, lambdaName(r.Lambda),
			r.Instances, r.Messages, r.Bytes, r.Submits, r.SubmitBytes, r.Heartbeats, r.Frames, r.WireBytes, r.Median, r.P99)
	}
	tw.Flush()
}
