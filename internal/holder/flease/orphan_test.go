package flease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// TestStoppedClient: a client that stands still for longer than a lease loses it. Its other leases and
// claims do not keep the lost one from others.
func TestStoppedClient(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		c := l.peers[0].client("c")
		defer c.Close()
		other := l.acquire(c, time.Second, tenure.Claim{Name: "y", TTL: 3500 * time.Millisecond})
		for range 3 {
			lease := l.acquire(c, 10*time.Second, tenure.Claim{Name: "x", TTL: time.Second})
			time.Sleep(100 * time.Millisecond)
			c.p.Stop(1500 * time.Millisecond)
			time.Sleep(1600 * time.Millisecond)
			if err := lease.Check(); !errors.Is(err, tenure.ErrLost) {
				t.Errorf("it has stood still for longer than a TTL, and Check returns %v", err)
			}
			l.free("x", 1200*time.Millisecond, lease)
			if err := other.Check(); err != nil {
				t.Fatalf("the longer lease: %v", err)
			}
		}
	})
}

// TestLateAnswers: the peer's answers come too late for a client that is alive all the time and wants
// the name again at once.
func TestLateAnswers(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		c := l.peers[0].client("c")
		defer c.Close()
		l.acquire(c, time.Second, tenure.Claim{Name: "y", TTL: 3500 * time.Millisecond})
		lease := l.acquire(c, time.Second, tenure.Claim{Name: "x", TTL: time.Second})
		l.net.Cut("h1", "c", 1300*time.Millisecond)
		<-lease.Done()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if _, err := c.Acquire(ctx, tenure.Claim{Name: "x", TTL: time.Second}); err != nil {
			t.Errorf("an orphan: it has lost %q, and does not get it again: %v", "x", err)
		}
	})
}

// TestAdmittedTooLate: a claim that is admitted after its caller has left is given back.
func TestAdmittedTooLate(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		holder := l.peers[1].Leaser()
		defer holder.Close()
		lease := l.acquire(holder, time.Second, tenure.Claim{Name: "x", TTL: time.Second})
		c := l.peers[0].client("c")
		defer c.Close()
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan error)
		go func() {
			_, err := c.Acquire(ctx, tenure.Claim{Name: "x", TTL: 3500 * time.Millisecond})
			gone <- err
		}()
		time.Sleep(500 * time.Millisecond)
		l.net.Cut("h1", "c", 2*time.Second) // it hears nothing for a while
		time.Sleep(10 * time.Millisecond)
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond) // it is admitted
		l.net.Cut("c", "h1", 1300*time.Millisecond)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller hears %v", err)
		}
		time.Sleep(1300 * time.Millisecond)
		l.free("x", time.Second)
	})
}

// TestCallerGone: a claim is also given back if its caller waits in vain for the answer to its farewell.
func TestCallerGone(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		holder := l.peers[1].Leaser()
		defer holder.Close()
		lease := l.acquire(holder, time.Second, tenure.Claim{Name: "x", TTL: time.Second})
		c := l.peers[0].client("c")
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := c.Acquire(ctx, tenure.Claim{Name: "x", TTL: 3500 * time.Millisecond}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller hears %v", err)
		}
		if s, err := holder.Observe(context.Background(), "x"); err != nil || s.Waiting != 0 {
			t.Errorf("the caller has gone, and %d wait: %v", s.Waiting, err)
		}
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		l.free("x", time.Second)
	})
}

// TestCutPeer: a live client holds no longer than its peer.
func TestCutPeer(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		c := l.peers[0].client("c")
		defer c.Close()
		lease := l.acquire(c, time.Second, tenure.Claim{Name: "x", TTL: time.Second})
		for _, o := range []string{"h2", "h3"} {
			l.net.Cut("h1", o, time.Minute)
			l.net.Cut(o, "h1", time.Minute)
		}
		time.Sleep(500 * time.Millisecond)
		l.net.Cut("h1", "c", 5*time.Second) // nor does it hear that the lease is lost
		l.free("x", 3*time.Second, lease)
	})
}

// TestConnectionLost: a client whose connection ends keeps its leases until they run out.
func TestConnectionLost(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		c := l.peers[0].client("c")
		defer c.Close()
		lease := l.acquire(c, time.Second, tenure.Claim{Name: "x", TTL: time.Second})
		l.net.Reset("c", "h1")
		l.free("x", 3*time.Second, lease)
	})
}

// TestPeerCloses: a client also keeps its leases when its peer is closed or killed.
func TestPeerCloses(t *testing.T) {
	for name, end := range map[string]func(*labPeer){
		"closed": func(h *labPeer) { h.close() },
		"killed": func(h *labPeer) { h.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, 3, brief, func(l *lab) {
				c := l.peers[0].client("c")
				defer c.Close()
				lease := l.acquire(c, time.Second, tenure.Claim{Name: "x", TTL: time.Second})
				l.net.Cut("h1", "c", 5*time.Second) // it hears of nothing
				end(l.peers[0])
				l.free("x", 3*time.Second, lease)
				l.peers[0].start(false)
			})
		})
	}
}

// TestClientsLockDelay: others wait for the lock delay of a client that dies, and of one that
// does not say that it is alive.
func TestClientsLockDelay(t *testing.T) {
	const delay = 2 * time.Second
	for name, end := range map[string]func(*lab, *labClient){
		"killed":  func(l *lab, c *labClient) { c.kill(l) },
		"stopped": func(l *lab, c *labClient) { c.p.Stop(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, 3, brief, func(l *lab) {
				c := l.peers[0].client("c")
				defer c.Close()
				lease := l.acquire(c, time.Second, tenure.Claim{Name: "x", TTL: time.Second, LockDelay: delay})
				time.Sleep(time.Second)
				left := time.Until(lease.Deadline())
				end(l, c)
				took := l.free("x", 2*time.Second+2*delay)
				if took < left+delay {
					t.Errorf("the lock delay: %q is free after %v, and was held for another %v, with a lock delay of %v", "x", took, left, delay)
				}
				if took > time.Second+delay+time.Second {
					t.Errorf("an orphan: it is free after %v", took)
				}
			})
		})
	}
}

