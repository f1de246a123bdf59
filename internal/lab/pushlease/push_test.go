package pushlease

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// lengths are such that each of them can be told from the others.
var lengths = Lengths{Guard: 300 * time.Millisecond, Lease: 200 * time.Millisecond, Grace: 500 * time.Millisecond, Renew: 100 * time.Millisecond}

func TestLengths(t *testing.T) {
	if got, want := PaperLengths.Stall(), 9*time.Second; got != want {
		t.Errorf("the paper's stall is %v, want %v", got, want)
	}
	for _, tc := range []struct {
		name string
		with func(*Lengths)
		ok   bool
	}{
		{"the paper's", func(*Lengths) {}, true},
		{"no lease", func(l *Lengths) { l.Lease = 0 }, false},
		{"no guard", func(l *Lengths) { l.Guard = 0 }, false},
		{"renewed when it is over", func(l *Lengths) { l.Renew = l.Lease }, false},
		{"never renewed", func(l *Lengths) { l.Renew = 0 }, false},
		{"given up before it is renewed", func(l *Lengths) { l.Grace = l.Renew - 1 }, false},
		{"hardly given up", func(l *Lengths) { l.Grace = maxGrace + 1 }, false},
	} {
		l := PaperLengths
		tc.with(&l)
		if err := l.Check(); errors.Is(err, errLengths) == tc.ok {
			t.Errorf("%s: got %v", tc.name, err)
		}
	}
}

func config(self machine.NodeID) quorumlease.Config {
	return quorumlease.Config{Self: self, Boot: 1, TTL: 200 * time.Millisecond}
}

func at(d time.Duration) machine.Mono { return machine.Mono(time.Hour + d) }

func voting(voters ...machine.NodeID) quorumlease.Memberships {
	return quorumlease.Memberships{{Voters: voters}}
}

// pair are a grantor, member 1, and a holder, member 2, which need each other.
type pair struct {
	g *grantor
	h *holder
}

func newPair() pair {
	return pair{newGrantor(config(1), lengths, at(0)), newHolder(config(2))}
}

var both = []machine.NodeID{1, 2}

// turn are the grantor's messages to the holder.
func (p pair) turn(t *testing.T, now time.Duration) any {
	t.Helper()
	list := p.g.turn(at(now), both[1:], quorumlease.Log{Term: 1, Last: 10})
	if len(list) != 1 || list[0].To != 2 {
		t.Fatalf("at %v it sends %+v, want one message to 2", now, list)
	}
	return list[0].Body
}

// establish has the holder acknowledge a guard, and returns the first promise, sent at
// ten milliseconds.
func (p pair) establish(t *testing.T) Pushed {
	t.Helper()
	ack, ok := p.h.guarded(at(0), 1, p.turn(t, 0).(Guard))
	if !ok {
		t.Fatal("the guard is not acknowledged")
	}
	p.g.guardAcked(at(10*time.Millisecond), 2, ack)
	return p.turn(t, 10*time.Millisecond).(Pushed)
}

// bound is until when the grantor is.
func (p pair) bound(now time.Duration) time.Duration {
	if holders, _ := p.g.Holders(at(now)); len(holders) == 0 {
		return 0
	}
	return p.g.Due(at(now)).Sub(at(0))
}

// Lines 1 to 13: a guard, its acknowledgment, a promise, its acknowledgment.
func TestEstablish(t *testing.T) {
	p := newPair()
	ms := time.Millisecond
	m := p.establish(t)
	if got, want := p.bound(10*ms), 520*ms; got != want { // guard, lease, and ten
		t.Errorf("bound until %v by the promise, want %v", got, want)
	}
	reply, ok := p.h.promised(at(20*ms), 1, m, quorumlease.Log{Term: 1, Commit: 10})
	if got, want := p.h.Until(voting(both...)).Sub(at(0)), 218*ms; !ok || got != want {
		t.Errorf("%v, a lease until %v, want %v", ok, got, want)
	}
	if took, ok := p.g.replied(at(30*ms), 2, reply); took != 20*ms || !ok {
		t.Errorf("it took %v (%v)", took, ok)
	}
	if got, want := p.bound(30*ms), 240*ms; got != want {
		t.Errorf("bound until %v by what is acknowledged, want %v", got, want)
	}
}

