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
	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/driver"
	"github.com/tenure-lease/tenure/flease"
	"github.com/tenure-lease/tenure/machine"
)

// scripted is a machine that answers each claim, by its number, as a test says.
type scripted struct {
	answer   func(n int, id uint64) any // nil for none
	claims   []flease.Acquire
	released []uint64
	outs     []any

	unconfirmed bool // releases are
}

func (m *scripted) Step(_ machine.Now, input any) {
	switch in := input.(type) {
	case flease.Acquire:
		m.claims = append(m.claims, in)
		if out := m.answer(len(m.claims), in.ID); out != nil {
			m.outs = append(m.outs, out)
		}
	case flease.Release:
		m.released = append(m.released, in.ID)
		m.outs = append(m.outs, flease.Released{ID: in.ID, Confirmed: !m.unconfirmed})
	}
}

func (m *scripted) Ready() machine.Ready {
	outs := m.outs
	m.outs = nil
	return machine.Ready{Outcomes: outs, Alarm: machine.Never}
}

// scriptedPeer is a peer that serves, over such a machine. It ends with the bubble's test.
func scriptedPeer(t *testing.T, m *scripted, round time.Duration) *Peer {
	now := new(clock.Fake)
	now.Advance(time.Hour)
	p := &Peer{
		cfg: Config{
			Clock: now, Wall: func() time.Time { return time.Unix(1e9, 0) }, TMax: time.Minute, Epsilon: time.Second,
			Logger: slog.New(slog.DiscardHandler),
		},
		pure: flease.Config{RoundTimeout: round}, serving: true, claims: map[uint64]*claim{},
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.driver = driver.Start(driver.Config{
		Machine: m, Now: p.cfg.clocks, Send: func([]machine.Envelope) {}, Outcome: p.outcomes, Fail: func(err error) { t.Error(err) },
	})
	return p
}

// TestHowLongClaimsAreRepeated: a claim that met trouble which may be over soon is made again, a round
// timeout later; for as long as it takes, or for five seconds or eight round timeouts by who only
// tries. All else is told at once.
func TestHowLongClaimsAreRepeated(t *testing.T) {
	const round = 100 * time.Millisecond
	refused := func(err error) func(id uint64) any {
		return func(id uint64) any { return flease.Refused{ID: id, Err: err} }
	}
	admitted := func(deadline machine.Mono) func(id uint64) any {
		return func(id uint64) any { return flease.Acquired{ID: id, Token: 7, Deadline: deadline, Until: 1 << 62} }
	}
	live, over := admitted(machine.Mono(2*time.Hour)), admitted(machine.Mono(time.Minute))
	held := func(id uint64) any {
		return flease.Refused{ID: id, State: flease.State{Holdings: []flease.Holding{{Holder: "web-3", Slots: 1}}}}
	}
	none := func(uint64) any { return nil }
	for name, tt := range map[string]struct {
		try    bool
		first  func(id uint64) any // of the first claims
		many   int                 // of which there are so many; then one is admitted
		round  time.Duration
		claims int // 0 if the last may begin as the time ends
		took   time.Duration
		is     error
		says   string
	}{
		"admitted":                       {true, live, 1, round, 1, 0, nil, ""},
		"lost before anybody knew of it": {false, over, 3, round, 4, 0, nil, ""},
		"lost at once, of who tries":     {true, over, 3, round, 4, 0, nil, ""},
		"held":                           {true, held, 9, round, 1, 0, errHeld, "is held by web-3"},
		"a bad claim":                    {false, refused(flease.ErrClaim), 9, round, 1, 0, tenure.ErrClaim, ""},
		"too much to do, for who tries":  {true, refused(flease.ErrBusy), 9, round, 1, 0, ErrBusy, ""},
		"too much to do, for who waits":  {false, refused(flease.ErrBusy), 90, round, 91, 90 * round, nil, ""},
		"silence, for who waits":         {false, refused(flease.ErrQuarantine), 90, round, 91, 90 * round, nil, ""},
		"no majority, for who waits":     {false, refused(flease.ErrNoMajority), 90, round, 91, 90 * round, nil, ""},
		"silence for a while":            {true, refused(flease.ErrQuarantine), 9, round, 10, 9 * round, nil, ""},
		"no majority for a while":        {true, refused(flease.ErrNoMajority), 9, round, 10, 9 * round, nil, ""},
		"no majority for long":           {true, refused(flease.ErrNoMajority), 900, 130 * time.Millisecond, 39, 5 * time.Second, flease.ErrNoMajority, "waited for some seconds"},
		"long rounds":                    {true, refused(flease.ErrNoMajority), 900, 1100 * time.Millisecond, 0, 8800 * time.Millisecond, tenure.ErrUnavailable, "waited for some seconds"},
		"no answer":                      {true, none, 9, round, 1, 5 * time.Second, tenure.ErrUnavailable, "waited for some seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &scripted{answer: func(n int, id uint64) any {
					if n <= tt.many {
						return tt.first(id)
					}
					return live(id)
				}}
				p := scriptedPeer(t, m, tt.round)
				defer p.driver.Stop()
				l := p.Leaser()
				began := time.Now()
				lease, err := l.acquire(context.Background(), tenure.Claim{Name: "x", TTL: 10 * time.Second}, tt.try)
				took := time.Since(began)
				if took != tt.took || len(m.claims) != tt.claims && tt.claims != 0 {
					t.Errorf("%s: after %v and %d claims %v; want %v and %d", name, took, len(m.claims), err, tt.took, tt.claims)
				}
				switch {
				case tt.is == nil && (err != nil || lease.Check() != nil || lease.Token() != 7):
					t.Errorf("%s: %+v, %v; want that it is held", name, lease, err)
				case tt.is != nil && (err == nil || tt.is != errHeld && !errors.Is(err, tt.is) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), tt.says)):
					t.Errorf("%s: %v; want %v, %q, and no deadline of the caller's", name, err, tt.is, tt.says)
				}
				left := 0
				if strings.HasPrefix(name, "lost") { // the machine says so by itself
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
					l.calls.Done()
					<-closed
				}
			})
		})
	}
}
