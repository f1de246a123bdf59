package flease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// confirmRelease reports that the claim is released, as the machine does.
func (x *claim) confirmRelease() { x.over(errReleased, &flease.Released{ID: x.id, Confirmed: true}) }

// TestCloseIsPatientWithEach: Close waits for as long as releases are confirmed, however many there
// are, and gives up when none was confirmed for a while. Its error names no lost leases.
func TestCloseIsPatientWithEach(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := barePeer(t, Config{})
		p.pure.RoundTimeout = time.Second
		l, other := p.Leaser(), p.Leaser()
		patience := max(releasePatience, 8*p.pure.RoundTimeout)
		begin := func(id uint64, of *Leaser, err error) *claim {
			x := heldClaim(of, tenure.Claim{Name: fmt.Sprint("claim ", id), TTL: time.Hour}, machine.Mono(time.Hour), machine.Wall(time.Hour))
			_ = x.End(err)
			p.claims[id] = x
			return x
		}
		sooner, later := begin(1, l, errReleased), begin(2, l, errReleased)
		begin(3, other, errReleased)
		begin(4, l, tenure.ErrLost)
		time.AfterFunc(patience*9/10, later.confirmRelease)
		time.AfterFunc(patience*18/10, sooner.confirmRelease)
		began := time.Now()
		if err := p.releaseOf(l); err != nil || time.Since(began) != patience*18/10 {
			t.Errorf("two releases are confirmed, each in time, and Close returns %v after %v; want no error after %v", err, time.Since(began), patience*18/10)
		}
		clear(p.claims)
		for id := range uint64(100) {
			begin(id, l, errReleased)
		}
		began = time.Now()
		err := p.releaseOf(l)
		if took := time.Since(began); took != patience {
			t.Errorf("no release is confirmed, and Close gives up after %v, want %v", took, patience)
		}
		if n := strings.Count(fmt.Sprint(err), "was not confirmed"); n != 10 {
			t.Errorf("of a hundred releases that were not confirmed %d are told, want 10", n)
		}
	})
}

// TestHowLongAReleasedLeaseLasts: the error of an unconfirmed release has the reason, and the time
// within which others get the lease.
func TestHowLongAReleasedLeaseLasts(t *testing.T) {
	why := errors.New("the caller's reason")
	for name, tt := range map[string]struct {
		end  func(p *Peer, giveUp context.CancelCauseFunc)
		says string
	}{
		"the caller gives up": {func(_ *Peer, giveUp context.CancelCauseFunc) { giveUp(why) }, why.Error()},
		"the peer ends":       {func(p *Peer, _ context.CancelCauseFunc) { p.cancel(errors.New("its end")) }, "its end"},
		"nobody answers":      {func(*Peer, context.CancelCauseFunc) {}, "no majority answered"},
		"it is not confirmed": {func(p *Peer, _ context.CancelCauseFunc) { p.claims[1].over(errReleased, nil) }, "no majority answered"},
	} {
		bubble.Test(t, func(t *testing.T) {
			var now clock.Fake
			p := barePeer(t, Config{Clock: &now, Epsilon: 250 * time.Millisecond})
			x := heldClaim(p.Leaser(), tenure.Claim{TTL: 20 * time.Second, LockDelay: 7 * time.Second}, machine.Mono(15*time.Second), machine.Wall(16*time.Second))
			_ = x.End(errReleased)
			p.claims = map[uint64]*claim{1: x}
			ctx, giveUp := context.WithCancelCause(context.Background())
			defer giveUp(nil)
			began, ended := time.Now(), make(chan error)
			go func() { ended <- x.Release(ctx) }()
			synctest.Wait()
			tt.end(p, giveUp)
			err := <-ended
			if !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "ends by itself within 22.25s") {
				t.Errorf("%s: %v, want %q, and that it ends within what is left of it, its lock delay and ε", name, err, tt.says)
			}
			if took := time.Since(began); name == "nobody answers" && took != x.ttl || name != "nobody answers" && took != 0 {
				t.Errorf("%s: Release returns after %v", name, took)
			}
		})
	}
}

// TestReleasedTwice: the second Release of a lease waits for the first, and returns the same.
func TestReleasedTwice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := barePeer(t, Config{}).Leaser()
		x := heldClaim(l, tenure.Claim{TTL: time.Hour}, machine.Mono(time.Hour), 0)
		_ = x.End(errReleased)
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- x.Release(t.Context()) }()
		}
		synctest.Wait()
		if len(ended) > 0 {
			t.Errorf("before the release is confirmed one returns %v", <-ended)
		}
		x.confirmRelease()
		for i, err := range []error{<-ended, <-ended, x.Release(t.Context())} {
			if err != nil {
				t.Errorf("Release %d: %v", i+1, err)
			}
		}
		lost := heldClaim(l, tenure.Claim{}, machine.Mono(time.Hour), 0)
		_ = lost.End(tenure.ErrLost)
		if err := lost.Release(t.Context()); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("what was lost is released: %v", err)
		}
	})
}