// An acknowledgment of a promise of another life ends none of this one.
func TestRepliesToAnotherLife(t *testing.T) {
	p := newPair()
	m := p.establish(t)
	reply, _ := p.h.promised(at(20*time.Millisecond), 1, m, quorumlease.Log{Term: 1, Commit: 10})
	reply.Boot++
	if _, ok := p.g.replied(at(30*time.Millisecond), 2, reply); ok {
		t.Fatal("it takes an acknowledgment of what another life promised")
	}
	if got, want := p.bound(30*time.Millisecond), 520*time.Millisecond; got != want {
		t.Errorf("bound until %v, want %v", got, want)
	}
}

// A promise is over at its end: the grantor is not woken later than that.
func TestTheEndOfAPush(t *testing.T) {
	p := newPair()
	p.establish(t)
	end := at(p.bound(10 * time.Millisecond))
	if holders, _ := p.g.Holders(end - 1); len(holders) != 1 {
		t.Errorf("just before its end it is %+v that have promises, want one", holders)
	}
	if holders, _ := p.g.Holders(end); len(holders) != 0 || p.g.Due(end) != machine.Never {
		t.Errorf("at its end %+v have promises, and the next runs out at %v", holders, p.g.Due(end))
	}
}

// Line 11, and the first line 20 of Figure 5: the messages that the holder takes for a
// promise.
func TestPromised(t *testing.T) {
	late := func(by time.Duration) func(*Pushed) time.Duration {
		return func(*Pushed) time.Duration { return by }
	}
	for _, tc := range []struct {
		name   string
		change func(*Pushed) time.Duration // when it comes
		counts bool
	}{
		{"in time", late(20 * time.Millisecond), true},
		{"as late as it may", late(297*time.Millisecond - 1), true},
		{"after the guard", late(297 * time.Millisecond), false},
		{"as late, by what it waited at the grantor", func(p *Pushed) time.Duration { p.Since = 100 * time.Millisecond; return 390 * time.Millisecond }, true},
		{"to another life", func(p *Pushed) time.Duration { p.To++; return 0 }, false},
		{"of an earlier life", func(p *Pushed) time.Duration { p.Boot--; return 0 }, false},
		{"of a later life that has sent no guard", func(p *Pushed) time.Duration { p.Boot++; return 0 }, false},
		{"by what was never acknowledged", func(p *Pushed) time.Duration { p.Acked++; return 0 }, false},
		{"longer than promises are", func(p *Pushed) time.Duration { p.Lease = quorumlease.MaxTTL + 1; return 0 }, false},
	} {
		p := newPair()
		m := p.establish(t)
		now := tc.change(&m)
		_, ok := p.h.promised(at(now), 1, m, quorumlease.Log{Term: 1, Commit: 10})
		if leased := p.h.Until(voting(both...)) > at(now); ok != tc.counts || leased != tc.counts {
			t.Errorf("%s: acknowledged %v, leased %v, want %v", tc.name, ok, leased, tc.counts)
		}
	}
}

// A message that comes twice counts once, from its first arrival.
func TestPushedTwice(t *testing.T) {
	p := newPair()
	ms := time.Millisecond
	m := p.establish(t)
	p.h.guarded(at(250*ms), 1, Guard{Boot: 1, Seq: 1}) // again
	if _, ok := p.h.promised(at(310*ms), 1, m, quorumlease.Log{Term: 1, Commit: 10}); ok {
		t.Error("a promise is taken by an acknowledgment that was repeated later")
	}
	p = newPair()
	m = p.establish(t)
	p.h.promised(at(20*ms), 1, m, quorumlease.Log{Term: 1, Commit: 10})
	until := p.h.Until(voting(both...))
	if _, ok := p.h.promised(at(200*ms), 1, m, quorumlease.Log{Term: 1, Commit: 10}); ok || p.h.Until(voting(both...)) != until {
		t.Error("a promise that came twice lasts longer")
	}
}

