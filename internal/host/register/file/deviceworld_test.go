package file

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// The operations of a process at its device, for faults to be bound to.
const (
	readOp     = "read"
	claimWrite = "claim write"
	areaWrite  = "area write"
	answer     = "answer" // of any of these, after its effect
)

var worldHeader = storeHeader{
	Header: register.Header{Set: machine.ID{7}, Of: 1, Term: time.Second, Delay: 20 * time.Millisecond, Drift: 20_000},
	areas:  3, slots: 16,
}

// deviceWorld has processes that share a device. Each writes a register of its own, with
// growing versions, and reads all.
type deviceWorld struct {
	*world.World
	disk  *platter
	over  atomic.Bool
	procs []*deviceProcess
}

// platter is a device: blocks that are written whole, or torn.
type platter struct {
	mu   sync.Mutex
	b    []byte
	rand *rand.Rand
}

// deviceProcess is one after the other under one name.
type deviceProcess struct {
	x     *deviceWorld
	name  string
	index int
	rand  *rand.Rand
	clock atomic.Pointer[clock.Simulated]
	claim atomic.Pointer[claim] // the latest
	next  uint64                // version
	acked atomic.Uint64
}

// cable is a process's way to the device: its file.
type cable struct {
	x     *deviceWorld
	owner *deviceProcess
	p     *world.Process // nil while the store is made
}

func (c *cable) Close() error        { return nil }
func (c *cable) sync() error         { return nil }
func (c *cable) stat() (info, error) { return info{}, nil }

func (d *platter) latency() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Millisecond + time.Duration(d.rand.Int64N(int64(3*time.Millisecond)))
}

func (d *platter) chance(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n) == 0
}

func (c *cable) ReadAt(p []byte, off int64) (int, error) {
	if err := c.p.Do(world.Disk, readOp, ""); err != nil {
		return 0, err
	}
	c.p.Sleep(c.x.disk.latency())
	c.x.disk.mu.Lock()
	copy(p, c.x.disk.b[off:])
	c.x.disk.mu.Unlock()
	return len(p), c.p.Do(world.Disk, answer, "")
}

// WriteAt lands within a Term after it was called, or never. One that fails may land all the
// same, at once or later, or leave a torn block.
func (c *cable) WriteAt(p []byte, off int64) (int, error) {
	d := c.x.disk
	if c.p == nil {
		copy(d.b[off:], p)
		return len(p), nil
	}
	p = slices.Clone(p)
	op := areaWrite
	if off < worldHeader.areaAt(0) {
		op = claimWrite
	}
	called := time.Now()
	err := c.p.Do(world.Disk, op, fmt.Sprintf("at block %d, %d blocks", off/block, len(p)/block))
	if time.Since(called) >= worldHeader.lateWrite() {
		c.x.Count("writes given up", 1)
		return 0, syscall.EIO
	}
	if err != nil {
		switch {
		case d.chance(3):
			c.x.Count("failed writes that land at once", 1)
			c.land(p, off)
		case d.chance(2):
			time.AfterFunc(worldHeader.lateWrite()-time.Since(called)-d.latency(), func() {
				c.x.Count("failed writes that land late", 1)
				c.land(p, off)
			})
		case d.chance(2):
			c.x.Count("torn writes", 1)
			at := d.rand.IntN(len(p)/block) * block
			c.land(p[:at], off)
			c.land(slices.Repeat([]byte{0xa5}, 100), off+int64(at))
		}
		return 0, err
	}
	c.p.Sleep(d.latency())
	c.land(p, off)
	return len(p), c.p.Do(world.Disk, answer, "")
}

func (c *cable) land(p []byte, off int64) {
	c.x.disk.mu.Lock()
	copy(c.x.disk.b[off:], p)
	c.x.disk.mu.Unlock()
	at := int((off - worldHeader.areaAt(0)) / int64(placeSize(worldHeader.slots)))
	if off < worldHeader.areaAt(0) {
		return
	}
	for _, o := range c.x.procs {
		if o != c.owner && o.holds(at) {
			c.x.Fail("a write of %s lands in area %d, which %s has", c.owner.name, at, o.name)
		}
	}
}

