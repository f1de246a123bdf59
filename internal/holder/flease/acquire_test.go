package flease

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// scripted is a machine that answers each claim, by its number, as a test says.
type scripted struct {
	answer   func(n int, id uint64) flease.Report // it returns nil for no answer
	claims   []flease.Acquire
	released []uint64
	outs     []flease.Report

	unconfirmed bool // releases are not confirmed
	look        func(n int) flease.Observed
	looks       int
}

func (m *scripted) Step(_ machine.Now, input flease.Input) {
	switch in := input.(type) {
	case flease.Acquire:
		m.claims = append(m.claims, in)
		if out := m.answer(len(m.claims), in.ID); out != nil {
			m.outs = append(m.outs, out)
		}
	case flease.Observe:
		m.looks++
		out := m.look(m.looks)
		out.ID = in.ID
		m.outs = append(m.outs, out)
	case flease.Release:
		m.released = append(m.released, in.ID)
		m.outs = append(m.outs, flease.Released{ID: in.ID, Confirmed: !m.unconfirmed})
	}
}

func (m *scripted) Wake(machine.Now) {}

func (m *scripted) Ready() machine.Ready[flease.Report] {
	outs := m.outs
	m.outs = nil
	return machine.Ready[flease.Report]{Outcomes: outs, Alarm: machine.Never}
}