// Figure 5, line 20, as printed, lets the grantor go while the holder may read. Its timer falls
// to a lease by the reply to one promise, though another is on its way that the holder may take
// as late as the guard allows.
func TestLine20(t *testing.T) {
	p := newPair()
	ms := time.Millisecond
	first, _ := p.h.promised(at(20*ms), 1, p.establish(t), quorumlease.Log{Term: 1, Commit: 10})
	second := p.turn(t, 110*ms).(Pushed)
	printed := p.g.Due(at(110 * ms)) // line 15
	p.g.replied(at(120*ms), 2, first)
	printed = min(printed, at(120*ms).Add(quorumlease.Bound(lengths.Lease))) // line 20
	if _, ok := p.h.promised(at(290*ms), 1, second, quorumlease.Log{Term: 1, Commit: 10}); !ok {
		t.Fatal("the second promise came too late")
	}
	if until := p.h.Until(voting(both...)); printed >= until {
		t.Errorf("as printed it is bound until %v, and the holder reads until %v: no bug", printed, until)
	} else if due := p.g.Due(at(290 * ms)); due < until {
		t.Errorf("bound until %v, and the holder reads until %v", due, until)
	}
}

// The renewals of a chain repeat its stamp; when it has run out there is another.
func TestPushedStamp(t *testing.T) {
	p := newPair()
	ms := time.Millisecond
	first := p.establish(t)
	p.g.turn(at(110*ms), both[1:], quorumlease.Log{Term: 2, Last: 20})
	again := p.g.turn(at(210*ms), both[1:], quorumlease.Log{Term: 2, Last: 20})[0].Body.(Pushed)
	if again.Stamp != first.Stamp || again.Stamp != (quorumlease.Stamp{Term: 1, Index: 10}) {
		t.Errorf("the renewal is stamped %+v, the first %+v", again.Stamp, first.Stamp)
	}
	p.g.turn(at(220*ms), nil, quorumlease.Log{})
	p.g.Shortened(15)
	if p.bound(719*ms) == 0 || p.bound(721*ms) != 0 {
		t.Error("the last promise binds it for guard and lease, and no longer")
	}
	p.g.turn(at(800*ms), both[1:], quorumlease.Log{Term: 3, Last: 30})
	p.g.guardAcked(at(810*ms), 2, GuardAck{Boot: 1, To: 1, Seq: 4})
	if m := p.g.turn(at(810*ms), both[1:], quorumlease.Log{Term: 3, Last: 30})[0].Body.(Pushed); m.Stamp != (quorumlease.Stamp{Term: 3, Index: 30}) {
		t.Errorf("after it ran out it is stamped %+v", m.Stamp)
	}
}

// Section 3.7: a holder that acknowledges nothing is suspected after the grace period, gets
// no more promises, and is free of the last one after guard and lease.
func TestGrace(t *testing.T) {
	p := newPair()
	ms := time.Millisecond
	p.establish(t)
	promises, last := 1, 10*ms
	for now := 110 * ms; now < 2*time.Second; now += 100 * ms {
		switch p.turn(t, now).(type) {
		case Pushed:
			promises, last = promises+1, now
			if len(p.g.Suspects()) > 0 {
				t.Errorf("suspected at %v, and gets promises still", now)
			}
		case Guard:
			if !slices.Equal(p.g.Suspects(), both[1:]) {
				t.Errorf("not suspected at %v", now)
			}
		}
	}
	if want := 10*ms + lengths.Grace; promises != 6 || last != want {
		t.Errorf("%d promises, the last one at %v, want 6 until %v", promises, last, want)
	}
	if end := p.bound(last); end != 0 && end != last+lengths.Wait()+10*ms {
		t.Errorf("bound until %v", end)
	}
	p.g.guardAcked(at(3*time.Second), 2, GuardAck{Boot: 1, To: 2, Seq: 7})
	if got := p.g.Suspects(); len(got) > 0 {
		t.Errorf("it is back, and %v is suspected", got)
	}
	if _, ok := p.turn(t, 3*time.Second).(Pushed); !ok {
		t.Error("it is back, and gets no promise")
	}
}

