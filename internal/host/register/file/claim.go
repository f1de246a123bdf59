package file

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// claim is the right to write an area: package disklease's lease in the area's claim
// blocks, driven for real. A slow device costs the area and not its safety.
type claim struct {
	dev  *device
	area int
	id   machine.ID
	now  func() machine.Mono // reads the clock

	driver   *driver.Driver[disklease.LeaseInput, disklease.Outcome]
	deadline atomic.Int64 // a machine.Mono; 0 while the area is not ours
	ended    chan contest // of the contest; capacity 1
	left     chan struct{}
}

// contest is the result of contending for an area.
type contest struct {
	won bool
	err error
}

// lateWrite is how long a write to an area may take to land, at most: a Term.
func (h *storeHeader) lateWrite() time.Duration { return h.Term }

// lease describes a claim to an area. The lock delay keeps the next one out until the last
// writes have landed that this one may have issued.
func (h *storeHeader) lease(id machine.ID) disklease.Config {
	return disklease.Config{ID: id, LockDelay: h.lateWrite(), Term: h.Term, Delay: h.Delay, Drift: h.Drift}
}

// taking is how long, at most, the claim of an area has to stay unchanged before another handle
// may take the area.
func (h *storeHeader) taking() time.Duration { return h.Quiet() + h.lateWrite()/10*11 }

// acquire claims an area: one that was given back, or else, if patient, one whose
// claim has run out.
func (d *device) acquire(now func() machine.Mono, patient bool) (*claim, error) {
	watches := make([]*disklease.Lease, d.header.areas)
	for i := range watches {
		var err error
		if watches[i], err = disklease.New(d.header.lease(machine.ID{})); err != nil {
			return nil, fmt.Errorf("%s: %w", d.path, err)
		}
	}
	giveUp := now().Add(3 * d.header.taking())
	for {
		began := now()
		all, err := d.claims()
		if err != nil {
			return nil, fmt.Errorf("read the claims of %s: %w", d.path, advise(err))
		}
		ended := now()
		var first [1]byte // not all at the same one
		rand.Read(first[:])
		for n := range all {
			i := (int(first[0]) + n) % len(all)
			st, err := watches[i].Saw(began, ended, all[i].value(&d.header))
			if err != nil || slices.ContainsFunc(st.Members, lasts) {
				continue
			}
			c, err := d.contend(i, watches[i].Witness(), now)
			switch {
			case err == nil:
				return c, nil
			case !errors.Is(err, errOthers) && !errors.Is(err, disklease.ErrSlow):
				return nil, fmt.Errorf("claim %s of %s: %w", areaName(i), d.path, advise(err))
			}
		}
		if !patient || now() > giveUp {
			return nil, fmt.Errorf("%s: all %d handles are in use: close one, or make a store with more", d.path, d.header.areas)
		}
		time.Sleep(d.header.Delay)
	}
}

// lasts reports whether a claim may last still: it was not given back, and is not known to be dead.
func lasts(m disklease.Member) bool { return !m.Released && !m.Dead }

// errOthers says that another handle won the contest, or may have won it.
var errOthers = errors.New("another handle has the area, or is about to claim it")

// contend claims an area. The witness says for how long no holder of the area has shown a sign
// of life. A claim that succeeds is renewed from then on.
func (d *device) contend(area int, witness []byte, now func() machine.Mono) (*claim, error) {
	c := &claim{dev: d, area: area, now: now, ended: make(chan contest, 1), left: make(chan struct{}, 1)}
	rand.Read(c.id[:])
	cfg := d.header.lease(c.id)
	cfg.Witness = witness
	lease, err := disklease.New(cfg)
	if err != nil {
		return nil, err
	}
	c.driver = driver.Start(driver.Config[disklease.LeaseInput, disklease.Outcome]{
		Machine: lease,
		Now:     func() machine.Now { return machine.Now{Mono: c.now()} },
		Access:  c.access,
		Outcome: c.outcomes,
		Fail:    func(err error) { c.lose(); c.end(contest{err: err}) },
	})
	c.driver.Step(disklease.TryAcquire{})
	end := <-c.ended
	if end.won {
		return c, nil
	}
	c.quit()
	return nil, cmp.Or(end.err, errOthers)
}

func (c *claim) end(with contest) {
	select {
	case c.ended <- with:
	default:
	}
}

// outcomes runs on the driver's goroutine.
func (c *claim) outcomes(outs []disklease.Outcome) {
	for _, out := range outs {
		switch out := out.(type) {
		case disklease.Acquired:
			c.deadline.Store(int64(out.Deadline))
			c.end(contest{won: true})
		case disklease.Renewed:
			c.deadline.Store(int64(out.Deadline))
		case disklease.Lost:
			c.lose()
		case disklease.Refused:
			c.end(contest{err: out.Err})
		case disklease.Left:
			select {
			case c.left <- struct{}{}:
			default:
			}
		}
	}
}

// access begins the accesses that the lease asks for, one at a time.
func (c *claim) access(accesses []machine.Access) {
	for _, a := range accesses {
		go func() {
			reply, err := c.do(a.Op)
			c.driver.Accessed(machine.Accessed{ID: a.ID, Reply: reply, Err: err})
		}()
	}
}

// do performs an operation on the claim blocks.
func (c *claim) do(op any) (any, error) {
	switch op := op.(type) {
	case machine.Read:
		shown, err := c.dev.claim(c.area)
		return shown.value(&c.dev.header), err
	case machine.Write:
		b := claimBlock{machine.Version{Seq: op.Seq, Writer: c.id}, op.Data}
		return b.version, c.dev.write(b, claimAt(c.area))
	case machine.Note:
		return nil, c.dev.write(claimBlock{machine.Version{Writer: c.id}, op.Data}, claimAt(c.area)+block)
	}
	return nil, fmt.Errorf("a claim block knows no operation %T", op)
}

func (c *claim) lose() { c.deadline.Store(0) }

var errClaim = errors.New("the claim to the area has run out, as when this process or the device stood still")

// check returns an error if the area is not ours any more.
func (c *claim) check() error {
	if int64(c.now()) >= c.deadline.Load() {
		return fmt.Errorf("%w: %w", register.ErrGone, errClaim)
	}
	return nil
}

// quit ends the renewals. The claim runs out by itself: writes to the area may be on their way.
func (c *claim) quit() {
	c.driver.Halt()
	c.lose()
}

// release gives the area back. It waits for accesses on their way to the claim blocks, as long as
// others would have to wait without it.
func (c *claim) release() {
	until := machine.Mono(c.deadline.Load())
	c.driver.Step(disklease.Leave{})
	select {
	case <-c.left:
	case <-time.After(until.Sub(c.now())):
	}
	c.quit()
}
