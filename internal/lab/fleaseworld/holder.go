package fleaseworld

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/lab/world"
)

// holder is a process, or a part of a peer's, that takes leases, one after the other.
type holder struct {
	s      *stage
	on     *host
	name   string
	p      *world.Process
	rand   *rand.Rand
	leaser tenure.Leaser
	many   int // claims at a time

	mu    sync.Mutex
	holds map[*hold]bool
}

// client starts the i-th client process of a host.
func (h *host) client(i int) {
	s := h.s
	name := fmt.Sprintf("%sc%d", h.name, i)
	life := 0
	for !s.ended() {
		life++
		p := s.w.Start(name)
		s.mu.Lock()
		s.clients[name] = p
		s.mu.Unlock()
		d := &holder{s: s, on: h, name: name, p: p, rand: s.w.Rand(fmt.Sprintf("%s life %d", name, life)), holds: map[*hold]bool{}}
		d.many = []int{1, 1, 2, 5}[d.rand.IntN(4)]
		if c := d.connect(); c != nil {
			d.leaser = c
			d.run()
			p.End()
			s.net.Exit(p)
			s.j.words(c.Close())
		}
		p.End()
		s.net.Exit(p)
		if !s.ended() {
			time.Sleep(s.tmax / 4)
		}
	}
}

// connect tries until there is a peer.
func (d *holder) connect() *engine.Client {
	for !d.s.ended() && d.isAlive() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		c, err := engine.Connect(ctx, engine.ClientConfig{Socket: d.on.socket(), Dial: d.s.net.Dialer(d.p), Clock: d.on.mono})
		cancel()
		if err == nil {
			d.s.w.Count("clients", 1)
			return c
		}
		d.s.j.words(err)
		d.p.Sleep(time.Second)
	}
	return nil
}

func (d *holder) isAlive() bool {
	select {
	case <-d.p.Ended():
		return false
	default:
		return true
	}
}

// local runs holders within a peer's process.
func (s *stage) local(l *life) {
	d := &holder{
		s: s, on: l.h, name: l.h.name + "local", p: l.p, leaser: l.peer.Leaser(), many: 1,
		rand: s.w.Rand(fmt.Sprintf("%s local %d", l.h.name, l.h.lives)), holds: map[*hold]bool{},
	}
	s.acting.Go(func() {
		s.mu.Lock()
		s.locals[l] = d
		s.mu.Unlock()
		d.run()
		s.j.words(d.leaser.Close())
	})
}

// deprive ends the tenures within a peer's process that dies.
func (s *stage) deprive(l *life) {
	s.mu.Lock()
	d := s.locals[l]
	s.mu.Unlock()
	if d != nil {
		d.dropTenures()
	}
}

// dropTenures drops the holder's tenures: it believes nothing any more, and has said nothing.
func (d *holder) dropTenures() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range d.holds {
		d.s.j.onDeath(h)
	}
}

// run has the holder act until its process or the world ends.
func (d *holder) run() {
	var all sync.WaitGroup
	for i := range d.many {
		r := rand.New(rand.NewPCG(d.rand.Uint64(), uint64(i)))
		all.Go(func() {
			for d.isAlive() && !d.s.ended() {
				d.p.Sleep(d.s.pause(r))
				d.p.Gate()
				if d.isAlive() && !d.s.ended() {
					d.act(r)
				}
			}
		})
	}
	all.Wait()
}

