package flease_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/host/peer"
)

// TestOneSaysThatAPeerRunsTwice: on the word of one other peer, which may be mistaken, a peer goes on
// and logs it. It ends when most of the others say the same.
func TestOneSaysThatAPeerRunsTwice(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		p := l.peers[0]
		local := p.Leaser()
		defer local.Close()
		lease := l.acquire(local, time.Second, tenure.Claim{Name: "x", TTL: time.Second})
		reason := fmt.Errorf("made up: %w", peer.ErrDuplicateID)
		p.Refused(2, reason)
		p.Refused(2, reason)
		time.Sleep(10 * time.Second)
		if err := p.Err(); err != nil {
			t.Errorf("on the word of one the peer ends: %v", err)
		}
		if err := lease.Check(); err != nil {
			t.Errorf("on the word of one a lease is lost: %v", err)
		}
		p.Refused(2, reason)
		synctest.Wait()
		time.Sleep(time.Second)
		if s := p.Status(); !strings.Contains(s.Peers[1].Error, "says that another process runs as this peer") {
			t.Errorf("nobody is told what a peer says: %+v", s.Peers)
		}
		p.Refused(3, reason)
		time.Sleep(time.Second)
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), "another process runs as peer 1") {
			t.Errorf("most say that another process runs as this peer, and it goes on: %v", err)
		}
		if err := lease.Err(); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("the peer has ended, and a lease that was held through it ends with %v", err)
		}
	})
}

// TestTakesItsWordBack: a peer that accepts a connection takes back that its sender runs twice.
func TestTakesItsWordBack(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		p := l.peers[0]
		reason := fmt.Errorf("made up: %w", peer.ErrDuplicateID)
		p.Refused(2, reason)
		time.Sleep(time.Second)
		l.net.Reset("h1", "h2")
		time.Sleep(10 * time.Second)
		if s := p.Status(); !s.Peers[1].Connected {
			t.Fatalf("no connection: %+v", s.Peers)
		}
		p.Refused(3, reason)
		time.Sleep(time.Second)
		if err := p.Err(); err != nil {
			t.Errorf("on the word of one, for the other has taken it back, the peer ends: %v", err)
		}
	})
}

// TestTheOneThatIsNotAtItsAddressEnds: of two processes of one peer, the one that is not at the
// peer's address finds the other there, and ends. The other goes on.
func TestTheOneThatIsNotAtItsAddressEnds(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		l.peers[1].kill()
		p := l.w.Start("elsewhere")
		defer p.End()
		defer l.net.Exit(p)
		listener, err := l.net.Listen(p, 7000)
		if err != nil {
			t.Fatal(err)
		}
		cfg := l.cfg
		cfg.Self, cfg.Listener, cfg.Dial, cfg.FS = l.addrs[3], listener, l.net.Dialer(p), l.peers[2].disk.FS(p)
		cfg.Clock, cfg.Wall = l.peers[2].mono, func() time.Time { return time.Now().Add(30 * 365 * 24 * time.Hour) }
		second, err := engine.Start(t.Context(), engine.Fresh(cfg, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		time.Sleep(20 * time.Second)
		if err := second.Err(); err == nil || !strings.Contains(err.Error(), "another process runs as peer 3") {
			t.Errorf("two processes run as peer 3: the one elsewhere goes on (%v)", err)
		}
		if err := l.peers[2].Err(); err != nil {
			t.Errorf("the one at the address ends: %v", err)
		}
	})
}

// TestIdleClientsMakeRoom: when all places are taken, the client that has been idle for the longest
// time goes, and none that holds or waits for a lease.
func TestIdleClientsMakeRoom(t *testing.T) {
	inLab(t, 1, engine.Rooms(brief, 3), func(l *lab) {
		h := l.peers[0]
		come := func(name string) *labTalk {
			k := h.talk(name)
			k.say(`{"op":"hello","version":2}`)
			if _, ok := k.hear("welcome", time.Second); !ok {
				t.Errorf("%s is not let in", name)
			}
			time.Sleep(10 * time.Second)
			return k
		}
		holds := func(k *labTalk, name string) {
			k.say(`{"op":"acquire","id":1,"at":%d,"name":%q,"ttl_ms":4000,"slots":1}`, h.mono.Now(), name)
			if _, ok := k.hear("acquired", time.Second); !ok {
				t.Errorf("%s is not acquired", name)
			}
		}
		serves := func(k *labTalk) bool {
			k.say(`{"op":"status","id":9}`)
			_, ok := k.hear("status", time.Second)
			return ok
		}
		other, longest, third := come("other"), come("longest idle"), come("third")
		if !serves(other) { // it came first, and is not the idlest
			t.Error("a client that is idle has lost its place for no reason")
		}
		holds(third, "x")
		fourth := h.talk("fourth")
		fourth.say(`{"op":"hello","version":2}`)
		if _, ok := fourth.hear("welcome", time.Second); !ok {
			t.Error("idle clients lock another out")
		}
		if serves(longest) {
			t.Error("of idle clients the one that has been idle for the longest time does not make room")
		}
		if !serves(other) || !serves(third) {
			t.Error("another one than the idlest has lost its place")
		}
		holds(fourth, "y")
		holds(other, "z")
		fifth := h.talk("fifth")
		if e, ok := fifth.hear("error", time.Second); !ok || !strings.Contains(e.Error, "each holds or waits") {
			t.Errorf("one that holds a lease makes room for another: %+v", e)
		}
	})
}

