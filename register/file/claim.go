package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/register"
)

// stamp is what a claim writes to the area's claim block, another one each time. The
// zero stamp is that of an area which nobody has had.
type stamp struct {
	id    machine.ID
	count uint64
}

func (t stamp) encode(b []byte) {
	clear(b[:block])
	f := fields{b: b[body:block]}
	f.putBytes(t.id[:])
	f.put64(t.count)
	seal(b, magicClaim)
}

func decodeStamp(b []byte) (t stamp, err error) {
	content, err := unseal(b, magicClaim)
	if err != nil {
		return t, err
	}
	f := fields{b: content}
	t = stamp{f.getID(), f.get64()}
	return t, f.rest()
}

// claimed is what an area's claim blocks show. An area is known to be free if the last
// stamp was released; a late release sets nothing free that was claimed since.
type claimed struct {
	held, released stamp
	err            error // of either
	raw            [8]byte
}

// claims reads the claim blocks of all areas.
func (d *device) claims() ([]claimed, error) {
	b := aligned(2 * d.header.areas * block)
	if _, err := d.f.ReadAt(b, claimAt(0)); err != nil {
		return nil, err
	}
	out := make([]claimed, d.header.areas)
	for i := range out {
		c := &out[i]
		x, y := b[2*i*block:(2*i+1)*block], b[(2*i+1)*block:(2*i+2)*block]
		var err2 error
		c.held, c.err = decodeStamp(x)
		c.released, err2 = decodeStamp(y)
		if c.err == nil {
			c.err = err2
		}
		copy(c.raw[:], x[8:]) // the checksum tells stamps apart
	}
	return out, nil
}

// claim is the right to write an area: a lease by Figure 2 of the paper on its claim
// block, renewed by Figure 5 in a goroutine of its own, with fail-aware checks of its
// own times so that a slow device costs the area and not its safety.
type claim struct {
	dev  *device
	area int
	id   machine.ID
	now  func() machine.Mono

	count    uint64       // of the last stamp written
	deadline atomic.Int64 // a machine.Mono
	stop     chan struct{}
	done     chan struct{}
	unsure   bool // a write failed: it may have happened, or may yet; read after done
}

// taking is for how long an area's claim has to stay as it is before another may take
// it: what the claim may last, and a Term more, until which its last writes land.
func (h *storeHeader) taking() time.Duration { return h.Term/10*11 + h.Quiet() }

// acquire claims an area: one that was given back, or else, if patient, one whose
// claim has run out.
func (d *device) acquire(now func() machine.Mono, patient bool) (*claim, error) {
	c := &claim{dev: d, now: now, stop: make(chan struct{}), done: make(chan struct{})}
	rand.Read(c.id[:])
	since := make([]machine.Mono, d.header.areas)
	var before []claimed
	giveUp := now().Add(3 * d.header.taking())
	for {
		began := now()
		all, err := d.claims()
		if err != nil {
			return nil, fmt.Errorf("read the claims of %s: %w", d.path, advise(err))
		}
		for i := range all {
			if before == nil || before[i] != all[i] {
				since[i] = now()
			}
		}
		first := int(c.id[0]) // not all at the same one
		for n := range all {
			i := (first + n) % len(all)
			free := all[i].err == nil && all[i].held == all[i].released
			if !free && (!patient || began.Sub(since[i]) < d.header.taking()) {
				continue
			}
			won, err := c.contend(i, began)
			if err != nil {
				return nil, fmt.Errorf("claim %s of %s: %w", areaName(i), d.path, advise(err))
			}
			if won {
				go c.renew()
				return c, nil
			}
			break // what was read is old by now
		}
		before = all
		if !patient || now() > giveUp {
			return nil, fmt.Errorf("%s: all %d handles are in use: close one, or make a store with more", d.path, d.header.areas)
		}
		time.Sleep(d.header.Delay)
	}
}

// contend does lines 8 to 12 of Figure 2 for an area whose claim block was read at a
// time and may be taken.
func (c *claim) contend(area int, read machine.Mono) (bool, error) {
	c.area = area
	wrote := c.now()
	if err := c.write(); err != nil {
		return false, err
	}
	if c.now().Sub(read) > c.dev.header.atMost(2*c.dev.header.Delay) {
		return false, nil // another may have read back before it could meet this write
	}
	time.Sleep(c.dev.header.atLeast(2 * c.dev.header.Delay))
	held, err := c.read()
	if err != nil || held != (stamp{c.id, c.count}) {
		return false, err
	}
	return c.extend(wrote), nil
}

// extend moves the deadline after a read-back. It counts from the write's beginning.
func (c *claim) extend(wrote machine.Mono) bool {
	h := &c.dev.header
	until := min(c.now().Add(h.atMost(h.Term)), wrote.Add(h.atMost(h.Term+2*h.Delay)))
	c.deadline.Store(int64(until))
	return c.now() < until
}

func (c *claim) write() error {
	b := aligned(block)
	c.count++
	stamp{c.id, c.count}.encode(b)
	_, err := c.dev.f.WriteAt(b, claimAt(c.area))
	return err
}

func (c *claim) read() (stamp, error) {
	b := aligned(block)
	if _, err := c.dev.f.ReadAt(b, claimAt(c.area)); err != nil {
		return stamp{}, err
	}
	return decodeStamp(b)
}

// renew keeps the claim until it is lost or told to stop.
func (c *claim) renew() {
	defer close(c.done)
	h := &c.dev.header
	for c.sleep(h.Term/3) && c.check() == nil {
		if !c.renewOnce() {
			return
		}
	}
}

// renewOnce is Figure 5. An access that fails is tried again with the next renewal.
func (c *claim) renewOnce() bool {
	held, err := c.read()
	if err != nil {
		return true
	}
	if held.id != c.id || held.count != c.count && !c.unsure {
		c.lose()
		return false
	}
	wrote := c.now()
	if err := c.write(); err != nil {
		c.unsure = true
		return true
	}
	if c.check() != nil || !c.sleep(c.dev.header.atLeast(2*c.dev.header.Delay)) {
		return false
	}
	held, err = c.read()
	if err != nil {
		return true
	}
	if held != (stamp{c.id, c.count}) {
		c.lose()
		return false
	}
	c.extend(wrote)
	return true
}

func (c *claim) lose() { c.deadline.Store(0) }

var errClaim = errors.New("the claim to the area has run out, as when this process or the device stood still")

// check tells whether the area is still ours.
func (c *claim) check() error {
	if int64(c.now()) >= c.deadline.Load() {
		return fmt.Errorf("%w: %w", register.ErrGone, errClaim)
	}
	return nil
}

// sleep returns false when the claim is to end.
func (c *claim) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.stop:
		return false
	}
}

// quit ends the renewals.
func (c *claim) quit() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
}

// release gives the area back, unless a write to it may still be on its way.
func (c *claim) release() {
	c.quit()
	select {
	case <-c.done:
	case <-time.After(4 * c.dev.header.Delay):
		return
	}
	if c.unsure || c.check() != nil {
		return
	}
	b := aligned(block)
	stamp{c.id, c.count}.encode(b)
	c.dev.f.WriteAt(b, claimAt(c.area)+block)
}

// atLeast and atMost turn a true time into one on a clock that may be off.
func (h *storeHeader) atLeast(d time.Duration) time.Duration {
	return d + d/1_000_000*time.Duration(h.Drift)
}

func (h *storeHeader) atMost(d time.Duration) time.Duration {
	return d - 2*(d/1_000_000*time.Duration(h.Drift))
}