// A grantor that has forgotten its promises counts as bound to everyone, for t_wait.
func TestAGrantorThatRestarts(t *testing.T) {
	cfg := config(1)
	cfg.EarlierTTL = lengths.Wait()
	g := newGrantor(cfg, lengths, at(0))
	for now, want := range map[time.Duration]bool{0: true, 509 * time.Millisecond: true, 510 * time.Millisecond: false} {
		if _, everyone := g.Holders(at(now)); everyone != want {
			t.Errorf("after %v everyone is %v", now, everyone)
		}
	}
}

// Messages may be lost, repeated, late and out of order, and clocks may differ in rate. While
// the holder believes in a promise, the grantor is bound to that life of it, or a next life of
// the grantor to everyone.
func TestPushIsSafe(t *testing.T) {
	leased := 0
	for seed := range uint64(300) {
		w := &pushWorld{rnd: rand.New(rand.NewPCG(1, seed)), wire: map[time.Duration][]any{}, to: both[1:]}
		for i := range w.rates {
			w.rates[i] = 1 + (2*w.rnd.Float64()-1)*0.0099
			w.cfgs[i] = config(machine.NodeID(i + 1))
		}
		w.loss, w.late = 0.4*w.rnd.Float64(), 0.5*w.rnd.Float64()
		w.g, w.h = newGrantor(w.cfgs[0], lengths, w.clock(0)), newHolder(w.cfgs[1])
		for range 20_000 {
			w.millisecond()
			if w.h.Until(voting(both...)) <= w.clock(1) {
				continue
			}
			leased++
			holders, everyone := w.g.Holders(w.clock(0))
			if !everyone && !slices.Contains(holders, quorumlease.Lifetime{Member: 2, Boot: w.cfgs[1].Boot}) {
				t.Fatalf("seed %d: at %v life %d of the holder believes for %v more, and the grantor is bound to %v",
					seed, w.now, w.cfgs[1].Boot, w.h.Until(voting(both...)).Sub(w.clock(1)), holders)
			}
		}
	}
	if leased < 1_000_000 {
		t.Errorf("there was a lease in %d of 6,000,000 milliseconds: the test tells little", leased)
	}
}

// pushWorld is a grantor and a holder, a bad wire, and clocks of other rates.
type pushWorld struct {
	rnd        *rand.Rand
	g          *grantor
	h          *holder
	cfgs       [2]quorumlease.Config
	rates      [2]float64
	now        time.Duration
	wire       map[time.Duration][]any // by when it arrives
	loss, late float64
	to         []machine.NodeID // the holders that are to have promises
}

func (w *pushWorld) clock(who int) machine.Mono {
	return at(time.Duration(float64(w.now) * w.rates[who]))
}

func (w *pushWorld) chance(p float64) bool { return w.rnd.Float64() < p }

func (w *pushWorld) send(body any) {
	for w.chance(1 - w.loss) { // and maybe again
		longest := 50
		if w.chance(w.late) {
			longest = 700
		}
		at := w.now + time.Duration(1+w.rnd.IntN(longest))*time.Millisecond
		w.wire[at] = append(w.wire[at], body)
		if w.chance(0.8) {
			return
		}
	}
}

func (w *pushWorld) millisecond() {
	w.now += time.Millisecond
	switch {
	case w.chance(0.001):
		if w.to = nil; w.chance(0.7) {
			w.to = both[1:]
		}
	case w.chance(0.0002):
		w.cfgs[0].Boot++
		w.cfgs[0].EarlierTTL = lengths.Wait()
		w.g = newGrantor(w.cfgs[0], lengths, w.clock(0))
	case w.chance(0.0005):
		w.cfgs[1].Boot++
		w.h = newHolder(w.cfgs[1])
	}
	for _, body := range w.wire[w.now] {
		switch m := body.(type) {
		case Guard:
			if ack, ok := w.h.guarded(w.clock(1), 1, m); ok {
				w.send(ack)
			}
		case Pushed:
			if reply, ok := w.h.promised(w.clock(1), 1, m, quorumlease.Log{}); ok {
				w.send(reply)
			}
		case GuardAck:
			w.g.guardAcked(w.clock(0), 2, m)
		case PromiseReply:
			w.g.replied(w.clock(0), 2, m)
		}
	}
	delete(w.wire, w.now)
	for _, m := range w.g.turn(w.clock(0), w.to, quorumlease.Log{}) {
		w.send(m.Body)
	}
}