// TestLossIsSeenBeforeARenewal: a holder whose Check has seen the deadline pass has stopped, though the
// peer renews a moment later. Others wait for the lock delay, as for a holder that died.
func TestLossIsSeenBeforeARenewal(t *testing.T) {
	const delay = 2 * time.Second
	inLab(t, 1, brief, func(l *lab) {
		from := l.peers[0].Leaser()
		defer from.Close()
		lease := l.acquire(from, time.Second, tenure.Claim{Name: "x", TTL: time.Second, LockDelay: delay})
		engine.Expire(lease)
		if took := l.free("x", 10*time.Second, lease); took < delay {
			t.Errorf("the lock delay: what was lost is free after %v, want at least %v", took, delay)
		}
	})
}

// TestBusyClient: a client with many requests goes on naming its leases.
func TestBusyClient(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		c := l.peers[0].client("c")
		defer c.Close()
		lease := l.acquire(c, time.Second, tenure.Claim{Name: "x", TTL: time.Second})
		for range 50 {
			l.acquire(c, time.Second, tenure.Claim{Name: "y", TTL: time.Second}).Release(context.Background())
			time.Sleep(50 * time.Millisecond)
		}
		if err := lease.Check(); err != nil {
			t.Errorf("it asks for something else, and loses what it holds: %v", err)
		}
	})
}

// TestManyLeases: a client may hold more leases than a line has room for.
func TestManyLeases(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		c := l.peers[0].client("c")
		defer c.Close()
		var all []tenure.Lease
		for i := range 1200 {
			all = append(all, l.acquire(c, time.Second, tenure.Claim{Name: string(rune('a'+i%26)) + time.Duration(i).String(), TTL: 3 * time.Second}))
		}
		time.Sleep(8 * time.Second)
		for _, lease := range all {
			if err := lease.Check(); err != nil {
				t.Fatalf("one of many is lost: %v", err)
			}
		}
	})
}

// TestTheDeadWaitForNothing: the claims and looks that a client waits for end with its connection.
func TestTheDeadWaitForNothing(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		p := l.peers[0]
		holder := p.Leaser()
		defer holder.Close()
		lease := l.acquire(holder, time.Second, tenure.Claim{Name: "x", TTL: 3 * time.Second})
		c := p.client("c")
		since, err := c.Observe(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 2)
		go func() {
			_, err := c.Acquire(context.Background(), tenure.Claim{Name: "x", TTL: 3 * time.Second})
			ended <- err
		}()
		go func() {
			_, err := c.Await(context.Background(), since)
			ended <- err
		}()
		time.Sleep(time.Second)
		waits := func(claims, looks int) {
			t.Helper()
			s, err := holder.Observe(context.Background(), "x")
			if _, refs := p.Watched(); err != nil || s.Waiting != claims || refs != looks {
				t.Errorf("%d wait for the lease, and %d look, %v; want %d and %d", s.Waiting, refs, err, claims, looks)
			}
		}
		waits(1, 1)
		c.kill(l)
		<-ended
		<-ended
		time.Sleep(time.Second)
		waits(0, 0)
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
	})
}

// TestServesNoMore: Serve returns when its listener is closed, though clients are connected, and hold
// and wait for leases. They keep their leases until these run out.
func TestServesNoMore(t *testing.T) {
	inLab(t, 2, brief, func(l *lab) {
		h := l.peers[0]
		listener, err := l.net.Listen(h.p, 2)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- h.Serve(listener) }()
		var clients []*engine.Client
		connect := func(name string) *engine.Client {
			c, err := engine.Connect(context.Background(), engine.ClientConfig{Socket: "h1:2", Dial: l.net.Dialer(l.w.Start(name)), Clock: h.mono})
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
			return c
		}
		connect("idle")
		lease := l.acquire(connect("holds"), time.Second, tenure.Claim{Name: "x", TTL: time.Second})
		waits := connect("waits")
		ctx, cancel := context.WithCancel(context.Background())
		go waits.Acquire(ctx, tenure.Claim{Name: "x", TTL: time.Second})
		time.Sleep(time.Second)
		listener.Close()
		l.free("x", 5*time.Second, lease)
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("nobody listens any more, and Serve waits for clients to go")
		}
		if err := h.Err(); err != nil {
			t.Errorf("the peer has ended: %v", err)
		}
		cancel()
		for _, c := range clients {
			c.Close()
		}
	})
}

// TestNoAlarmsOfWhatIsOver: a lease that was released or lost leaves no alarm at its deadline, neither
// at the peer nor at the client.
func TestNoAlarmsOfWhatIsOver(t *testing.T) {
	cfg := brief
	cfg.TMax = time.Hour
	inLab(t, 1, cfg, func(l *lab) {
		h := l.peers[0]
		c := h.client("c")
		defer c.Close()
		claim := tenure.Claim{Name: "x", TTL: 50 * time.Minute}
		cycle := func() int {
			if err := l.acquire(c, time.Second, claim).Release(context.Background()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			return h.mono.Waiting()
		}
		before := cycle()
		var after int
		for range 20 {
			after = cycle()
		}
		if after >= before+20 {
			t.Errorf("%d alarms wait, and with each lease that is released one more: %d", before, after)
		}
	})
}