// scriptedPeer is a peer over such a machine. It serves from the start.
func scriptedPeer(t *testing.T, m *scripted, round time.Duration) *Peer {
	now := new(clock.Fake)
	now.Advance(time.Hour)
	p := &Peer{
		cfg: Config{
			Clock: now, Wall: func() time.Time { return time.Unix(1e9, 0) }, TMax: time.Minute, Epsilon: time.Second,
			Logger: slog.New(slog.DiscardHandler),
		},
		clocks: holder.Clocks{Mono: now, Wall: func() time.Time { return time.Unix(1e9, 0) }},
		pure:   flease.Config{RoundTimeout: round}, health: health{serving: true},
		wishes: wishes{claims: map[uint64]*claim{}, looks: map[uint64]chan flease.Observed{}},
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.startOver(t, m)
	return p
}

// barePeer is a peer without a machine. Unless it is configured with others, its clocks show the
// beginning of time.
func barePeer(t *testing.T, cfg Config) *Peer {
	if cfg.Clock == nil {
		cfg.Clock = new(clock.Fake)
	}
	if cfg.Wall == nil {
		cfg.Wall = func() time.Time { return time.Unix(0, 0) }
	}
	p := &Peer{cfg: cfg, clocks: holder.Clocks{Mono: cfg.Clock, Wall: cfg.Wall}, wishes: wishes{claims: map[uint64]*claim{}}}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	t.Cleanup(func() { p.cancel(nil) })
	return p
}

// heldClaim is a claim that is held until the earlier of two times.
func heldClaim(l *Leaser, c tenure.Claim, deadline machine.Mono, until machine.Wall) *claim {
	x := l.newClaim(c)
	x.Begin(7, deadline, until)
	return x
}

// errOther stands for an error whose words alone are judged.
var errOther = errors.New("an error")

// TestHowLongClaimsAreRepeated: after an error that may be over soon, a claim is made again a round
// timeout later. Acquire goes on for ever, and TryAcquire for five seconds or eight round timeouts.
// All other errors are returned at once.
func TestHowLongClaimsAreRepeated(t *testing.T) {
	const round = 100 * time.Millisecond
	refused := func(err error) func(id uint64) flease.Report {
		return func(id uint64) flease.Report { return flease.Refused{ID: id, Err: err} }
	}
	admitted := func(deadline machine.Mono) func(id uint64) flease.Report {
		return func(id uint64) flease.Report {
			return flease.Acquired{ID: id, Token: 7, Deadline: deadline, Until: 1 << 62}
		}
	}
	live, over := admitted(machine.Mono(2*time.Hour)), admitted(machine.Mono(time.Minute))
	held := func(id uint64) flease.Report {
		return flease.Refused{ID: id, State: flease.State{Holdings: []flease.Holding{{Holder: "web-3", Slots: 1}}}}
	}
	none := func(uint64) flease.Report { return nil }
	for name, tt := range map[string]struct {
		try    bool
		first  func(id uint64) flease.Report // the answer to the first claims
		many   int                           // how many first claims there are; the next is admitted
		round  time.Duration
		claims int // 0 if the last may begin at the end of the time
		took   time.Duration
		is     error
		says   string
	}{
		"admitted":                           {true, live, 1, round, 1, 0, nil, ""},
		"lost before anybody knew of it":     {false, over, 3, round, 4, 0, nil, ""},
		"lost at once, of one that tries":    {true, over, 3, round, 4, 0, nil, ""},
		"held":                               {true, held, 9, round, 1, 0, errOther, "is held by web-3"},
		"a bad claim":                        {false, refused(flease.ErrClaim), 9, round, 1, 0, tenure.ErrClaim, ""},
		"too much to do, for one that tries": {true, refused(flease.ErrBusy), 9, round, 1, 0, ErrBusy, ""},
		"too much to do, for one that waits": {false, refused(flease.ErrBusy), 90, round, 91, 90 * round, nil, ""},
		"silence, for one that waits":        {false, refused(flease.ErrQuarantine), 90, round, 91, 90 * round, nil, ""},
		"no majority, for one that waits":    {false, refused(flease.ErrNoMajority), 90, round, 91, 90 * round, nil, ""},
		"silence for a while":                {true, refused(flease.ErrQuarantine), 9, round, 10, 9 * round, nil, ""},
		"no majority for a while":            {true, refused(flease.ErrNoMajority), 9, round, 10, 9 * round, nil, ""},
		"no majority for long":               {true, refused(flease.ErrNoMajority), 900, 130 * time.Millisecond, 39, 5 * time.Second, flease.ErrNoMajority, "waited for some seconds"},
		"long rounds":                        {true, refused(flease.ErrNoMajority), 900, 1100 * time.Millisecond, 0, 8800 * time.Millisecond, tenure.ErrUnavailable, "waited for some seconds"},
		"no answer":                          {true, none, 9, round, 1, 5 * time.Second, tenure.ErrUnavailable, "waited for some seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				m := &scripted{answer: func(n int, id uint64) flease.Report {
					if n <= tt.many {
						return tt.first(id)
					}
					return live(id)
				}}
				p := scriptedPeer(t, m, tt.round)
				defer p.driver.Stop()
				l := p.Leaser()
				began := time.Now()
				lease, err := holder.Admit(context.Background(), l.calls, engine{l}, tenure.Claim{Name: "x", TTL: 10 * time.Second}, tt.try)
				took := time.Since(began)
				if took != tt.took || len(m.claims) != tt.claims && tt.claims != 0 {
					t.Errorf("%s: after %v and %d claims %v; want %v and %d", name, took, len(m.claims), err, tt.took, tt.claims)
				}
				switch {
				case tt.is == nil && (err != nil || lease.Check() != nil || lease.Token() != 7):
					t.Errorf("%s: %+v, %v; want that it is held", name, lease, err)
				case tt.is != nil && (err == nil || tt.is != errOther && !errors.Is(err, tt.is) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), tt.says)):
					t.Errorf("%s: %v; want %v, %q, and no deadline of the caller's", name, err, tt.is, tt.says)
				}
				left := 0
				if strings.HasPrefix(name, "lost") { // the machine drops them by itself
					left = tt.many
				}
				closed := make(chan error, 1)
				go func() { closed <- l.Close() }()
				synctest.Wait()
				select {
				case err := <-closed:
					if err != nil || len(p.claims) != left {
						t.Errorf("%s: %d claims are left, want %d; Close says %v", name, len(p.claims), left, err)
					}
				default:
					t.Errorf("%s: the call has ended, and Close waits for it", name)
					l.calls.Leave()
					<-closed
				}
			})
		})
	}
}

