package flease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// TestDefaults: a Config without times gets the documented ones.
func TestDefaults(t *testing.T) {
	inLab(t, 1, engine.Config{}, func(l *lab) {
		s := l.peers[0].Status()
		if s.TMaxMS != engine.DefaultTMax.Milliseconds() || s.EpsilonMS != engine.DefaultEpsilon.Milliseconds() {
			t.Errorf("by default t_max is %d ms and ε %d ms, want %v and %v", s.TMaxMS, s.EpsilonMS, engine.DefaultTMax, engine.DefaultEpsilon)
		}
	})
}

// TestRenewedAt: a lease is renewed when about half of it has passed, and the status shows that.
func TestRenewedAt(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		from := l.peers[0].Leaser()
		defer from.Close()
		l.acquire(from, time.Second, tenure.Claim{Name: "x", TTL: 2 * time.Second})
		time.Sleep(20 * time.Second)
		s := l.peers[0].Status()
		if s.Renewals < 10 {
			t.Errorf("%d renewals in ten TTLs", s.Renewals)
		}
		for _, at := range s.RenewedAt {
			if at < 0.3 || at > 0.7 {
				t.Errorf("the status says that leases are renewed when %v of the TTL has passed", s.RenewedAt)
				break
			}
		}
	})
}

// TestFixedWaits: a Fixed list is returned once.
func TestFixedWaits(t *testing.T) {
	known := engine.Members{Epoch: 1}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := engine.Fixed(known)(ctx, known); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a list that never changes is told again, before its caller gives up: %v", err)
	}
}

// TestTermsAreComparedAgain: a peer whose terms differ is asked again within t_max, or ten seconds if
// t_max is longer. The difference is forgotten when it is over.
func TestTermsAreComparedAgain(t *testing.T) {
	for _, tt := range []struct{ tmax, within time.Duration }{{4 * time.Second, 4 * time.Second}, {time.Hour, 10 * time.Second}} {
		cfg := brief
		cfg.TMax = tt.tmax
		inLab(t, 2, cfg, func(l *lab) {
			p := l.peers[0]
			p.Note(2, errors.New("it was of another cluster"))
			if s := p.Status(); s.Peers[1].Error != "it was of another cluster" {
				t.Errorf("nobody is told: %+v", s.Peers)
			}
			time.Sleep(tt.within + time.Second)
			if s := p.Status(); s.Peers[1].Error != "" {
				t.Errorf("t_max is %v, the peers have agreed for %v, and the status still says %q", tt.tmax, tt.within+time.Second, s.Peers[1].Error)
			}
		})
	}
}
