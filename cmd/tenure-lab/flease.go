package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// fleaseBench is what tenure-lab flease prints.
type fleaseBench struct {
	Peers   int     `json:"peers"`
	TMaxS   float64 `json:"t_max_s"`
	Callers int     `json:"callers"`
	// Turns are acquisitions, each with its release, of one lease after the other.
	TurnsPerS   float64 `json:"turns_per_s"`
	TurnCPU     float64 `json:"turn_cpu_us"` // of all peers together, and of the callers
	AcquireP50  float64 `json:"acquire_p50_ms"`
	AcquireP99  float64 `json:"acquire_p99_ms"`
	Leases      int     `json:"leases"` // held at the same time
	TakenPerS   float64 `json:"taken_per_s"`
	RenewalsS   float64 `json:"renewals_per_s"`
	RenewalCPU  float64 `json:"renewal_cpu_us"` // of all peers together, and of whatever else this process does
	LatenessP99 float64 `json:"lateness_p99"`   // part of t_max by which a renewal came after its half
	LatenessMax float64 `json:"lateness_max"`
	Lost        int     `json:"lost"`
	// HeldBytes is memory of all peers together, so of an owner and of a cell's acceptors. With
	// fewer than bytesFrom leases it is not reported: the rest of the memory hides them.
	HeldBytes *float64 `json:"bytes_per_held,omitempty"`
	IdleBytes *float64 `json:"bytes_per_idle,omitempty"` // t_max and 3ε after the release
	CPUs      int      `json:"cpus"`
}

// bytesFrom is how many leases weigh enough to be weighed.
const bytesFrom = 1000

func fleaseCommand() *cobra.Command {
	var o cli.Output
	var peers, leases, callers int
	var tmax, d, hold time.Duration
	cmd := &cobra.Command{
		Use:   "flease",
		Short: "Peers of this machine: acquisitions, and very many leases that are held",
		Long: `Starts peers in this process, which speak TCP to each other, and waits for the end of
their first silence (t_max and 3ε). Then callers take and release leases for a while;
then leases are taken and held, and renewed at half of their time, while the lateness
of renewals is measured; then all are released, and what is left of them in memory is
measured when the peers have forgotten them.`,
		Example: "  tenure-lab flease --leases 10000 --t-max 5s --hold 10s\n  tenure-lab flease --leases 1000000 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if peers < 1 || leases < 0 || callers < 1 {
				return cli.Usagef("want at least one peer and one caller, and no negative number of leases")
			}
			if d <= 0 || hold <= 0 {
				return cli.Usagef("--duration and --hold are how long it is measured: give each a positive time")
			}
			b := fleaseBench{Peers: peers, TMaxS: tmax.Seconds(), Callers: callers, Leases: leases, CPUs: runtime.NumCPU()}
			if err := b.run(tmax, d, hold, os.Stderr); err != nil {
				return err
			}
			return o.Print(cmd.OutOrStdout(), b, func() { b.table(cmd.OutOrStdout()) })
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&peers, "peers", 3, "peers, all of them in this process")
	flags.IntVar(&leases, "leases", 100_000, "leases to hold")
	flags.IntVar(&callers, "callers", 256, "callers that take leases at the same time, at each peer")
	flags.DurationVar(&tmax, "t-max", 30*time.Second, "how long a lease lasts (`duration`)")
	flags.DurationVar(&d, "duration", 5*time.Second, "how long callers take and release leases")
	flags.DurationVar(&hold, "hold", 45*time.Second, "how long leases are held while renewals are measured")
	o.Register(cmd)
	return cmd
}

func (b *fleaseBench) run(tmax, d, hold time.Duration, w io.Writer) error {
	floor := cli.HeapFloor(0) // as a peer has it
	defer runtime.KeepAlive(floor)
	ctx := context.Background()
	ps, err := benchPeers(ctx, b.Peers, tmax)
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range ps {
			_ = p.Close()
		}
	}()
	fmt.Fprintf(w, "the peers are silent for %v\n", time.Duration(ps[0].Status().SilentMS)*time.Millisecond)
	for _, p := range ps {
		if err := p.Ready(ctx); err != nil {
			return err
		}
	}
	b.runTurns(ctx, ps, d)
	fmt.Fprintf(w, "%.0f acquisitions a second; taking %d leases\n", b.TurnsPerS, b.Leases)
	empty := heap()
	held, err := b.take(ctx, ps, tmax)
	if err != nil {
		return err
	}
	b.HeldBytes = b.weigh(heap() - empty)
	fmt.Fprintf(w, "taken at %.0f a second; holding them for %v\n", b.TakenPerS, hold)
	b.hold(ps, hold)
	for i := range ps {
		if err := held[i].Close(); err != nil {
			fmt.Fprintln(w, err)
		}
	}
	fmt.Fprintf(w, "released; waiting until they are forgotten\n")
	time.Sleep(2*tmax + tmax/4) // each place is looked at once in a t_max
	b.IdleBytes = b.weigh(heap() - empty)
	return nil
}

// weigh is what one of the leases takes of some bytes, if that can be told.
func (b *fleaseBench) weigh(bytes int64) *float64 {
	if b.Leases < bytesFrom {
		return nil
	}
	each := float64(max(bytes, 0)) / float64(b.Leases)
	return &each
}