// act does one thing.
func (d *holder) act(r *rand.Rand) {
	s := d.s
	name := s.names[r.IntN(len(s.names))]
	ctx, cancel := context.WithTimeout(context.Background(), s.patience(r))
	defer cancel()
	defer context.AfterFunc(ctx, func() {})()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-d.p.Ended():
			cancel()
		case <-stop:
		}
	}()
	switch x := r.Float64(); {
	case x < 0.1:
		_, err := d.leaser.Observe(ctx, name)
		d.heard("observe", err)
	case x < 0.15:
		st, err := d.leaser.Observe(ctx, name)
		if err == nil {
			_, err = d.leaser.(tenure.Awaiter).Await(ctx, st)
		}
		d.heard("await", err)
	case x < 0.2:
		d.heard("", d.recall(ctx, name))
	case x < 0.23:
		_, err := d.leaser.(tenure.Lister).List(ctx, "")
		d.heard("list", err)
	default:
		d.acquire(ctx, r, s.claim(r, name, d.name))
	}
}

// heard takes an error, which may be a wait that has ended.
func (d *holder) heard(what string, err error) {
	switch {
	case err == nil:
		d.s.w.Count(what, 1)
	case d.isAlive():
		d.s.j.words(err)
	}
}

// acquire takes a lease, keeps it for a while and lets it go.
func (d *holder) acquire(ctx context.Context, r *rand.Rand, c tenure.Claim) {
	s := d.s
	began := time.Now()
	take := d.leaser.Acquire
	if r.IntN(4) == 0 {
		take = d.leaser.TryAcquire
	}
	steady, late := s.isSteady() && d.on.isMember(), d.on.ahead() < 0
	lease, err := take(ctx, c)
	d.p.Gate()
	if err != nil {
		s.w.Count("refused", 1)
		d.heard("", err)
		if steady && d.isAlive() && !s.ended() && !errors.As(err, new(tenure.HeldError)) && !errors.Is(err, tenure.ErrClosed) {
			s.w.Fail("liveness: %s wants %s and gets, after %v: %v", d.name, c.Name, time.Since(began), err)
		}
		if steady && ctx.Err() != nil && d.isAlive() && !s.ended() {
			s.w.Fail("liveness: %s has waited %v for %s: %v", d.name, time.Since(began), c.Name, err)
		}
		return
	}
	d.mu.Lock()
	if !d.isAlive() || lease.Check() != nil {
		d.mu.Unlock()
		_ = lease.Release(ctx)
		return
	}
	h := &hold{who: d.name, on: d.on, claim: c, lease: lease, late: late}
	d.holds[h] = true
	s.j.onStart(h)
	d.mu.Unlock()
	if c.Slots == 1 && !late {
		d.chronicle(lease, r)
	}
	d.keep(r, lease)
	d.p.Gate()
	d.mu.Lock()
	delete(d.holds, h)
	gone := !d.isAlive()
	if gone {
		s.j.onDeath(h)
	} else {
		s.j.onEnd(h)
	}
	d.mu.Unlock()
	if gone {
		return
	}
	if lease.Check() != nil && r.IntN(3) > 0 && !s.ended() { // as a candidate does that was deprived
		s.w.Count("again at once", 1)
		ctx, cancel := context.WithTimeout(context.Background(), s.patience(r)+3*s.tmax)
		defer cancel()
		d.acquire(ctx, r, c)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.tmax)
	defer cancel()
	err = lease.Release(ctx)
	d.heard("releases", err)
	if steady && s.isSteady() && err != nil && d.isAlive() && !s.ended() {
		s.w.Fail("liveness: %s releases %s: %v", d.name, c.Name, err)
	}
}

// keep holds a lease for a while, or until it is lost.
func (d *holder) keep(r *rand.Rand, lease tenure.Lease) {
	timer := time.NewTimer(d.s.stay(r))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-lease.Done():
	case <-d.p.Ended():
	}
}

// killClients ends all client processes of a host.
func (s *stage) killClients(h *host) {
	for i := range s.shape.clients {
		s.killClient(fmt.Sprintf("%sc%d", h.name, i+1))
	}
}

// killClient ends a client process, if there is one; another takes its place.
func (s *stage) killClient(name string) bool {
	s.mu.Lock()
	p := s.clients[name]
	s.mu.Unlock()
	if p == nil {
		return false
	}
	p.End()
	s.net.Exit(p)
	return true
}
