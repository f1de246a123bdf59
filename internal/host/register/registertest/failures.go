package registertest

import (
	"context"
	"errors"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

var errUnplugged = errors.New("unplugged")

// soon is how long an operation gets that is expected to wait in vain.
const soon = 50 * time.Millisecond

// write writes and wants success.
func (p *probe) write(c *register.Cell, data string) machine.Version {
	v, err := c.Write(p.ctx, []byte(data))
	p.must(err)
	return v
}

// wantRead wants a cell to read data.
func (p *probe) wantRead(c *register.Cell, want string) machine.Value {
	v, err := c.Read(p.ctx)
	p.must(err)
	if string(v.Data) != want {
		p.errorf("read %q, want %q", v.Data, want)
	}
	return v
}

// minority returns the stores that may fail, and ends the check if there are none.
func (p *probe) minority(faults []*register.Faults) []*register.Faults {
	if len(faults) < 3 {
		panic(hopeless{}) // nothing is wrong: there is nothing to judge
	}
	return faults[:(len(faults)-1)/2]
}

var failureChecks = []check{
	{"AMinorityMayHang", func(p *probe) {
		set, faults := p.set()
		hung := p.minority(faults)
		x := set.register("x")
		first := p.write(x, "before")
		for _, f := range hung {
			f.Hang()
		}
		for _, data := range []string{"one", "two", "three"} {
			v := p.write(x, data)
			if v.Compare(first) <= 0 {
				p.errorf("version %v after %v", v, first)
			}
			p.wantRead(x, data)
			p.must(x.Note(p.ctx, []byte(data)))
		}
		if names, err := set.Names(p.ctx); err != nil || len(names) != 1 {
			p.errorf("names %q, %v", names, err)
		}
		for _, f := range hung {
			f.Heal()
		}
		p.wantRead(x, "three")
	}},
	{"AMinorityMayDie", func(p *probe) {
		set, faults := p.set()
		x := set.register("x")
		p.write(x, "before")
		for _, f := range p.minority(faults) {
			f.Fail(errUnplugged)
		}
		p.wantRead(x, "before")
		p.write(x, "after")
		other, _ := p.set()
		p.wantRead(other.register("x"), "after")
	}},
	{"AMajorityMayNot", func(p *probe) {
		set, faults := p.set()
		x := set.register("x")
		p.write(x, "before")
		for _, f := range faults[:len(faults)/2+1] {
			f.Fail(errUnplugged)
		}
		if _, err := x.Read(p.ctx); !errors.Is(err, errUnplugged) || !errors.Is(err, quorumregister.ErrMinority) {
			p.errorf("read with a majority dead: %v", err)
		}
		for _, f := range faults[:len(faults)/2+1] {
			f.Heal()
			f.Hang()
		}
		ctx, cancel := context.WithTimeout(p.ctx, soon)
		defer cancel()
		if _, err := x.Write(ctx, []byte("lost")); !errors.Is(err, context.DeadlineExceeded) {
			p.errorf("write with a majority hanging: %v", err)
		}
		for _, f := range faults {
			f.Heal()
		}
		v, err := x.Read(p.ctx) // the write may have been done
		p.must(err)
		w := p.write(x, "after")
		if w.Compare(v.Version) <= 0 {
			p.errorf("version %v after %v", w, v.Version)
		}
		p.wantRead(x, "after")
	}},
	{"AStuckWriteThatLandsLateLoses", func(p *probe) {
		set, faults := p.set()
		x := set.register("x")
		for _, f := range faults {
			f.Plan = func(op register.Op) register.Fault {
				if put, ok := op.Op.(quorumregister.Put); ok && string(put.Data) == "stuck" {
					return register.Stuck
				}
				return register.None
			}
		}
		if v, err := x.Write(p.ctx, []byte("stuck")); err == nil {
			p.errorf("a stuck write succeeded under %v", v)
		}
		other, _ := p.set()
		y := other.register("x")
		p.wantRead(y, "")
		p.write(y, "second")
		last := p.write(x, "third")
		for _, f := range faults {
			f.Land()
		}
		if v := p.wantRead(y, "third"); v.Version != last {
			p.errorf("version %v, want %v", v.Version, last)
		}
	}},
	{"AStoreThatWentBackIsNotCounted", func(p *probe) {
		set, faults := p.set()
		t := len(p.minority(faults))
		if p.Backup == nil {
			return
		}
		x := set.register("x")
		p.write(x, "old")
		for _, f := range faults[:t] { // they miss what follows
			f.Fail(errUnplugged)
		}
		var restores []func()
		for i := range faults[t:] {
			restores = append(restores, p.Backup(t+i))
		}
		last := p.write(x, "new")
		p.wantRead(x, "new")
		restores[0]()
		// One store less than a majority still holds the new value.
		ctx, cancel := context.WithTimeout(p.ctx, soon)
		defer cancel()
		for range 2 {
			if v, err := x.Read(ctx); err == nil {
				p.errorf("read %q from a majority of which one had gone back", v.Data)
			}
		}
		for _, f := range faults[:t] {
			f.Heal()
		}
		if v := p.wantRead(x, "new"); v.Version != last {
			p.errorf("version %v, want %v", v.Version, last)
		}
	}},
}
