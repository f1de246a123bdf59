package flease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/machine"
)

// session is a connection of a client. A client holds a lease for as long as it was told,
// and is told more each time that it says it is alive: so one that is stopped loses its
// leases though the peer could renew them for ever. Both read one clock, this machine's.
type session struct {
	peer   *Peer
	leaser *Leaser
	lines  *lines
	ctx    context.Context // ends with the connection

	mu     sync.Mutex
	alive  machine.Mono // when the client last said so, by its own reading
	over   bool         // the connection has ended
	change chan struct{}
	claims map[uint64]*sessionClaim
	looks  map[uint64]context.CancelFunc // requests that only look
	minds  sync.WaitGroup
}

// sessionClaim is a claim of a client, from Acquire to its end.
type sessionClaim struct {
	id       uint64
	ttl      time.Duration
	delay    time.Duration
	cancel   context.CancelFunc // of the wait
	lease    *claim             // once it is held
	told     machine.Mono       // until when the client believes to hold it
	lapsed   bool               // the client is told no more
	freed    chan struct{}      // closed when the client releases it
	released bool               // freed is closed
}

// session serves a client until its connection ends and what it held is over.
func (p *Peer) session(ctx context.Context, c net.Conn) {
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	s := &session{
		peer: p, leaser: p.clientLeaser(), lines: newLines(c), ctx: ctx,
		change: make(chan struct{}), claims: map[uint64]*sessionClaim{}, looks: map[uint64]context.CancelFunc{},
	}
	var hello request
	err := s.lines.receive(&hello)
	if err == nil && (hello.Op != "hello" || hello.Version < 1) {
		err = errors.New(`the first line must be {"op":"hello","version":1}`)
	}
	if err == nil {
		err = s.lines.send(event{Event: "welcome", Version: socketVersion, At: clock.Now(), TMaxMS: p.cfg.TMax.Milliseconds()})
	}
	for err == nil {
		var r request
		if err = s.lines.receive(&r); err == nil {
			err = s.handle(r)
		}
	}
	if ctx.Err() == nil {
		_ = s.lines.send(event{Event: "error", Error: err.Error()})
	}
	cancel()
	s.mu.Lock()
	s.over = true
	s.changed()
	s.mu.Unlock()
	s.minds.Wait()
	_ = s.leaser.Close()
}

// changed wakes who minds claims. s.mu is held.
func (s *session) changed() {
	close(s.change)
	s.change = make(chan struct{})
}

func (s *session) handle(r request) error {
	switch r.Op {
	case "alive":
		return s.hear(r.At)
	case "acquire":
		if err := s.hear(r.At); err != nil {
			return err
		}
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
	case "lapse":
		s.mu.Lock()
		defer s.mu.Unlock()
		if x := s.claims[r.ID]; x != nil && x.lease != nil {
			x.lapsed = true
			s.changed()
		}
	case "observe":
		return s.observe(r)
	case "await":
		return s.await(r)
	case "list":
		return s.list(r)
	case "status":
		st := s.peer.Status()
		return s.lines.send(event{Event: "status", ID: r.ID, Status: &st})
	default:
		return fmt.Errorf("no request is called %q", r.Op)
	}
	return nil
}

// hear notes that the client was alive, and tells it how long it holds what it holds.
func (s *session) hear(at machine.Mono) error {
	if now := clock.Now(); at > now {
		return fmt.Errorf("a request from the future, %v ahead: the client reads another clock than the peer", at.Sub(now))
	}
	s.mu.Lock()
	var events []event
	s.alive = max(s.alive, at)
	for id, x := range s.claims {
		if x.lease != nil && s.tell(x) {
			events = append(events, event{Event: "renewed", ID: id, Until: x.told})
		}
	}
	s.changed()
	s.mu.Unlock()
	for _, e := range events {
		if err := s.lines.send(e); err != nil {
			return err
		}
	}
	return nil
}