// TestHowLongLooksAreRepeated: a look without a majority is repeated a round timeout later, for some
// seconds, and then returns the reason. A look at a bad name is not repeated.
func TestHowLongLooksAreRepeated(t *testing.T) {
	const round = 300 * time.Millisecond
	for name, tt := range map[string]struct {
		err   error
		many  int
		looks int
		took  time.Duration
		is    []error
	}{
		"seen":                {nil, 0, 1, 0, nil},
		"no majority at once": {flease.ErrNoMajority, 9, 10, 9 * round, nil},
		"no majority":         {flease.ErrNoMajority, 900, 17, 5 * time.Second, []error{tenure.ErrUnavailable, flease.ErrNoMajority, holder.ErrPatience}},
		"a bad name":          {flease.ErrClaim, 900, 1, 0, []error{tenure.ErrClaim}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				m := &scripted{look: func(n int) flease.Observed {
					if n <= tt.many {
						return flease.Observed{Err: tt.err}
					}
					return flease.Observed{State: flease.State{Waiting: 7}}
				}}
				p := scriptedPeer(t, m, round)
				defer p.driver.Stop()
				began := time.Now()
				s, err := p.Leaser().Observe(context.Background(), "x")
				if took := time.Since(began); took != tt.took || m.looks != tt.looks || (err == nil) != (tt.is == nil) || s.Name != "x" || (err == nil) != (s.Waiting == 7) {
					t.Errorf("after %v and %d looks %+v, %v; want %v and %d", took, m.looks, s, err, tt.took, tt.looks)
				}
				for _, is := range tt.is {
					if !errors.Is(err, is) {
						t.Errorf("%v, want %v, too", err, is)
					}
				}
				if len(p.looks) > 0 {
					t.Errorf("%d looks are remembered that have ended", len(p.looks))
				}
			})
		})
	}
}

// TestWhatAPeerThatEndsLeaves: a peer that ends loses its leases and ends its waiting claims. Their
// callers are told, and the peer remembers nothing.
func TestWhatAPeerThatEndsLeaves(t *testing.T) {
	why := errors.New("its reason")
	for reason, want := range map[error]struct {
		held, waiting string
		waits         error
	}{
		why:              {"lease lost: the peer has ended: its reason", "the peer has ended: its reason", tenure.ErrUnavailable},
		tenure.ErrClosed: {"lease lost: the peer that it was held through was closed", tenure.ErrClosed.Error(), tenure.ErrClosed},
	} {
		l := barePeer(t, Config{}).Leaser()
		held, waiting := l.newClaim(tenure.Claim{}), l.newClaim(tenure.Claim{})
		held.Begin(1, machine.Mono(time.Hour), 0)
		answer := waiting.Verdict()
		p := l.peer
		p.claims = map[uint64]*claim{1: held, 2: waiting}
		done := held.Done()
		p.abandon(reason)
		select {
		case <-done:
		default:
			t.Errorf("%v: a lease of a peer that has ended goes on", reason)
		}
		if err := held.Err(); !errors.Is(err, tenure.ErrLost) || err.Error() != want.held {
			t.Errorf("%v: the lease ends with %v, want %q", reason, err, want.held)
		}
		select {
		case err := <-answer:
			if !errors.Is(err, want.waits) || errors.Is(err, tenure.ErrLost) || !strings.Contains(err.Error(), want.waiting) {
				t.Errorf("%v: a waiter hears %v, want %q", reason, err, want.waiting)
			}
		default:
			t.Errorf("%v: a waiter hears nothing", reason)
		}
		if len(p.claims) > 0 {
			t.Errorf("%v: %d claims are remembered", reason, len(p.claims))
		}
	}
	if l, err := Open(t.Context(), Config{}); !errors.Is(err, ErrConfig) || l != nil {
		t.Errorf("opened with nothing: %v", err)
	}
}

// faults is a scripted machine that records clock faults.
type faults struct {
	scripted
	why []string
}

func (m *faults) Step(now machine.Now, input flease.Input) {
	if f, ok := input.(flease.ClockFault); ok {
		m.why = append(m.why, f.Why)
	}
	m.scripted.Step(now, input)
}

// startOver gives the peer another machine.
func (p *Peer) startOver(t *testing.T, m machine.Machine[flease.Input, flease.Report]) {
	p.driver = driver.Start(driver.Config[flease.Input, flease.Report]{
		Machine: m, Now: p.cfg.clocks, Send: func([]machine.Envelope) {}, Outcome: p.handle, Fail: func(err error) { t.Error(err) },
	})
}