// holds reports whether the process's claim to an area lasts, by its clock.
func (o *deviceProcess) holds(area int) bool {
	c := o.claim.Load()
	return c != nil && c.area == area && int64(o.clock.Load().Now()) < c.deadline.Load()
}

// took notes the claim that a store has after an operation.
func (o *deviceProcess) took(s *Store) {
	if s.home == nil {
		return
	}
	c := s.home.f.(*area).claim
	if o.claim.Load() != c {
		o.x.Count("areas taken", 1)
		o.x.Trace.Add("%s has area %d", o.name, c.area)
	}
	o.claim.Store(c)
	for _, other := range o.x.procs {
		if other != o && o.holds(c.area) && other.holds(c.area) {
			o.x.Fail("%s and %s have area %d", o.name, other.name, c.area)
		}
	}
}

// run is one process after the other.
func (o *deviceProcess) run() {
	for !o.x.over.Load() {
		p := o.x.Start(o.name)
		c := clock.NewSimulated(machine.Mono(1 + o.rand.Int64N(int64(time.Hour))))
		c.SetRate(1 + (2*o.rand.Float64()-1)*0.0199)
		o.claim.Store(nil)
		o.clock.Store(c)
		now := func() machine.Mono { _ = p.Do(world.Clock, "now", ""); return c.Now() }
		s, err := openOn(&cable{o.x, o, p}, "device", worldHeader, Options{Clock: now, Holder: o.name})
		if err != nil {
			o.x.Trace.Add("%s cannot open: %v", o.name, err)
			o.x.Count("opens that failed", 1)
			p.End()
			time.Sleep(worldHeader.Term / 2)
			continue
		}
		o.took(s)
		o.serve(p, s)
		select {
		case <-p.Ended():
			o.x.Count("processes killed", 1)
			s.drop()
		default:
			o.claim.Store(nil)
			s.Close()
		}
	}
}

// serve uses a store until its process ends, or closes it.
func (o *deviceProcess) serve(p *world.Process, s *Store) {
	for !o.x.over.Load() {
		select {
		case <-p.Ended():
			return
		default:
		}
		switch r := o.rand.IntN(20); {
		case r < 9:
			o.put(s)
		case r < 17:
			o.query(s)
		case r < 19:
			p.Sleep(time.Duration(o.rand.Int64N(int64(2 * worldHeader.Term))))
		case o.rand.IntN(4) == 0:
			return
		}
		o.took(s)
		p.Sleep(time.Duration(o.rand.Int64N(int64(worldHeader.Term / 8))))
	}
}

func (o *deviceProcess) put(s *Store) error {
	o.next++
	err := s.Do([]register.Op{put(o.name, o.next, byte(o.index+1), "data")})[0].Err
	if err == nil {
		o.x.Count("writes acknowledged", 1)
		o.acked.Store(o.next)
	}
	return err
}

func (o *deviceProcess) query(s *Store) {
	var ops []register.Op
	var floors []uint64
	for _, other := range o.x.procs {
		ops = append(ops, query(other.name))
		floors = append(floors, other.acked.Load())
	}
	for i, r := range s.Do(ops) {
		if r.Err != nil {
			o.x.Trace.Add("%s cannot read: %v", o.name, r.Err)
			continue
		}
		o.x.Count("reads", 1)
		if got := r.Value.(quorumregister.State).Version.Seq; got < floors[i] {
			o.x.Fail("%s reads version %d of %s, which had acknowledged %d", o.name, got, ops[i].Name, floors[i])
		}
	}
}

