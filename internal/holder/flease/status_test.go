package flease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestSilenceEndsByBothClocks: a peer is silent until both clocks have reached the end. The status
// shows the time that is left by the later one.
func TestSilenceEndsByBothClocks(t *testing.T) {
	for name, tt := range map[string]struct{ mono, wall, want time.Duration }{
		"the monotonic clock last":    {7 * time.Second, 3 * time.Second, 7 * time.Second},
		"the synchronized clock last": {3 * time.Second, 7 * time.Second, 7 * time.Second},
		"neither":                     {-time.Second, -2 * time.Second, 0},
	} {
		var now clock.Fake
		now.Advance(time.Hour)
		wall := time.Unix(1_800_000_000, 0)
		p := &Peer{cfg: Config{Clock: &now, Wall: func() time.Time { return wall }}, self: 1}
		p.members = Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "a:1"}}
		p.silent = flease.Quarantined{Deadline: now.Now().Add(tt.mono), Until: machine.Wall(wall.Add(tt.wall).UnixNano())}
		if got := p.Status().SilentMS; got != tt.want.Milliseconds() {
			t.Errorf("%s: the status says that the peer is silent for another %d ms, want %v", name, got, tt.want)
		}
		if why := fmt.Sprint(p.why()); !strings.Contains(why, fmt.Sprintf("for another %v", tt.want)) {
			t.Errorf("%s: calls are told %q, want %v", name, why, tt.want)
		}
		p.serving = true
		if got := p.Status().SilentMS; got != 0 {
			t.Errorf("%s: a peer that serves is silent for another %d ms", name, got)
		}
		if why := p.why(); why != nil {
			t.Errorf("%s: calls of a peer that serves are told %q", name, why)
		}
	}
}

// TestWhyItIsOfNoUse: errors of calls without an answer have all known reasons.
func TestWhyItIsOfNoUse(t *testing.T) {
	p := &Peer{health: health{serving: true, clock: fmt.Errorf("nobody vouches for the clock")}}
	if why := fmt.Sprint(p.why()); !strings.Contains(why, "nobody vouches for the clock") {
		t.Errorf("calls are told %q, and nothing of the clock", why)
	}
}

// TestPunctuality: renewals of long ago are left out, but at least the promised number of the last ones
// is counted.
func TestPunctuality(t *testing.T) {
	var h punctuality
	count := func(n uint64, passed time.Duration) {
		h.note(punctualityParts, passed)
		h.count.Add(n - 1)
		h.parts[passed].Add(n - 1)
	}
	count(recentRenewals-1, 10)
	if p := h.recent(); p.Total() != recentRenewals-1 || p.Quantile(1) != 11./punctualityParts {
		t.Errorf("of %d renewals %d are told, all within %v", recentRenewals-1, p.Total(), p.Quantile(1))
	}
	h.note(punctualityParts, 10)
	for round := range uint64(3) {
		at := time.Duration(100 * (round + 1))
		count(recentRenewals-1, at)
		before := h.recent()
		if n := before.Total(); n < recentRenewals || n >= 3*recentRenewals {
			t.Errorf("of %d renewals the last %d are told, want %d at least, and fewer than three times as many", h.count.Load(), n, recentRenewals)
		}
		h.note(punctualityParts, at)
		after := h.recent()
		if n := after.Total(); n < recentRenewals || n >= 3*recentRenewals {
			t.Errorf("of %d renewals the last %d are told, want %d at least, and fewer than three times as many", h.count.Load(), n, recentRenewals)
		}
		if old := after.Quantile(0); round > 1 && old < 100./punctualityParts {
			t.Errorf("renewals of long ago are told: %v", old)
		}
	}
	all := h.all()
	if n := all.Total(); n != h.count.Load() {
		t.Errorf("%d renewals since the start, of %d", n, h.count.Load())
	}
	var late punctuality
	late.note(time.Second, 2*time.Second)
	late.note(time.Second, -time.Second)
	late.note(0, time.Second)
	if late.parts[punctualityParts-1].Load() != 2 || late.parts[0].Load() != 1 {
		t.Error("a renewal beyond its TTL is not counted as the latest, or one before it as the earliest")
	}
	if p := (Punctuality{}); p.Quantile(0.5) != 0 {
		t.Errorf("of no renewals a half is within %v", p.Quantile(0.5))
	}
	some := Punctuality{1: 50, 2: 49, 3: 1}
	for share, want := range map[float64]float64{0.5: 2, 0.51: 3, 0.99: 3, 1: 4} {
		if got := some.Quantile(share) * punctualityParts; got != want {
			t.Errorf("%v of the renewals were within %v parts, want %v", share, got, want)
		}
	}
}

// TestGuard: a holder stops a twentieth of its TTL early, or by the configured time, but by a quarter
// at most.
func TestGuard(t *testing.T) {
	for _, c := range []struct{ configured, ttl, want time.Duration }{
		{0, time.Minute, 3 * time.Second},
		{time.Second, time.Minute, time.Second},
		{20 * time.Second, time.Minute, 15 * time.Second},
	} {
		if got := guard(c.configured, c.ttl); got != c.want {
			t.Errorf("a guard of %v, a TTL of %v: it stops %v early, want %v", c.configured, c.ttl, got, c.want)
		}
	}
}

// TestPunctualityOfAPeer: a peer tells of all its renewals, and what is new since another look.
func TestPunctualityOfAPeer(t *testing.T) {
	var p Peer
	for _, passed := range []time.Duration{3, 3, 9} {
		p.renewals.note(punctualityParts, passed)
	}
	before := p.Punctuality()
	if before.Total() != 3 || before[3] != 2 || before[9] != 1 {
		t.Errorf("of three renewals, two of 3 parts and one of 9, the peer tells %d: %d and %d", before.Total(), before[3], before[9])
	}
	p.renewals.note(punctualityParts, 9)
	if now := p.Punctuality().Since(before); now.Total() != 1 || now[9] != 1 {
		t.Errorf("of one renewal since, of 9 parts, the peer tells %d: %d", now.Total(), now[9])
	}
}

// TestWhatKeepsAPeerFromItsWork: errors of calls name the trouble that each other peer has, as it was compared or heard of.
func TestWhatKeepsAPeerFromItsWork(t *testing.T) {
	p := barePeer(t, Config{TMax: time.Minute})
	p.self, p.members = 1, Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "a:1", 2: "b:1", 3: "c:1"}}
	p.health = health{
		serving:  true,
		troubles: map[machine.NodeID]error{2: errors.New("peer 2 disagrees")},
		heard:    map[machine.NodeID]heard{3: {errors.New("the clock of peer 3 is wrong"), 0}},
	}
	if got, want := fmt.Sprint(p.why()), "peer 2 disagrees\nthe clock of peer 3 is wrong"; got != want {
		t.Errorf("two peers are in trouble, and the errors of calls say %q, want %q", got, want)
	}
}

// TestReadyOfAPeerThatHasEnded: nobody waits for a peer that has ended, and the error says why it has.
func TestReadyOfAPeerThatHasEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := barePeer(t, Config{})
		p.cancel(errOther)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := p.Ready(ctx); !errors.Is(err, errOther) || time.Since(began) != 0 {
			t.Errorf("a peer has ended, and after %v Ready says %v; want %v at once", time.Since(began), err, errOther)
		}
	})
}
