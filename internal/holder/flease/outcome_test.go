package flease

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestWhatTheMachineReports: each outcome reaches its claim, whole, and no other claim.
func TestWhatTheMachineReports(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := scriptedPeer(t, &scripted{}, time.Second)
		defer p.driver.Stop()
		p.heard, p.snapshot = map[machine.NodeID]heard{}, make(chan *flease.Record, 1)
		now := p.cfg.clocks()
		begin := func(id uint64) *claim {
			x := p.Leaser().newClaim(tenure.Claim{Name: "x", TTL: 10 * time.Second, LockDelay: 3 * time.Second})
			p.claims[id] = x
			return x
		}
		report := func(outs ...flease.Report) { p.driver.Do(func() { p.handle(outs) }) }
		answered := func(answer <-chan error) (err error, ok bool) {
			select {
			case err := <-answer:
				return err, true
			default:
				return nil, false
			}
		}

		x, other := begin(5), begin(6)
		answer, otherAnswer := x.Verdict(), other.Verdict()
		t0 := flease.TimeOf(now.Wall)
		shown := flease.State{Name: "x", Waiting: 4, Holdings: []flease.Holding{
			{Token: 3, Until: t0 + 5000, Holder: "h", Delay: 1000, Slots: 2, Owner: 2}, {Token: 4, Until: t0 + 7000, Holder: "i", Slots: 7, Owner: 3},
		}}
		report(flease.Waits{ID: 5, State: shown}, flease.Waits{ID: 99, State: shown})
		want := &tenure.State{Name: "x", Waiting: 4, Holders: []tenure.Holding{
			{Holder: "h", Token: 3, Slots: 2, Until: time.Unix(0, int64((t0 + 4000).Wall()))}, {Holder: "i", Token: 4, Slots: 7, Until: time.Unix(0, int64((t0 + 7000).Wall()))},
		}}
		if !reflect.DeepEqual(x.seen, want) || other.seen != nil {
			t.Errorf("the waiter sees %+v, want %+v; another claim sees %+v", x.seen, want, other.seen)
		}
		until := now.Wall + machine.Wall(8*time.Second)
		report(flease.Acquired{ID: 5, Token: 9, Deadline: now.Mono.Add(7 * time.Second), Until: until})
		if err, ok := answered(answer); err != nil || !ok || x.Token() != 9 || !x.Begun() || x.seen != nil {
			t.Errorf("acquired: %v, %v, and the claim is %+v", err, ok, x)
		}
		if left := x.Left(); left != 7*time.Second {
			t.Errorf("acquired, it has %v left, want 7s", left)
		}
		moved := x.watched()
		clk := p.cfg.Clock.(*clock.Fake)
		clk.Advance(time.Second)
		report(flease.Renewed{ID: 5, Deadline: now.Mono.Add(19 * time.Second), Until: now.Wall + machine.Wall(12*time.Second)})
		if left := x.Left(); left != 12*time.Second || len(moved) != 1 {
			t.Errorf("renewed, it has %v left by the sooner clock, want 12s; the watcher is nudged: %v", left, len(moved) == 1)
		}
		// It lasts for nine and a half seconds of ten, of which six were left.
		if at := 35 * punctualityParts / 100; p.renewals.count.Load() != 1 || p.renewals.parts[at].Load() != 1 {
			t.Errorf("a renewal when 3.5 of 10 seconds have passed is not counted as that, of %d", p.renewals.count.Load())
		}
		report(flease.Renewed{ID: 5, Deadline: now.Mono.Add(20 * time.Second), Until: now.Wall + machine.Wall(22*time.Second)})
		if left := x.Left(); left != 19*time.Second {
			t.Errorf("renewed, it has %v left by the sooner clock, want 19s", left)
		}
		done, free := x.Done(), make(chan struct{})
		x.freed = free
		report(flease.Lost{ID: 5, Why: "for a reason"})
		select {
		case <-done:
		default:
			t.Error("lost, and its holder goes on")
		}
		select {
		case <-free:
		default:
			t.Error("lost, and the waiter for its release is not told")
		}
		if err := x.Err(); !errors.Is(err, tenure.ErrLost) || !strings.Contains(err.Error(), "for a reason") || p.claims[5] != nil || x.gone == nil || x.gone.Confirmed {
			t.Errorf("lost: %v, as %+v", err, x)
		}
		report(flease.Refused{ID: 6, State: shown})
		var held tenure.HeldError
		if err, ok := answered(otherAnswer); !ok || !errors.As(err, &held) || held != (tenure.HeldError{Name: "x", Holder: "h", Until: want.Holders[0].Until}) || p.claims[6] != nil {
			t.Errorf("refused: %v, %v", err, ok)
		}
		for _, confirmed := range []bool{true, false} {
			x := begin(7)
			_ = x.End(errReleased)
			report(flease.Released{ID: 7, Confirmed: confirmed})
			if x.gone == nil || x.gone.Confirmed != confirmed || !errors.Is(x.Err(), tenure.ErrReleased) || len(p.claims) != 0 {
				t.Errorf("released (confirmed: %v): %+v", confirmed, x)
			}
		}
		look := make(chan flease.Observed, 1)
		p.looks[8] = look
		report(flease.Observed{ID: 9}, flease.Observed{ID: 8, State: shown, Err: flease.ErrBusy})
		if o := <-look; !reflect.DeepEqual(o, flease.Observed{ID: 8, State: shown, Err: flease.ErrBusy}) || len(p.looks) != 0 {
			t.Errorf("observed: %+v, and %d looks are remembered", o, len(p.looks))
		}
		silent := flease.Quarantined{Deadline: now.Mono.Add(time.Minute), Until: now.Wall + 5}
		if report(silent); p.serving || p.silent != silent {
			t.Errorf("silent: serves %v, until %+v", p.serving, p.silent)
		}
		if report(flease.Serving{}); !p.serving {
			t.Error("it serves again, and nobody knows")
		}
		report(flease.Alarm{Kind: flease.Skew, Peer: 2, By: 7 * time.Millisecond})
		if err := p.trouble(2); err == nil || !strings.Contains(err.Error(), "the clock of peer 2, or ours, is wrong by more than ε, about 7ms") || len(p.heard) != 1 {
			t.Errorf("of a clock that is ahead there is known %v", p.heard)
		}
		r := &flease.Record{Floor: 5}
		if report(flease.Snapshot{Record: r}); <-p.snapshot != r {
			t.Error("what is left is not what the machine leaves")
		}
	})
}