// plan draws few kinds of faults, and those often.
func drawDevicePlan(r *rand.Rand, procs int) (plan []world.Fault) {
	const term = time.Second
	fault := func(op string, kind world.Kind, most time.Duration) func(*world.Fault) {
		return func(f *world.Fault) {
			f.Seam, f.Op, f.Kind = world.Disk, op, kind
			f.Nth = 1 + r.IntN(150)
			if most > 0 {
				f.For = time.Duration(1 + r.Int64N(int64(most)))
			}
		}
	}
	kill := func(f *world.Fault) { f.Kind, f.At = world.Kill, time.Duration(r.Int64N(int64(60*term))) }
	kinds := []func(*world.Fault){
		fault(areaWrite, world.Freeze, term),
		fault(claimWrite, world.Freeze, 3*term),
		fault(claimWrite, world.Hang, term),
		fault(areaWrite, world.Hang, term/2),
		fault(claimWrite, world.Fail, 0),
		fault(areaWrite, world.Fail, 0),
		fault(readOp, world.Delay, term/10),
		fault(readOp, world.Hang, 2*term),
		fault(answer, world.Freeze, 3*term),
		fault(answer, world.Delay, term/10),
		func(f *world.Fault) { // a device that is slow for a while
			f.Kind, f.Seam, f.At = world.Delay, world.Disk, time.Duration(r.Int64N(int64(60*term)))
			f.For, f.Lasting = time.Duration(1+r.Int64N(int64(term/15))), 5*term
		},
		func(f *world.Fault) {
			f.Kind, f.Seam, f.Op, f.Nth = world.Freeze, world.Clock, "now", 1+r.IntN(1000)
			f.For = time.Duration(1 + r.Int64N(int64(4*term)))
		},
		kill, kill,
	}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:1+r.IntN(3)]
	for range 5 + r.IntN(25) {
		f := world.Fault{Who: fmt.Sprint("p", r.IntN(procs))}
		kinds[r.IntN(len(kinds))](&f)
		plan = append(plan, f)
	}
	return plan
}

func playDevice(t *testing.T, seed uint64) world.Result {
	const procs = 3
	r := world.Rand(seed, "plan")
	return world.Play(t, world.Options{Seed: seed, Plan: drawDevicePlan(r, procs), Drain: 10 * time.Minute, Limit: 2 * time.Hour}, func(w *world.World) {
		x := &deviceWorld{World: w, disk: &platter{b: make([]byte, worldHeader.size()), rand: w.Rand("disk")}}
		if err := lay(&cable{x: x}, &worldHeader); err != nil {
			t.Fatal(err)
		}
		w.Happen(func(f world.Fault) bool {
			p := w.Process(f.Who)
			if p == nil || f.Kind != world.Kill {
				return false
			}
			p.End()
			return true
		})
		for i := range procs {
			name := fmt.Sprint("p", i)
			x.procs = append(x.procs, &deviceProcess{x: x, name: name, index: i, rand: w.Rand(name)})
		}
		var all sync.WaitGroup
		for _, o := range x.procs {
			all.Go(o.run)
		}
		time.Sleep(60 * worldHeader.Term)
		w.Forgo()
		time.Sleep(max(0, w.Calm()-w.Elapsed()))
		x.over.Store(true)
		all.Wait()
		x.inTheEnd()
	})
}

// inTheEnd wants that all areas can be had again, and that nothing is lost.
func (x *deviceWorld) inTheEnd() {
	var stores []*Store
	for _, o := range x.procs {
		p := x.Start(o.name)
		c := clock.NewSimulated(1)
		o.claim.Store(nil)
		o.clock.Store(c)
		s, err := openOn(&cable{x, o, p}, "device", worldHeader, Options{Clock: c.Now})
		if err != nil {
			x.Fail("with no more faults, %s cannot open: %v", o.name, err)
			continue
		}
		stores = append(stores, s)
		o.took(s)
		for began := time.Now(); ; time.Sleep(worldHeader.Term / 4) { // records of earlier handles are tidied up first
			if err = o.put(s); err == nil || time.Since(began) > 2*worldHeader.Quiet() {
				break
			}
			o.query(s)
		}
		if err != nil {
			x.Fail("with no more faults, %s cannot write: %v", o.name, err)
		}
	}
	for i, s := range stores {
		x.procs[i].claim.Store(nil)
		s.Close()
	}
}

// TestDeviceWorlds plays processes that share a device whose writes are slow, stuck, lost and
// torn, and that stand still and die.
func TestDeviceWorlds(t *testing.T) {
	musts := []string{"areas taken", "writes acknowledged", "reads", "processes killed", "torn writes", "failed writes that land late", "fault: freeze", "fault: hang"}
	world.Batch(t, 40, 40, musts, playDevice)
}