// tell works out how long the client holds the claim, unless it is too late. s.mu is held.
func (s *session) tell(x *sessionClaim) bool {
	now := clock.Now()
	if x.lapsed || x.lease.Check() != nil || x.told != 0 && now >= x.told && now >= s.alive.Add(x.ttl) {
		return false
	}
	x.told = max(x.told, min(now.Add(x.lease.remaining()), s.alive.Add(x.ttl)))
	return true
}

// acquire begins a claim.
func (s *session) acquire(r request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[r.ID] != nil || len(s.claims) >= sessionClaimsMax {
		return fmt.Errorf("claim %d is one too many: ids are used once, and a connection has at most %d claims", r.ID, sessionClaimsMax)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	x := &sessionClaim{id: r.ID, cancel: cancel, freed: make(chan struct{})}
	s.claims[r.ID] = x
	c := tenure.Claim{
		Name: r.Name, Holder: cmp.Or(r.Holder, "a client of "+s.peer.cfg.Self), Slots: r.Slots,
		TTL: time.Duration(r.TTLMS) * time.Millisecond, LockDelay: time.Duration(r.LockDelayMS) * time.Millisecond,
	}
	s.minds.Go(func() {
		defer cancel()
		lease, err := s.leaser.acquire(ctx, c, r.Try)
		if err == nil {
			err = s.mind(x, lease.(*claim))
		}
		s.mu.Lock()
		delete(s.claims, r.ID)
		s.mu.Unlock()
		if err != nil {
			_ = s.lines.send(event{Event: "refused", ID: r.ID}.fill(err))
		}
	})
	return nil
}

// mind sees a claim that is held to its end. The error is why the client does not get it
// at all.
func (s *session) mind(x *sessionClaim, lease *claim) error {
	s.mu.Lock()
	x.lease, x.ttl, x.delay = lease, lease.ttl, lease.delay
	moved := lease.watched()
	held := s.tell(x) && !s.over && x.told > clock.Now()
	until := x.told
	s.mu.Unlock()
	if !held {
		_ = lease.Release(s.ctx)
		return fmt.Errorf("%w: the lease came, and the client had not been heard of for too long", tenure.ErrUnavailable)
	}
	_ = s.lines.send(event{Event: "acquired", ID: x.id, Token: lease.token, TTLMS: x.ttl.Milliseconds(), Until: until})
	if s.watch(x, moved) {
		_ = s.lines.send(event{Event: "lost", ID: x.id}.fill(cmp.Or(lease.Err(), errSilent)))
		// Nobody believes to hold it any more. As long as nothing is released, others wait
		// for the lock delay, as they do for a holder that died.
		x.outlast()
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

var errSilent = fmt.Errorf("%w: the client did not say that it is alive", tenure.ErrLost)

// watch returns true when the claim is lost, and false when the client releases it.
func (s *session) watch(x *sessionClaim, moved <-chan struct{}) bool {
	for {
		s.mu.Lock()
		change, at := s.change, max(x.told, s.alive.Add(x.ttl))
		if s.over {
			at = x.told // it cannot hear of more
		}
		lapsed := x.lapsed || clock.Now() >= at
		x.lapsed = lapsed
		s.mu.Unlock()
		if lapsed {
			return true
		}
		alarm := clock.System.Alarm(at)
		select {
		case <-alarm.C:
		case <-change:
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

// outlast waits until the client's last belief and the lock delay are over.
func (x *sessionClaim) outlast() {
	alarm := clock.System.Alarm(max(x.told, clock.Now()).Add(x.delay))
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
	known := x != nil && x.lease != nil
	if known && !x.released {
		x.released = true
		close(x.freed)
	}
	s.mu.Unlock()
	if !known {
		_ = s.lines.send(event{Event: "released", ID: id, Reason: "lost", Error: "lease lost: the peer does not hold it any more"})
	}
}
