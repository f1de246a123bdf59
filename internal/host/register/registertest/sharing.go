package registertest

import (
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
)

const (
	processes = 3
	cells     = 2 // of each process
)

// play has several processes read and write one register, and returns their history. Each cell does
// n operations; disturb, if set, is called with each process's stores before it begins.
func (p *probe) play(atomic bool, n int, disturb func(process int, faults []*register.Faults)) []Operation {
	var h history
	var players sync.WaitGroup
	for i := range processes {
		set, faults := p.set()
		if disturb != nil {
			disturb(i, faults)
		}
		for j := range cells {
			open := set.Regular
			if atomic {
				open = set.register
			}
			cell := open("x")
			players.Go(func() {
				defer cell.Close()
				p.player(&h, cell, i*cells+j, n)
			})
		}
	}
	players.Wait()
	return h.operations()
}

// player writes and reads in turn.
func (p *probe) player(h *history, cell *register.Cell, client, n int) {
	for i := range n {
		o := Operation{Client: client, Begin: h.begin(), Write: (i+client)%3 == 0}
		var err error
		if o.Write {
			o.Data = fmt.Sprintf("%d.%d", client, i)
			o.Version, err = cell.Write(p.ctx, []byte(o.Data))
		} else {
			v, e := cell.Read(p.ctx)
			o.Data, o.Version, err = string(v.Data), v.Version, e
		}
		h.End(o, err != nil)
		if p.ctx.Err() != nil {
			p.errorf("%v: %w", o, err)
			return
		}
	}
}

// judge fails unless a history keeps the registers' promises, and holds some operations.
func (p *probe) judge(history []Operation, atomic bool) {
	reads, writes := 0, 0
	for _, o := range history {
		switch {
		case o.End == Unended:
		case o.Write:
			writes++
		default:
			reads++
		}
	}
	if reads < len(history)/10 || writes < len(history)/20 {
		p.errorf("only %d reads and %d writes of %d operations ended", reads, writes, len(history))
	}
	check := Regular
	if atomic {
		check = Atomic
	}
	if err := check(history); err != nil {
		p.errorf("%w", err)
	}
	if err := Versions(history); err != nil {
		p.errorf("%w", err)
	}
}

// undisturbed wants no operation to fail.
func (p *probe) undisturbed(history []Operation) {
	for _, o := range history {
		if o.End == Unended {
			p.errorf("%v failed though nothing was amiss", o)
		}
	}
}

// roughly gives a store a bad day.
var roughly = register.Mix{Late: .05, LostBefore: .04, LostAfter: .04, Stuck: .04}

// disturb makes every store of every process fail now and then.
func disturb(mix register.Mix) func(int, []*register.Faults) {
	return func(process int, faults []*register.Faults) {
		for i, f := range faults {
			f.Plan = mix.Seeded(uint64(process<<8 | i))
			f.Delay = 2 * time.Millisecond
		}
	}
}

var sharingChecks = []check{
	{"AtomicWhenShared", func(p *probe) {
		history := p.play(true, 40, nil)
		p.undisturbed(history)
		p.judge(history, true)
	}},
	{"RegularWhenShared", func(p *probe) {
		history := p.play(false, 60, nil)
		p.undisturbed(history)
		p.judge(history, false)
	}},
	{"AtomicUnderFaults", func(p *probe) {
		p.judge(p.play(true, 40, disturb(roughly)), true)
	}},
	{"RegularUnderFaults", func(p *probe) {
		p.judge(p.play(false, 60, disturb(roughly)), false)
	}},
	{"AtomicUnderDamage", func(p *probe) {
		p.judge(p.play(true, 40, disturb(register.Mix{Torn: .05, Late: .05})), true)
	}},
}
