package flease

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestHowLongAClientHolds: a client holds as long as its peer, or until a TTL after it last named the
// lease, if that is sooner. Its deadline never shrinks, and does not move once it has passed.
func TestHowLongAClientHolds(t *testing.T) {
	const ttl = 10 * time.Second
	now := machine.Mono(time.Hour)
	in := func(s float64) machine.Mono { return now.Add(time.Duration(s * float64(time.Second))) }
	for name, tt := range map[string]struct {
		named, told machine.Mono
		held        machine.Mono // the peer's own deadline
		lapsed      bool
		until       machine.Mono
		ok          bool
	}{
		"as long as the peer":            {now, 0, in(7), false, in(7), true},
		"a TTL after it was named":       {in(-4), 0, in(7), false, in(6), true},
		"longer than before":             {in(-4), in(2), in(7), false, in(6), true},
		"no less than before":            {in(-4), in(6.5), in(7), false, in(6.5), true},
		"it has lapsed":                  {now, in(2), in(7), true, in(2), false},
		"the peer's has ended":           {now, in(2), now, false, in(2), false},
		"the last moment":                {in(-10) + 1, now + 1, in(7), false, now + 1, true},
		"its time has passed":            {in(-10), now, in(7), false, now, false},
		"named later than it was told":   {in(-4), now, in(7), false, in(6), true},
		"told longer than it was named":  {in(-10), now + 1, in(7), false, now + 1, true},
		"never named in time, nor told":  {in(-12), 0, in(7), false, in(-2), true}, // mind gives it back
		"the peer's ends before it does": {now, in(8), in(7), false, in(8), true},
	} {
		clk := new(clock.Fake)
		clk.Advance(now.Sub(clk.Now()))
		p := barePeer(t, Config{Clock: clk})
		lease := heldClaim(p.Leaser(), tenure.Claim{TTL: ttl}, tt.held, 1<<62)
		s := &session{peer: p}
		x := &sessionClaim{ttl: ttl, named: tt.named, told: tt.told, lapsed: tt.lapsed, lease: lease}
		if ok := s.tell(x); ok != tt.ok || x.told != tt.until {
			t.Errorf("%s: it may hold for another %v, %v; want %v, %v", name, x.told.Sub(now), ok, tt.until.Sub(now), tt.ok)
		}
	}
	clk := new(clock.Fake)
	clk.Advance(time.Hour)
	s := &session{peer: &Peer{cfg: Config{Clock: clk}}}
	if s.past(clk.Now()) != nil || s.past(clk.Now()+1) == nil {
		t.Errorf("a request of this moment: %v; of the next: %v", s.past(clk.Now()), s.past(clk.Now()+1))
	}
}

// served is a client's end of a session, with a machine behind the peer that a test plays.
type served struct {
	t     *testing.T
	clk   *clock.Fake
	m     *scripted
	p     *Peer
	s     *session
	lines *lines

	mu    sync.Mutex
	heard []event
}

const servedTTL, servedDelay = 10 * time.Second, 3 * time.Second

// inSession runs a test with a client of a peer whose machine admits each claim for eight seconds.
func inSession(t *testing.T, f func(*served)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		k := &served{t: t, m: &scripted{}}
		k.p = scriptedPeer(t, k.m, 100*time.Millisecond)
		k.clk = k.p.cfg.Clock.(*clock.Fake)
		k.m.answer = func(_ int, id uint64) flease.Report {
			return flease.Acquired{ID: id, Token: 7, Deadline: k.clk.Now().Add(8 * time.Second), Until: 1 << 62}
		}
		ours, theirs := net.Pipe()
		k.s, k.lines = k.p.newSession(k.p.ctx, theirs), newLines(ours, answerBytesMax)
		over := make(chan struct{})
		go func() { defer close(over); k.s.serve() }()
		go func() {
			for {
				var e event
				if k.lines.receive(&e) != nil {
					return
				}
				k.mu.Lock()
				k.heard = append(k.heard, e)
				k.mu.Unlock()
			}
		}()
		k.say(request{Op: "hello", Version: socketVersion})
		k.wantEvents("welcome")
		f(k)
		ours.Close()
		k.p.cancel(tenure.ErrClosed)
		k.p.abandon(tenure.ErrClosed)
		k.p.driver.Stop()
		<-over
	})
}

func (k *served) say(r request) {
	if err := k.lines.send(r); err != nil {
		k.t.Errorf("%s: %v", r.Op, err)
	}
}

// acquire sends a claim that was made some time ago.
func (k *served) acquire(id uint64, ago time.Duration) {
	k.say(request{Op: "acquire", ID: id, Name: fmt.Sprint("x", id), TTLMS: servedTTL.Milliseconds(), LockDelayMS: servedDelay.Milliseconds(), At: k.clk.Now().Add(-ago)})
}

