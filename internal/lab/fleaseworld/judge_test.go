package fleaseworld

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/machine"
)

// believed is a lease in which its holder believes until it is told otherwise.
type believed struct {
	tenure.Lease
	token    uint64
	deadline time.Time
	err      error
}

func (b *believed) Token() uint64       { return b.token }
func (b *believed) Deadline() time.Time { return b.deadline }
func (b *believed) Check() error        { return b.err }

// stand is a judge, and tenures of a minute that begin in turn: of a, b, c and so on, each on a host of its own.
type stand struct {
	*judge
	holds []*hold
}

func newStand() *stand {
	return &stand{judge: &judge{w: world.Rehearse(), names: map[string]*resource{}}}
}

// begin has the next tenure begin. The set changes it before.
func (s *stand) begin(token uint64, slots int, set ...func(*hold)) *hold {
	h := &hold{
		who: string(rune('a' + len(s.holds))), on: &host{mono: clock.NewSimulated(machine.Mono(time.Hour))}, claim: tenure.Claim{Name: "n", Slots: slots},
		lease: &believed{token: token, deadline: time.Now().Add(time.Minute)},
	}
	for _, f := range set {
		f(h)
	}
	s.holds = append(s.holds, h)
	s.onStart(h)
	return h
}

// judged plays a scene, and wants that its judge finds it wrong in these words, or finds nothing.
func judged(t *testing.T, name string, play func(*stand), want string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStand()
		play(s)
		got := strings.Join(s.w.Failures(), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: found %q, want %q", name, got, want)
		}
	})
}

func of(name string) func(*hold)          { return func(h *hold) { h.claim.Name = name } }
func delayed(d time.Duration) func(*hold) { return func(h *hold) { h.claim.LockDelay = d } }
func late(h *hold)                        { h.late = true }
func skewed(d time.Duration) func(*hold)  { return func(h *hold) { h.on.skew = d } }
func lose(h *hold)                        { h.lease.(*believed).err = fmt.Errorf("odd: %w", tenure.ErrLost) }

// All holders of a name bear each other, as far as their clocks are right.
func TestExclusionIsJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		play func(s *stand)
		want string
	}{
		"two at once":                           {func(s *stand) { s.begin(1, 1); s.begin(2, 1) }, "exclusion: [a b] hold n, and a bears 1"},
		"one after the other":                   {func(s *stand) { s.onEnd(s.begin(1, 1)); s.begin(2, 1) }, ""},
		"the first has died":                    {func(s *stand) { s.onDeath(s.begin(1, 1)); time.Sleep(time.Minute); s.begin(2, 1) }, ""},
		"the first knows that it has lost":      {func(s *stand) { lose(s.begin(1, 1)); s.begin(2, 1) }, ""},
		"two names":                             {func(s *stand) { s.begin(2, 1); s.begin(1, 1, of("m")) }, ""},
		"two that share":                        {func(s *stand) { s.begin(1, 2); s.begin(2, 2) }, ""},
		"three, of which one bears two":         {func(s *stand) { s.begin(1, 3); s.begin(2, 2); s.begin(3, 3) }, "exclusion: [a b c] hold n, and b bears 2"},
		"one for itself beside one that shares": {func(s *stand) { s.begin(1, 2); s.begin(2, 1) }, "and b bears 1"},
		"one by a clock that is behind":         {func(s *stand) { s.begin(1, 1, late, skewed(-time.Second)); s.begin(2, 1) }, ""},
		"one by a clock that was set right":     {func(s *stand) { s.begin(1, 1, late); s.begin(2, 1) }, ""},
		"two beside one whose clock is behind":  {func(s *stand) { s.begin(1, 1, late); s.begin(2, 1); s.begin(3, 1) }, "exclusion: [b c] hold n"},
		"one by a clock that is ahead":          {func(s *stand) { s.begin(1, 1, skewed(time.Second)) }, "skew: a acquires n by a clock that is 1s ahead of all others"},
		"another of three has ended":            {func(s *stand) { s.begin(1, 2); s.onEnd(s.begin(2, 2)); s.begin(3, 1) }, "exclusion: [a c] hold n, and c bears 1"},
		"one that believes anew": {func(s *stand) {
			lose(s.begin(1, 1))
			second := s.begin(2, 1)
			s.names["n"].holds = append(s.names["n"].holds, &hold{who: "again", on: second.on, claim: second.claim, lease: &believed{}})
			s.look()
		}, "exclusion: [b again] hold n"},
	} {
		judged(t, name, tt.play, tt.want)
	}
}

// Tokens of a name grow from one exclusive tenure to the next.
func TestFencingIsJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		play func(s *stand)
		want string
	}{
		"the same token again":                    {func(s *stand) { s.onEnd(s.begin(7, 1)); s.begin(7, 1) }, "fencing: b acquires n with token 7 after token 7"},
		"an older token after a death":            {func(s *stand) { s.onDeath(s.begin(7, 1)); s.begin(6, 1) }, "fencing: b acquires n with token 6 after token 7"},
		"older than one that shared":              {func(s *stand) { s.onEnd(s.begin(7, 2)); s.begin(6, 1) }, "fencing: b acquires n with token 6 after token 7"},
		"two that share, told in another order":   {func(s *stand) { s.begin(7, 2); s.begin(6, 2) }, ""},
		"one that shares is as old as one before": {func(s *stand) { s.onEnd(s.begin(7, 1)); s.begin(7, 2) }, "fencing: b acquires n with token 7 after token 7"},
		"older than one that was two before":      {func(s *stand) { s.onEnd(s.begin(7, 1)); s.onEnd(s.begin(9, 1)); s.begin(8, 1) }, "with token 8 after token 9"},
		"one that shares, older than two before":  {func(s *stand) { s.onEnd(s.begin(7, 1)); s.onEnd(s.begin(9, 2)); s.begin(6, 2) }, "with token 6 after token 7"},
		"a greater one of another name":           {func(s *stand) { s.begin(7, 1, of("m")); s.begin(6, 1) }, ""},
	} {
		judged(t, name, tt.play, tt.want)
	}
}

