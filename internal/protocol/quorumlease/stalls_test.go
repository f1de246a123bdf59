package quorumlease

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestFarHolders has a leader commit an entry a millisecond, and a holder come some time
// behind: as far as it always was, or later than it used to.
func TestFarHolders(t *testing.T) {
	const ttl = 200 * time.Millisecond
	for _, tt := range []struct {
		name     string
		lag      func(at time.Duration) time.Duration
		from, to time.Duration // between these it is looked at
		want     bool          // whether it is stalled then
	}{
		{"near", func(time.Duration) time.Duration { return time.Millisecond }, 0, 2 * time.Second, false},
		{"far", func(time.Duration) time.Duration { return 150 * time.Millisecond }, time.Second, 2 * time.Second, false},
		{"farther than promises last", func(time.Duration) time.Duration { return 350 * time.Millisecond }, time.Second, 2 * time.Second, true},
		{"near, and then slow", func(at time.Duration) time.Duration {
			if at < time.Second {
				return time.Millisecond
			}
			return min(at-time.Second, 150*time.Millisecond)
		}, 1200 * time.Millisecond, 2 * time.Second, true},
	} {
		var l Ledger
		l.Begin(1, voting(1, 2, 3))
		s := NewStalls(Config{TTL: ttl})
		l.Report(1, Report{Boot: 1, Term: 1, Durable: 1, Holders: []Lifetime{{2, 1}}})
		for now := time.Duration(0); now < tt.to; now += time.Millisecond {
			commit := uint64(1 + now/time.Millisecond)
			has := uint64(1 + max(0, now-tt.lag(now))/time.Millisecond)
			l.Report(2, Report{Boot: 1, Term: 1, Durable: has, Received: has})
			stalled := slices.Contains(s.Look(machine.Mono(now), commit, &l), 2)
			if now >= tt.from && stalled != tt.want {
				t.Fatalf("%s: after %v stalled is %v, want %v", tt.name, now, stalled, tt.want)
			}
		}
	}
}

// Another term begins with nothing known of anybody.
func TestStallsOfAnotherTerm(t *testing.T) {
	var l Ledger
	l.Begin(1, voting(1, 2, 3))
	s := NewStalls(Config{TTL: ttl})
	l.Report(1, Report{Boot: 1, Term: 1, Durable: 9, Holders: []Lifetime{{2, 1}, {3, 1}}})
	s.Look(at(0), 5, &l)
	l.Report(2, Report{Boot: 1, Term: 1, Durable: 9, Received: 9})
	s.Look(at(50*time.Millisecond), 5, &l)
	if s.leastTime(2) != 50*time.Millisecond || s.Due() != at(ttl/2+1) {
		t.Fatalf("member 2 took %v, and patience with member 3 ends in %v", s.leastTime(2), s.Due().Sub(at(0)))
	}
	if s.Reset(); s.leastTime(2) != 0 || s.Due() != machine.Never {
		t.Errorf("of an earlier term it is known that member 2 took %v, and that patience ends at %v", s.leastTime(2), s.Due())
	}
}