// wantEvents wants events of these kinds, in this order, and nothing else. It returns the last.
func (k *served) wantEvents(kinds ...string) (last event) {
	k.t.Helper()
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	var got []string
	for _, e := range k.heard {
		got, last = append(got, e.Event), e
	}
	if k.heard = nil; !slices.Equal(got, kinds) {
		k.t.Errorf("the client hears %q (%s), want %q", got, last.Error, kinds)
	}
	return last
}

// extendDeadline moves the peer's deadline far ahead, without an event for the client.
func (k *served) extendDeadline() {
	synctest.Wait()
	k.p.driver.Do(func() { k.p.claim(k.m.claims[0].ID, false).Extend(k.clk.Now().Add(time.Hour), 1<<62) })
}

// pass lets time pass.
func (k *served) pass(d time.Duration) {
	synctest.Wait()
	k.clk.Advance(d)
	synctest.Wait()
}

// released returns the number of claims that were given back to the machine.
func (k *served) released() int {
	n := 0
	k.p.driver.Do(func() { n = len(k.m.released) })
	return n
}

// TestALeaseOfAClient: a client's lease, from its beginning to its end.
func TestALeaseOfAClient(t *testing.T) {
	for name, play := range map[string]func(k *served){
		"it is named, and renewed, and released": func(k *served) {
			k.acquire(1, time.Second)
			began := k.clk.Now()
			if e := k.wantEvents("acquired"); e.ID != 1 || e.Token != 7 || e.TTLMS != servedTTL.Milliseconds() || e.Until != began.Add(8*time.Second) {
				k.t.Errorf("acquired %+v at %v", e, began)
			}
			k.pass(2 * time.Second)
			k.say(request{Op: "alive", At: k.clk.Now(), IDs: []uint64{1, 99}})
			if e := k.wantEvents("renewed"); e.ID != 1 || e.Until != began.Add(8*time.Second) {
				k.t.Errorf("named: %+v", e)
			}
			k.p.driver.Do(func() {
				k.p.handle([]flease.Report{flease.Renewed{ID: k.m.claims[0].ID, Deadline: began.Add(20 * time.Second), Until: 1 << 62}})
			})
			if e := k.wantEvents("renewed"); e.ID != 1 || e.Until != began.Add(12*time.Second) {
				k.t.Errorf("renewed: %+v; want that it may hold for a TTL since it was named", e)
			}
			k.pass(9 * time.Second)
			k.wantEvents()
			k.say(request{Op: "release", ID: 1})
			if e := k.wantEvents("released"); e.ID != 1 || e.Error != "" || k.released() != 1 {
				k.t.Errorf("released: %+v, at the machine %d", e, k.released())
			}
			k.say(request{Op: "release", ID: 1})
			if e := k.wantEvents("released"); e.ID != 1 || e.Reason != "lost" {
				k.t.Errorf("released twice: %+v", e)
			}
		},
		"it is named no more": func(k *served) {
			k.acquire(1, 3*time.Second) // named three seconds ago, so for another seven
			k.wantEvents("acquired")
			k.extendDeadline()
			k.pass(7*time.Second - 1)
			k.wantEvents()
			k.pass(1)
			if e := k.wantEvents("lost"); e.ID != 1 || e.Reason != "lost" || !strings.Contains(e.Error, "did not say in time") {
				k.t.Errorf("lost: %+v", e)
			}
			k.say(request{Op: "alive", At: k.clk.Now(), IDs: []uint64{1}})
			k.wantEvents() // it is too late
			k.pass(servedDelay - 1)
			if n := k.released(); n != 0 {
				k.t.Errorf("others get it before the lock delay is over: %d", n)
			}
			k.pass(1)
			if n := k.released(); n != 1 {
				k.t.Errorf("an orphan: the lock delay is over, and it is released %d times", n)
			}
		},
		"the connection ends, and the peer cannot renew": func(k *served) {
			k.acquire(1, 0) // told eight seconds, and named for ten
			k.wantEvents("acquired")
			k.pass(time.Second)
			k.lines.conn.Close()
			k.pass(7 * time.Second)
			k.pass(servedDelay)
			if n := k.released(); n != 0 { // the peer's deadline has passed, too, so the machine drops it
				k.t.Errorf("what is lost is released %d times", n)
			}
		},
		"the connection ends, and the peer can renew": func(k *served) {
			k.acquire(1, 0)
			k.wantEvents("acquired")
			k.pass(4 * time.Second)
			k.say(request{Op: "alive", At: k.clk.Now().Add(-time.Second), IDs: []uint64{1}}) // named until 13, told 8
			k.wantEvents("renewed")
			k.lines.conn.Close()
			k.extendDeadline()
			k.pass(4 * time.Second)
			k.pass(servedDelay - 1)
			if n := k.released(); n != 0 {
				k.t.Errorf("others get it before the client knows and the lock delay is over: %d", n)
			}
			k.pass(1)
			if n := k.released(); n != 1 {
				k.t.Errorf("an orphan: the client knows, the lock delay is over, and it is released %d times", n)
			}
		},
		"it comes when the client was not heard of for too long": func(k *served) {
			k.acquire(1, servedTTL)
			if e := k.wantEvents("refused"); e.ID != 1 || !errors.Is(e.err(), tenure.ErrUnavailable) || !strings.Contains(e.Error, "not been heard of for too long") || k.released() != 1 {
				k.t.Errorf("%+v, and at the machine %d are released", e, k.released())
			}
			k.say(request{Op: "release", ID: 1})
			k.wantEvents("released")
			k.acquire(1, 0) // the id is free again
			k.wantEvents("acquired")
		},
		"there is no room for it": func(k *served) {
			k.s.mu.Lock()
			for id := range uint64(sessionClaimsMax) {
				k.s.claims[100+id] = &sessionClaim{}
			}
			k.s.mu.Unlock()
			k.acquire(1, 0)
			if e := k.wantEvents("refused"); e.ID != 1 || !errors.Is(e.err(), ErrBusy) || len(k.m.claims) > 0 {
				k.t.Errorf("%+v, and the machine is asked %d times", e, len(k.m.claims))
			}
			k.s.mu.Lock()
			if n := len(k.s.claims); n != sessionClaimsMax {
				k.t.Errorf("a claim for which there is no room takes some: there are %d, of %d", n, sessionClaimsMax)
			}
			delete(k.s.claims, 100)
			k.s.mu.Unlock()
			k.acquire(1, 0)
			k.wantEvents("acquired")
		},
		"the machine loses it": func(k *served) {
			k.acquire(1, 0)
			k.wantEvents("acquired")
			k.p.driver.Do(func() {
				k.p.handle([]flease.Report{flease.Lost{ID: k.m.claims[0].ID, Why: "for a reason"}})
			})
			if e := k.wantEvents("lost"); e.ID != 1 || e.Reason != "lost" || !strings.Contains(e.Error, "for a reason") {
				k.t.Errorf("lost: %+v", e)
			}
		},
		"the peer ends": func(k *served) {
			k.acquire(1, 0)
			k.wantEvents("acquired")
			k.p.abandon(ErrBusy)
			if e := k.wantEvents("lost"); !errors.Is(e.err(), tenure.ErrLost) || !strings.Contains(e.Error, ErrBusy.Error()) {
				k.t.Errorf("lost, for another reason that has a word: %+v", e)
			}
		},
		"its release is not confirmed": func(k *served) {
			k.acquire(1, 0)
			k.wantEvents("acquired")
			k.p.driver.Do(func() { k.m.unconfirmed = true })
			k.say(request{Op: "release", ID: 1})
			if e := k.wantEvents("released"); e.ID != 1 || !errors.Is(e.err(), tenure.ErrUnavailable) || !strings.Contains(e.Error, "was not confirmed") {
				k.t.Errorf("released: %+v", e)
			}
		},
		"it is released while it waits": func(k *served) {
			k.m.answer = func(int, uint64) flease.Report { return nil }
			k.acquire(1, 0)
			k.wantEvents()
			k.say(request{Op: "release", ID: 1})
			if e := k.wantEvents("released"); e.ID != 1 || e.Reason != "lost" {
				k.t.Errorf("a claim that waits is released: %+v, want that it is not held", e)
			}
			k.p.driver.Do(func() {
				k.p.handle([]flease.Report{flease.Acquired{ID: k.m.claims[0].ID, Token: 7, Deadline: k.clk.Now().Add(8 * time.Second), Until: 1 << 62}})
			})
			k.wantEvents("acquired") // by one who takes it for lost: it gives up by no longer naming it
			if n := k.released(); n != 0 {
				k.t.Errorf("a release that came while the claim waited gives %d leases back, want none", n)
			}
		},
		"the wait is canceled": func(k *served) {
			k.m.answer = func(int, uint64) flease.Report { return nil }
			k.acquire(1, 0)
			k.wantEvents()
			k.say(request{Op: "cancel", ID: 2}) // another's
			k.wantEvents()
			k.say(request{Op: "cancel", ID: 1})
			if e := k.wantEvents("refused"); e.ID != 1 || k.released() != 1 {
				k.t.Errorf("canceled: %+v, and at the machine %d are given up", e, k.released())
			}
		},
	} {
		t.Run(name, func(t *testing.T) { inSession(t, play) })
	}
}