// TestLateAnswersToWhoGivesUp: a caller that gives up gets a refusal that came at the same time.
func TestLateAnswersToWhoGivesUp(t *testing.T) {
	bad := fmt.Errorf("%w: made up", tenure.ErrClaim)
	in := &tenure.State{Name: "x", Holders: []tenure.Holding{{Holder: "h"}}}
	for name, tt := range map[string]struct {
		before func(x *claim)
		late   error
		token  uint64
	}{
		"none":     {func(x *claim) { x.noteHolders(in) }, nil, 0},
		"admitted": {func(x *claim) { x.acquired(flease.Acquired{Token: 4, Deadline: machine.Mono(time.Hour)}) }, nil, 4},
		"refused":  {func(x *claim) { x.over(bad, nil) }, bad, 0},
	} {
		x := barePeer(t, Config{}).Leaser().newClaim(tenure.Claim{})
		verdict := x.Verdict()
		tt.before(x)
		seen, late := x.giveUp(verdict)
		if late != tt.late || x.Err() == nil || tt.late != nil && x.Err() != tt.late {
			t.Errorf("%s: the late answer is %v, want %v; the claim ends with %v", name, late, tt.late, x.Err())
		}
		if x.seen != nil && len(seen.Holders) != 1 {
			t.Errorf("%s: nobody is told who was in the way", name)
		}
		x.acquired(flease.Acquired{Token: 5, Deadline: machine.Mono(time.Hour)})
		if x.Token() != tt.token {
			t.Errorf("%s: a claim that was given up is admitted", name)
		}
	}
}

