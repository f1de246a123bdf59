package flease

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/machine"
)

// session is a connection of a client. The client names its claims and leases again and again, and
// is told until when it holds each. A claim that it does not name ends: see "How a client's lost
// lease becomes free" in the package comment. Both sides read this machine's clock.
type session struct {
	peer   *Peer
	leaser *Leaser
	lines  *lines
	ctx    context.Context // ends with the connection
	leave  func()          // ends the connection

	mu     sync.Mutex
	over   bool         // the connection has ended
	said   machine.Mono // when the client last sent a line, or connected
	claims map[uint64]*sessionClaim
	looks  map[uint64]context.CancelFunc // requests that only look
	minds  sync.WaitGroup
}

// sessionClaim is a claim of a client, from its request to its end.
type sessionClaim struct {
	id       uint64
	ttl      time.Duration
	delay    time.Duration
	cancel   context.CancelFunc // ends the wait
	nudge    chan struct{}      // something has changed
	named    machine.Mono       // when the client last named it, by the client's reading
	lease    *claim             // nil until it is held
	told     machine.Mono       // the last deadline that the client was told
	lapsed   bool               // the client gets no more renewals
	lost     bool               // the client was told that it is lost
	freed    chan struct{}      // closed when the client releases it
	released bool               // freed is closed
}

// newSession is for a client that has connected.
func (p *Peer) newSession(ctx context.Context, c net.Conn) *session {
	s := &session{
		peer: p, lines: newLines(c, lineBytesMax), said: p.cfg.Clock.Now(),
		claims: map[uint64]*sessionClaim{}, looks: map[uint64]context.CancelFunc{},
	}
	s.ctx, s.leave = context.WithCancel(ctx)
	context.AfterFunc(s.ctx, func() { c.Close() })
	return s
}

// idle reports whether the client neither holds nor waits for anything, and since when it is
// quiet.
func (s *session) idle() (since machine.Mono, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said, len(s.claims) == 0 && len(s.looks) == 0
}

// serve serves a client until its connection and its leases have ended.
func (s *session) serve() {
	defer s.leave()
	p, c := s.peer, s.lines.conn
	s.leaser = p.clientLeaser()
	var hello request
	err := c.SetReadDeadline(time.Now().Add(helloPatience)) // a client that says nothing has no place
	if err == nil {
		err = s.lines.receive(&hello)
	}
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	switch {
	case err != nil:
	case hello.Op != "hello" || hello.Version < 1:
		err = fmt.Errorf(`the first line must be {"op":"hello","version":%d}`, socketVersion)
	case hello.Version != socketVersion:
		err = fmt.Errorf("you speak version %d of the socket's protocol and this peer version %d: run one version of the program", hello.Version, socketVersion)
	default:
		err = s.lines.send(event{Event: "welcome", Version: socketVersion, At: p.cfg.Clock.Now(), TMaxMS: p.cfg.TMax.Milliseconds()})
	}
	for err == nil {
		var r request
		if err = s.lines.receive(&r); err == nil {
			s.mu.Lock()
			s.said = p.cfg.Clock.Now()
			s.mu.Unlock()
			err = s.handle(r)
		}
	}
	if s.ctx.Err() == nil {
		_ = s.lines.send(event{Event: "error", Error: err.Error()})
	}
	s.leave()
	s.mu.Lock()
	s.over = true
	for _, x := range s.claims {
		poke(x.nudge)
	}
	s.mu.Unlock()
	s.minds.Wait()
	_ = s.leaser.Close()
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *session) handle(r request) error {
	switch r.Op {
	case "alive":
		return s.hear(r)
	case "acquire":
		return s.acquire(r)
	case "cancel":
		s.mu.Lock()
		defer s.mu.Unlock()
		if x := s.claims[r.ID]; x != nil {
			x.cancel()
		} else if cancel := s.looks[r.ID]; cancel != nil {
			cancel()
		}
	case "release":
		s.free(r.ID)
	case "observe":
		return s.observe(r)
	case "await":
		return s.await(r)
	case "list":
		return s.list(r)
	case "record":
		return s.record(r)
	case "set record":
		return s.setRecord(r)
	case "status":
		st := s.peer.Status()
		return s.lines.send(event{Event: "status", ID: r.ID, Status: &st})
	default:
		return fmt.Errorf("no request is called %q", r.Op)
	}
	return nil
}

// past refuses a time that the clock has not shown yet.
func (s *session) past(at machine.Mono) error {
	if now := s.peer.cfg.Clock.Now(); at > now {
		return fmt.Errorf("a request from the future, %v ahead: the client reads another clock than the peer", at.Sub(now))
	}
	return nil
}

// hear notes the claims that the client names, and tells it until when it holds each.
func (s *session) hear(r request) error {
	if err := s.past(r.At); err != nil {
		return err
	}
	var events []event
	s.mu.Lock()
	for _, id := range r.IDs {
		x := s.claims[id]
		if x == nil {
			continue // it has ended, and the client is told that elsewhere
		}
		x.named = max(x.named, r.At)
		if x.lease != nil && s.tell(x) {
			events = append(events, event{Event: "renewed", ID: id, Until: x.told})
		}
		poke(x.nudge)
	}
	s.mu.Unlock()
	for _, e := range events {
		if err := s.lines.send(e); err != nil {
			return err
		}
	}
	return nil
}

// tell computes until when the client holds the claim; false if it is too late. s.mu is held.
func (s *session) tell(x *sessionClaim) bool {
	now := s.peer.cfg.Clock.Now()
	if x.lapsed || x.lease.Check() != nil || x.told != 0 && now >= x.end() {
		return false
	}
	x.told = max(x.told, min(now.Add(x.lease.Left()), x.named.Add(x.ttl)))
	return true
}

