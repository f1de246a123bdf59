package sim

import "time"

// Processor does one piece of work after the other. A host that has one takes time for its
// turns, so that it can have too much to do. Its machine's work goes before the requests of
// clients, as goroutines that are woken go before those that queue.
type Processor struct {
	w     *World
	queue [2][]work // the machine's, and clients'
	busy  bool

	worked time.Duration
}

// Worked is how long it has worked so far.
func (p *Processor) Worked() time.Duration { return p.worked }

type work struct {
	life  int
	begin func() (takes time.Duration, end func())
}

// Serve has the host's processor work for a client when all work before is done: begin
// returns the time that it takes, and a function for its end. A host without a processor
// takes no time. A crash cancels all work that has not ended.
func (h *Host) Serve(begin func() (takes time.Duration, end func())) { h.queue(1, begin) }

// Work has it work for the machine.
func (h *Host) Work(begin func() (takes time.Duration, end func())) { h.queue(0, begin) }

func (h *Host) queue(class int, begin func() (takes time.Duration, end func())) {
	p := h.Processor
	if p == nil {
		_, end := begin()
		end()
		return
	}
	p.w = h.w
	p.queue[class] = append(p.queue[class], work{h.life, begin})
	if !p.busy {
		h.work()
	}
}

// work does what is first in the queue, and goes on.
func (h *Host) work() {
	p := h.Processor
	for len(p.queue[0])+len(p.queue[1]) > 0 {
		q := &p.queue[0]
		if len(*q) == 0 {
			q = &p.queue[1]
		}
		next := (*q)[0]
		*q = (*q)[1:]
		if next.life != h.life {
			continue
		}
		takes, end := next.begin()
		p.busy = true
		p.w.After(takes, func() {
			p.busy = false
			p.worked += takes
			if next.life == h.life {
				end()
			}
			h.work()
		})
		return
	}
}