// Nobody acquires a name within the lock delay of a holder that has not released it: it counts from the
// last deadline of one that died, by its own clock, and from the loss of one that knows of it.
func TestLockDelaysAreJudged(t *testing.T) {
	const delay = 10 * time.Second
	after := func(d time.Duration, set ...func(*hold)) func(*stand) {
		return func(s *stand) {
			s.onDeath(s.begin(1, 1, append(set, delayed(delay))...))
			time.Sleep(d)
			s.begin(2, 1)
		}
	}
	for name, tt := range map[string]struct {
		play func(s *stand)
		want string
	}{
		"at once":                        {after(0), "lock delay: b acquires n, of which a was deprived, 1m10s too early"},
		"at the deadline":                {after(time.Minute), "10s too early"},
		"shortly before its end":         {after(time.Minute + delay - 30*time.Millisecond), "30ms too early"},
		"within what clocks may differ":  {after(time.Minute + delay - 25*time.Millisecond), ""},
		"at its end":                     {after(time.Minute + delay), ""},
		"its clock is behind":            {after(time.Minute, late), ""},
		"its clock is behind by then":    {after(time.Minute, skewed(-time.Second)), ""},
		"it was released":                {func(s *stand) { s.onEnd(s.begin(1, 1, delayed(delay))); s.begin(2, 1) }, ""},
		"it was lost, and another waits": {func(s *stand) { lose(s.begin(1, 1, delayed(delay))); s.look(); time.Sleep(delay); s.begin(2, 1) }, ""},
		"it was lost, and another comes": {func(s *stand) {
			lose(s.begin(1, 1, delayed(delay)))
			s.look()
			time.Sleep(delay / 2)
			s.begin(2, 1)
		}, "lock delay: b acquires n, of which a was deprived, 5s too early"},
		"it was renewed before it died": {func(s *stand) {
			h := s.begin(1, 1, delayed(delay))
			h.lease.(*believed).deadline = time.Now().Add(time.Hour)
			s.onDeath(h)
			time.Sleep(2 * time.Minute)
			s.begin(2, 1)
		}, "too early"},
		"both may share":                        {func(s *stand) { s.onDeath(s.begin(1, 2, delayed(delay))); s.begin(2, 2) }, ""},
		"there is no room for a third":          {func(s *stand) { s.onDeath(s.begin(1, 2, delayed(delay))); s.begin(2, 2); s.begin(3, 2) }, "lock delay: c acquires n, of which a"},
		"the next one's clock is behind":        {func(s *stand) { s.onDeath(s.begin(1, 1, delayed(delay))); s.begin(2, 1, late) }, ""},
		"the next one bears none, the dead do":  {func(s *stand) { s.onDeath(s.begin(1, 2, delayed(delay))); s.begin(2, 1) }, "lock delay: b acquires n"},
		"the dead bear none, the next one does": {func(s *stand) { s.onDeath(s.begin(1, 1, delayed(delay))); s.begin(2, 2) }, "lock delay: b acquires n"},
	} {
		judged(t, name, tt.play, tt.want)
	}
}

// A lease that is lost while nothing fails is lost too early.
func TestEarlyLossesAreJudged(t *testing.T) {
	lost := func(s *stand) { lose(s.begin(1, 1)); s.look() }
	judged(t, "while faults last", lost, "")
	judged(t, "while nothing fails", func(s *stand) { s.steady = true; lost(s) }, "early loss: a loses n though nothing fails")
	judged(t, "it is held", func(s *stand) { s.steady = true; s.begin(1, 1); s.look() }, "")
	judged(t, "it was given back before", func(s *stand) { s.steady = true; h := s.begin(1, 1); s.onEnd(h); lose(h); s.look() }, "")
}

// Errors do not say one thing twice, nor how a connection was ended.
func TestWordsAreJudged(t *testing.T) {
	for _, tt := range []struct {
		err error
		bad bool
	}{
		{nil, false},
		{tenure.ErrLost, false},
		{errors.New("no majority of the peers answers"), false},
		{fmt.Errorf("lease lost: %w", tenure.ErrLost), true},
		{errors.New("read: use of closed network connection"), true},
		{errors.New("set tcp 1.2.3.4"), true},
		{errors.New("set unix /s"), true},
		{errors.New("read: EOF"), true},
		{errors.New("%!d(string=x)"), true},
		{errors.New("the leaser is closed: open a new one"), false},
		{fmt.Errorf("%w: open a new one", tenure.ErrLost), true},
	} {
		want := ""
		if tt.bad {
			want = "words: "
		}
		judged(t, fmt.Sprint(tt.err), func(s *stand) { s.words(tt.err) }, want)
	}
}