// TestVerdicts: a refusal becomes the error that its caller gets.
func TestVerdicts(t *testing.T) {
	for name, tt := range map[string]struct {
		r    flease.Refused
		is   error
		says string
	}{
		"bad":       {flease.Refused{Err: fmt.Errorf("%w: made up", flease.ErrClaim)}, tenure.ErrClaim, "made up"},
		"busy":      {flease.Refused{Err: flease.ErrBusy}, flease.ErrBusy, "too much to do"},
		"held":      {flease.Refused{State: flease.State{Holdings: []flease.Holding{{Holder: "web-3", Slots: 1}}, Waiting: 1}}, nil, "web-3"},
		"reserved":  {flease.Refused{State: flease.State{Waiting: 1}}, nil, "others were here before"},
		"contested": {flease.Refused{}, nil, "another claim, which was quicker"},
	} {
		err := verdict("x", tt.r)
		var held tenure.HeldError
		if tt.is == nil && (!errors.As(err, &held) || held.Name != "x") || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

// TestARenewalBehindTheDeadline: a renewal after the deadline is too late, though the holder has not
// looked at its clock. The lease is lost, and is given back after its lock delay.
func TestARenewalBehindTheDeadline(t *testing.T) {
	var now clock.Fake
	now.Advance(time.Hour)
	p := barePeer(t, Config{Clock: &now})
	x := heldClaim(p.Leaser(), tenure.Claim{TTL: time.Minute, LockDelay: time.Hour}, now.Now(), machine.Wall(time.Hour))
	x.renewed(p.cfg.glance(), flease.Renewed{Deadline: now.Now().Add(time.Minute), Until: 1 << 60})
	if err := x.Err(); !errors.Is(err, tenure.ErrLost) || x.Left() != 0 {
		t.Errorf("a renewal comes when the deadline has passed, and the lease goes on: %v", err)
	}
}

// fakePeer returns a client, and the end of its connection at which a test plays the peer.
func fakePeer(t *testing.T) (*Client, *lines) {
	t.Helper()
	ours, theirs := net.Pipe()
	peer := newLines(theirs, answerBytesMax)
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		var hello request
		if peer.receive(&hello) == nil {
			_ = peer.send(event{Event: "welcome", Version: socketVersion, At: clock.System.Now(), TMaxMS: 60_000})
		}
	}()
	c, err := Connect(context.Background(), ClientConfig{Socket: "path", Dial: func(context.Context, string) (net.Conn, error) {
		select {
		case <-greeted:
			return nil, errors.New("nobody listens")
		default:
		}
		return ours, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-greeted
	return c, peer
}

// next returns the client's next request of a kind.
func (l *lines) next(t *testing.T, op string) (r request) {
	t.Helper()
	for r.Op != op {
		r = request{}
		if err := l.receive(&r); err != nil {
			t.Fatalf("the client has no request %q: %v", op, err)
		}
	}
	return r
}

// acquired returns a lease of the client.
func (l *lines) acquired(t *testing.T, c *Client, claim tenure.Claim) tenure.Lease {
	t.Helper()
	got := make(chan tenure.Lease, 1)
	go func() {
		lease, err := c.Acquire(context.Background(), claim)
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	r := l.next(t, "acquire")
	if err := l.send(event{Event: "acquired", ID: r.ID, Token: 7, TTLMS: r.TTLMS, Until: clock.System.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	return <-got
}

// TestAClientHearsOfALoss: when the peer reports a loss, the lease ends at once, with the peer's words,
// and is named no more. A later release returns the loss.
func TestAClientHearsOfALoss(t *testing.T) {
	for said, want := range map[string]string{"lease lost: for a reason": "lease lost: for a reason", "": tenure.ErrLost.Error()} {
		c, peer := fakePeer(t)
		lease := peer.acquired(t, c, tenure.Claim{Name: "x", TTL: time.Minute})
		if err := lease.Check(); err != nil || lease.Token() != 7 || lease.Name() != "x" {
			t.Fatalf("acquired: %+v, %v", lease, err)
		}
		if err := peer.send(event{Event: "lost", ID: lease.(*clientLease).id, Reason: "lost", Error: said}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-lease.Done():
		case <-time.After(20 * time.Second):
			t.Fatal("the peer says that a lease is lost, and its holder goes on")
		}
		if err := lease.Err(); !errors.Is(err, tenure.ErrLost) || err.Error() != want {
			t.Errorf("the lease ends with %v, want %q", err, want)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("released: %v", err)
		}
		conn := lease.(*clientLease).conn
		for end := time.Now().Add(20 * time.Second); conn.lease(lease.(*clientLease).id) != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("a lease that is lost is remembered")
			}
		}
		if ids, _ := conn.wanted(); len(ids) > 0 {
			t.Errorf("a lease that is lost is named: %v", ids)
		}
		peer.conn.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAPeerSaysWhyItHangsUp: calls that wait get the reason.
func TestAPeerSaysWhyItHangsUp(t *testing.T) {
	c, peer := fakePeer(t)
	got := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		conn, err := c.connect(ctx)
		if err != nil {
			t.Error(err)
		}
		if _, _, err = conn.ask(request{Op: "status"}, nil); err != nil {
			t.Error(err)
		}
		<-conn.ctx.Done()
		got <- context.Cause(conn.ctx)
	}()
	peer.next(t, "status")
	if err := peer.send(event{Event: "error", Error: "you ask too much"}); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "you ask too much") || !strings.Contains(err.Error(), "the peer at path") {
		t.Errorf("the connection ends with %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestAReleaseThatIsNotAnswered: its error has the reason, and the lease is over all the same.
func TestAReleaseThatIsNotAnswered(t *testing.T) {
	why := errors.New("the caller's reason")
	for name, tt := range map[string]struct {
		end  func(peer *lines, id uint64, giveUp context.CancelCauseFunc)
		says string // "" if it is confirmed
		is   error
	}{
		"answered": {func(p *lines, id uint64, _ context.CancelCauseFunc) { _ = p.send(event{Event: "released", ID: id}) }, "", nil},
		"refused": {func(p *lines, id uint64, _ context.CancelCauseFunc) {
			_ = p.send(event{Event: "released", ID: id}.fill(tenure.ErrUnavailable))
		}, "does not answer", tenure.ErrUnavailable},
		"the caller gives up": {func(_ *lines, _ uint64, giveUp context.CancelCauseFunc) { giveUp(why) }, why.Error(), tenure.ErrUnavailable},
		"the connection ends": {func(p *lines, _ uint64, _ context.CancelCauseFunc) { p.conn.Close() }, "the connection to the peer at path ended", tenure.ErrUnavailable},
	} {
		c, peer := fakePeer(t)
		lease := peer.acquired(t, c, tenure.Claim{Name: "x", TTL: time.Minute})
		ctx, giveUp := context.WithCancelCause(t.Context())
		got := make(chan error, 1)
		go func() { got <- lease.Release(ctx) }()
		r := peer.next(t, "release")
		if r.ID != lease.(*clientLease).id {
			t.Errorf("%s: released is %d, want %d", name, r.ID, lease.(*clientLease).id)
		}
		tt.end(peer, r.ID, giveUp)
		switch err := <-got; {
		case tt.says == "" && err != nil, tt.says != "" && (!errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
		if err := lease.Err(); !errors.Is(err, tenure.ErrReleased) {
			t.Errorf("%s: the lease ends with %v", name, err)
		}
		if err := lease.Release(ctx); err != nil {
			t.Errorf("%s: released a second time: %v", name, err)
		}
		conn := lease.(*clientLease).conn
		conn.mu.Lock()
		if len(conn.asked) > 0 {
			t.Errorf("%s: the question is remembered", name)
		}
		conn.mu.Unlock()
		giveUp(nil)
		peer.conn.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