// TestRenewedWhenItIsLost: a renewal after the holder has stopped does not bring the lease back. Others get it a
// lock delay later, as after the death of a holder. A released lease is left alone.
func TestRenewedWhenItIsLost(t *testing.T) {
	const delay = 3 * time.Second
	for _, ended := range []error{tenure.ErrLost, errReleased} {
		bubble.Test(t, func(t *testing.T) {
			m := &scripted{}
			p := scriptedPeer(t, m, time.Second)
			defer p.driver.Stop()
			x := heldClaim(p.Leaser(), tenure.Claim{TTL: 10 * time.Second, LockDelay: delay}, p.cfg.Clock.Now().Add(time.Hour), 0)
			x.id = 5
			_ = x.End(ended)
			p.claims[5] = x
			now := p.cfg.clocks()
			p.driver.Do(func() {
				p.handle([]flease.Report{flease.Renewed{ID: 5, Deadline: now.Mono.Add(time.Minute), Until: now.Wall + machine.Wall(time.Minute)}})
			})
			if x.Left() != time.Hour || !errors.Is(x.Check(), ended) || p.renewals.count.Load() != 0 {
				t.Errorf("%v, and renewed: %+v", ended, x)
			}
			given := func() (ids []uint64) {
				synctest.Wait()
				p.driver.Do(func() { ids = slices.Clone(m.released) })
				return ids
			}
			time.Sleep(delay - 1)
			if ids := given(); len(ids) > 0 {
				t.Errorf("%v, and renewed: it is given back within its lock delay", ended)
			}
			time.Sleep(time.Nanosecond)
			if lost := errors.Is(ended, tenure.ErrLost); lost != slices.Equal(given(), []uint64{5}) {
				t.Errorf("%v, and renewed: behind its lock delay there is given back %v", ended, given())
			}
		})
	}
}

// lockedLog is a log that may be written and read at the same time.
type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestTheKernelDoubts: the kernel is asked again and again. Each doubt begins the silence anew, and is logged
// once. Errors of calls name the doubt for as long as it lasts.
func TestTheKernelDoubts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log lockedLog
		m := &faults{}
		p := scriptedPeer(t, &m.scripted, time.Second)
		p.driver.Stop()
		p.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		p.cfg.TMax, p.cfg.Epsilon = 50*time.Second, 2*time.Second
		p.startOver(t, m)
		var doubt atomic.Pointer[error]
		var asked atomic.Int64
		doubt.Store(new(error))
		p.cfg.kernel = func(limit time.Duration) error {
			if asked.Add(1); limit != time.Second {
				t.Errorf("the kernel is asked whether the clock is right to %v, want half of ε", limit)
			}
			return *doubt.Load()
		}
		ended := make(chan struct{})
		go func() { defer close(ended); p.watchClock() }()
		for i, step := range []struct {
			doubt  string
			faults int
			lines  int
		}{{"", 0, 0}, {"it may be wrong", 1, 1}, {"it may be very wrong", 2, 1}, {"it may be wrong", 3, 1}, {"", 3, 2}, {"", 3, 2}, {"again", 4, 3}} {
			var says error
			if step.doubt != "" {
				says = errors.New(step.doubt)
			}
			doubt.Store(&says)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			var told []string
			p.driver.Do(func() { told = slices.Clone(m.why) })
			n := len(told)
			if asked.Load() != int64(i)+1 || n != step.faults || strings.Count(log.String(), "\n") != step.lines {
				t.Errorf("%q: the kernel is asked %d times, there are %d faults, and the log is\n%s\nwant %d, %d and %d lines", step.doubt, asked.Load(), n, log.String(), i+1, step.faults, step.lines)
			}
			if step.doubt != "" && n > 0 && told[n-1] != step.doubt {
				t.Errorf("the machine is told %q, want %q", told[n-1], step.doubt)
			}
			if why := fmt.Sprint(p.why()); strings.Contains(why, step.doubt) != true || step.doubt == "" && why != fmt.Sprint(error(nil)) {
				t.Errorf("%q: calls are told %q", step.doubt, why)
			}
		}
		p.cancel(tenure.ErrClosed)
		<-ended
		p.driver.Stop()
	})
}