// end returns the latest deadline that the client may have, by what it has named. s.mu is held.
func (x *sessionClaim) end() machine.Mono { return max(x.told, x.named.Add(x.ttl)) }

// acquire begins a claim.
func (s *session) acquire(r request) error {
	if err := s.past(r.At); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	x := &sessionClaim{id: r.ID, cancel: cancel, named: r.At, nudge: make(chan struct{}, 1), freed: make(chan struct{})}
	s.mu.Lock()
	twice, room := s.claims[r.ID] != nil, len(s.claims) < sessionClaimsMax
	if !twice && room {
		s.claims[r.ID] = x
	}
	s.mu.Unlock()
	if twice || !room {
		cancel()
		return s.turnAway("refused", r.ID, twice)
	}
	c := tenure.Claim{
		Name: r.Name, Holder: cmp.Or(r.Holder, "a client of "+s.peer.cfg.Self), Slots: r.Slots,
		TTL: time.Duration(r.TTLMS) * time.Millisecond, LockDelay: time.Duration(r.LockDelayMS) * time.Millisecond,
	}
	s.minds.Go(func() {
		defer cancel()
		lease, err := holder.Admit(ctx, s.leaser.calls, engine{s.leaser}, c, r.Try)
		if err == nil {
			err = s.mind(x, lease.(*claim))
		}
		if err != nil {
			_ = s.lines.send(event{Event: "refused", ID: r.ID}.fill(err))
		}
		s.mu.Lock() // only now: a refusal that is not read counts, too
		delete(s.claims, r.ID)
		s.mu.Unlock()
	})
	return nil
}

// turnAway answers a request for which there is no room. An id that is used twice is a fault of the
// client, and ends the connection.
func (s *session) turnAway(kind string, id uint64, twice bool) error {
	if twice {
		return fmt.Errorf("request %d is under way: ids are used once", id)
	}
	return s.lines.send(event{Event: kind, ID: id}.fill(fmt.Errorf("%w: a connection has at most %d claims, and as many requests that only look", ErrBusy, sessionClaimsMax)))
}

// mind follows a held claim to its end. The error is why the client does not get it at all.
func (s *session) mind(x *sessionClaim, lease *claim) error {
	s.mu.Lock()
	x.lease, x.ttl, x.delay = lease, lease.ttl, lease.delay
	moved := lease.watched()
	held := s.tell(x) && !s.over && x.told > s.peer.cfg.Clock.Now()
	until := x.told
	s.mu.Unlock()
	if !held {
		_ = lease.Release(s.ctx)
		return fmt.Errorf("%w: the lease came, and the client had not been heard of for too long", tenure.ErrUnavailable)
	}
	_ = s.lines.send(event{Event: "acquired", ID: x.id, Token: lease.Token(), TTLMS: x.ttl.Milliseconds(), Until: until})
	if s.watch(x, moved) {
		s.mu.Lock()
		x.lost = true
		late := x.released
		s.mu.Unlock()
		if late { // it was released and lost at the same time
			_ = s.lines.send(releasedTooLate(x.id))
		}
		lost := event{Event: "lost", ID: x.id}.fill(cmp.Or(lease.Err(), errSilent))
		lost.Reason = "lost" // whatever the cause is
		_ = s.lines.send(lost)
		// The client's belief has ended. The lease is released later, so that others wait for
		// the lock delay, as they do for a holder that died.
		s.outlast(x)
		_ = lease.Release(s.ctx)
		return nil
	}
	e := event{Event: "released", ID: x.id}
	if err := lease.Release(s.ctx); err != nil {
		e = e.fill(err)
	}
	_ = s.lines.send(e)
	return nil
}

var errSilent = fmt.Errorf("%w: its holder did not say in time that it holds it", tenure.ErrLost)

// watch waits until the claim is lost, which is true, or the client releases it.
func (s *session) watch(x *sessionClaim, moved <-chan struct{}) bool {
	for {
		s.mu.Lock()
		at := x.end()
		if s.over {
			at = x.told // it hears of no more
		}
		lapsed := x.lapsed || s.peer.cfg.Clock.Now() >= at
		x.lapsed = lapsed
		s.mu.Unlock()
		if lapsed {
			return true
		}
		alarm := s.peer.cfg.Clock.Alarm(at)
		select {
		case <-alarm.C:
		case <-x.nudge:
		case <-moved:
			s.mu.Lock()
			more := s.tell(x)
			until := x.told
			s.mu.Unlock()
			if more {
				_ = s.lines.send(event{Event: "renewed", ID: x.id, Until: until})
			}
		case <-x.freed:
			alarm.Stop()
			return false
		case <-x.lease.Done():
			alarm.Stop()
			return true
		}
		alarm.Stop()
	}
}

// outlast waits until the client's last deadline and the lock delay have passed.
func (s *session) outlast(x *sessionClaim) {
	c := s.peer.cfg.Clock
	alarm := c.Alarm(max(x.told, c.Now()).Add(x.delay))
	defer alarm.Stop()
	select {
	case <-alarm.C:
	case <-x.lease.Done():
	}
}

// free releases a claim that is held.
func (s *session) free(id uint64) {
	s.mu.Lock()
	x := s.claims[id]
	known := x != nil && x.lease != nil && !x.lost
	if known && !x.released {
		x.released = true
		close(x.freed)
	}
	s.mu.Unlock()
	if !known {
		_ = s.lines.send(releasedTooLate(id))
	}
}

// releasedTooLate answers a release of a lost lease. The client waits for the answer.
func releasedTooLate(id uint64) event {
	return event{Event: "released", ID: id, Reason: "lost", Error: "lease lost: the peer does not hold it any more"}
}