// TestPlacesComeBack: a client that has gone leaves its place to the next. A client that waits for an
// answer is not idle.
func TestPlacesComeBack(t *testing.T) {
	inLab(t, 1, engine.Rooms(brief, 2), func(l *lab) {
		h := l.peers[0]
		come := func(name string) *labTalk {
			k := h.talk(name)
			k.say(`{"op":"hello","version":2}`)
			if _, ok := k.hear("welcome", time.Second); !ok {
				t.Errorf("%s is not let in", name)
			}
			time.Sleep(time.Second)
			return k
		}
		serves := func(k *labTalk) bool {
			k.say(`{"op":"status","id":9}`)
			_, ok := k.hear("status", time.Second)
			return ok
		}
		stays := come("the one that stays")
		for range 3 {
			come("one that goes").conn.Close()
			time.Sleep(time.Second)
		}
		if !serves(stays) {
			t.Error("a client lost its place though others had gone")
		}
		stays.say(`{"op":"await","id":1,"name":"x"}`)
		time.Sleep(time.Second)
		come("another")
		come("a third")
		if !serves(stays) {
			t.Error("a client that waits made room for one that does nothing")
		}
	})
}

// TestARefusedClientIsHungUpOn: a client without a place is told so, and its connection is closed.
func TestARefusedClientIsHungUpOn(t *testing.T) {
	inLab(t, 1, engine.Rooms(brief, 1), func(l *lab) {
		h := l.peers[0]
		k := h.talk("first")
		k.say(`{"op":"hello","version":2}`)
		k.hear("welcome", time.Second)
		k.say(`{"op":"acquire","id":1,"at":%d,"name":"x","ttl_ms":4000,"slots":1}`, h.mono.Now())
		if _, ok := k.hear("acquired", time.Second); !ok {
			t.Error("x is not acquired")
		}
		next := h.talk("next")
		if e, ok := next.hear("error", time.Second); !ok || e.Reason != "busy" {
			t.Errorf("there is no place, and the next is told %+v", e)
		}
		if _, more := next.hear("more", time.Second); more || next.in.Err() != nil {
			t.Errorf("a client that is refused is not hung up on: %v", next.in.Err())
		}
	})
}

// TestStartsInAChange: a peer whose list names the members before takes part in the change without a message.
func TestStartsInAChange(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		h := l.peers[0]
		h.kill()
		l.cfg.Membership = engine.Fixed(engine.Members{Epoch: 2, Addrs: l.addrs, Was: l.addrs})
		h.start(false)
		if s := h.Status(); s.Epoch != 2 || s.Active != 1 {
			t.Errorf("at its start the list is of epoch %d and view %d is active, want 2 and 1", s.Epoch, s.Active)
		}
		time.Sleep(3 * (brief.TMax + 3*brief.Epsilon))
		if s := h.Status(); s.Active != 2 || !s.Serving {
			t.Errorf("the change is over, and view %d is active, serving: %v", s.Active, s.Serving)
		}
		from := h.Leaser()
		defer from.Close()
		l.acquire(from, time.Second, tenure.Claim{Name: "x", TTL: time.Second})
	})
}

// TestTheStatusTellsRoundTrips: a status has the round trip to each other peer in milliseconds.
func TestTheStatusTellsRoundTrips(t *testing.T) {
	inLab(t, 2, brief, func(l *lab) { // where a message takes a millisecond each way
		time.Sleep(10 * time.Second)
		s := l.peers[0].Status()
		if own, other := s.Peers[0], s.Peers[1]; own.RTTMS != 0 || !own.Connected || !other.Connected || other.RTTMS < 1.9 || other.RTTMS > 20 {
			t.Errorf("a round trip takes two milliseconds, and the status says %+v", s.Peers)
		}
	})
}

// TestCloseTellsOfReleases: Close of a peer returns the releases that no majority has confirmed.
func TestCloseTellsOfReleases(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		h := l.peers[0]
		from := h.Leaser()
		l.acquire(from, time.Second, tenure.Claim{Name: "x", TTL: 4 * time.Second})
		for _, other := range []string{"h2", "h3"} {
			l.net.Cut("h1", other, time.Minute)
			l.net.Cut(other, "h1", time.Minute)
		}
		if err := h.Peer.Close(); !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), `"x": the release was not confirmed`) {
			t.Errorf("nobody has heard of a release, and Close says %v", err)
		}
	})
}