// benchPeers starts peers.
func benchPeers(ctx context.Context, n int, tmax time.Duration) (ps []*flease.Peer, err error) {
	m := flease.Members{Epoch: 1, Addrs: map[machine.NodeID]string{}}
	var listeners []net.Listener
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		m.Addrs[machine.NodeID(i+1)] = l.Addr().String()
	}
	for _, l := range listeners {
		p, err := flease.Start(ctx, flease.Config{
			Self: l.Addr().String(), Listener: l, Membership: flease.Fixed(m), TMax: tmax,
			Epsilon: min(flease.DefaultEpsilon, tmax/20), Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return ps, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // pools give back memory that was unused for two collections
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// runTurns has callers take and release leases, each names of its own.
func (b *fleaseBench) runTurns(ctx context.Context, ps []*flease.Peer, d time.Duration) {
	end := time.Now().Add(d)
	var all sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	cpu := ownCPU()
	for i, p := range ps {
		l := p.Leaser()
		defer l.Close()
		for j := range b.Callers {
			all.Go(func() {
				var mine []time.Duration
				for n := 0; time.Now().Before(end); n++ {
					began := time.Now()
					lease, err := l.Acquire(ctx, tenure.Claim{Name: fmt.Sprintf("turn/%d/%d/%d", i, j, n)})
					if err != nil {
						return
					}
					mine = append(mine, time.Since(began))
					_ = lease.Release(ctx)
				}
				mu.Lock()
				took = append(took, mine...)
				mu.Unlock()
			})
		}
	}
	all.Wait()
	cpu = ownCPU() - cpu
	slices.Sort(took)
	if len(took) > 0 {
		b.TurnCPU = float64(cpu.Microseconds()) / float64(len(took))
		b.TurnsPerS = float64(len(took)) / d.Seconds()
		b.AcquireP50, b.AcquireP99 = took[len(took)/2].Seconds()*1000, took[len(took)*99/100].Seconds()*1000
	}
}

// take takes the leases that are held, spread over the peers.
func (b *fleaseBench) take(ctx context.Context, ps []*flease.Peer, tmax time.Duration) (held []*flease.Leaser, err error) {
	began := time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, 1)
	for _, p := range ps {
		l := p.Leaser()
		held = append(held, l)
		for range b.Callers {
			all.Go(func() {
				for n := next.Add(1); n <= int64(b.Leases); n = next.Add(1) {
					if _, err := l.Acquire(ctx, tenure.Claim{Name: fmt.Sprintf("held/%08d", n), TTL: tmax, Holder: "bench"}); err != nil {
						select {
						case failed <- err:
						default:
						}
						return
					}
				}
			})
		}
	}
	all.Wait()
	b.TakenPerS = float64(b.Leases) / time.Since(began).Seconds()
	select {
	case err := <-failed:
		return held, err
	default:
		return held, nil
	}
}

// hold watches the leases be renewed.
func (b *fleaseBench) hold(ps []*flease.Peer, d time.Duration) {
	var before []flease.Punctuality
	for _, p := range ps {
		before = append(before, p.Punctuality())
	}
	cpu := ownCPU()
	time.Sleep(d)
	cpu = ownCPU() - cpu
	claims, total := 0, uint64(0)
	for i, p := range ps {
		h := p.Punctuality().Since(before[i])
		total += h.Total()
		b.LatenessP99, b.LatenessMax = max(b.LatenessP99, h.Quantile(0.99)-0.5), max(b.LatenessMax, h.Quantile(1)-0.5)
		claims += p.Status().Claims
	}
	b.RenewalsS = float64(total) / d.Seconds()
	b.RenewalCPU = float64(cpu.Microseconds()) / float64(max(total, 1))
	b.Lost = b.Leases - claims
}

func (b *fleaseBench) table(w io.Writer) {
	fmt.Fprintf(w, "%d peers, t_max %v, %d CPUs\n", b.Peers, time.Duration(b.TMaxS*float64(time.Second)), b.CPUs)
	fmt.Fprintf(w, "%10.0f  acquisitions with their releases a second, %.1f µs of CPU each, %d callers at each peer: %.1f ms, 99 %% within %.1f ms\n", b.TurnsPerS, b.TurnCPU, b.Callers, b.AcquireP50, b.AcquireP99)
	fmt.Fprintf(w, "%10.0f  leases taken a second\n", b.TakenPerS)
	fmt.Fprintf(w, "%10.0f  renewals a second of %d leases, %.1f µs of CPU each; %d leases lost\n", b.RenewalsS, b.Leases, b.RenewalCPU, b.Lost)
	fmt.Fprintf(w, "%9.1f%%  of t_max: the lateness of renewals, 99 %% of them; at most %.1f%%\n", 100*b.LatenessP99, 100*b.LatenessMax)
	if b.HeldBytes != nil && b.IdleBytes != nil {
		fmt.Fprintf(w, "%10.0f  bytes for each held lease, in all peers together; %.0f for each that was released long ago\n", *b.HeldBytes, *b.IdleBytes)
	} else {
		fmt.Fprintf(w, "%10s  their bytes are told from %d leases on\n", "-", bytesFrom)
	}
}

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails for this
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
