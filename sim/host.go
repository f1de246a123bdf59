package sim

import (
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// Host is where one machine runs: it has clocks, a disk, and a fate.
type Host struct {
	w    *World
	net  *Network
	ID   machine.NodeID
	disk Disk

	// The monotonic clock shows offset + (1+rate)·now and counts suspend.
	offset time.Duration
	rate   float64

	m       machine.Machine // nil while crashed
	life    int             // counts restarts: what an earlier life began is void
	paused  bool
	inbox   []any
	stepped bool // a step is scheduled
	alarm   uint64
	writing bool

	// Outcome takes what the machine reports.
	Outcome func(any)
}

// NewHost adds a host to a network.
func NewHost(w *World, net *Network, id machine.NodeID, maxRate float64) *Host {
	h := &Host{w: w, net: net, ID: id, offset: w.Between(0, 100*time.Hour), rate: (2*w.Rand.Float64() - 1) * maxRate}
	h.disk.w = w
	net.hosts[id] = h
	return h
}

// Mono reads the host's monotonic clock.
func (h *Host) Mono() machine.Mono {
	return machine.Mono(h.offset + h.w.now + time.Duration(h.rate*float64(h.w.now)))
}

// Now reads both clocks. The wall clock plays no part yet.
func (h *Host) Now() machine.Now { return machine.Now{Mono: h.Mono()} }

// TrueWait is how long a wait of d by the host's clock takes in true time.
func (h *Host) TrueWait(d time.Duration) time.Duration {
	return time.Duration(float64(d)/(1+h.rate)) + 1
}

// Start gives the host a machine to run.
func (h *Host) Start(m machine.Machine) {
	h.life++
	h.m, h.inbox, h.paused, h.writing = m, nil, false, false
	h.wake()
}

// Up tells whether the host runs.
func (h *Host) Up() bool { return h.m != nil }

// Crash loses the machine and what the disk has not made durable.
func (h *Host) Crash() {
	h.life++
	h.m, h.inbox = nil, nil
	h.disk.crash()
	h.w.Note("crash %d", h.ID)
}

// Pause stops the host as SIGSTOP does: messages pile up, clocks go on.
func (h *Host) Pause() { h.paused = true; h.w.Note("pause %d", h.ID) }

// Resume ends a pause.
func (h *Host) Resume() { h.paused = false; h.w.Note("resume %d", h.ID); h.wake() }

// Step queues an input, to be stepped with whatever else is there by then.
func (h *Host) Step(input any) {
	if h.m == nil {
		return
	}
	h.inbox = append(h.inbox, input)
	h.wake()
}

func (h *Host) wake() {
	if h.stepped || h.m == nil || h.paused {
		return
	}
	h.stepped = true
	life := h.life
	h.w.After(h.w.Between(0, 200*time.Microsecond), func() {
		h.stepped = false
		if h.life == life {
			h.turn()
		} else {
			h.wake()
		}
	})
}

// turn is the driver's loop body.
func (h *Host) turn() {
	if h.m == nil || h.paused {
		return
	}
	inbox := h.inbox
	h.inbox = nil
	for _, in := range inbox {
		h.m.Step(h.Now(), in)
	}
	h.m.Step(h.Now(), machine.Wake{})
	rd := h.m.Ready()
	for _, env := range rd.Sends {
		h.net.send(env)
	}
	h.disk.queue = append(h.disk.queue, rd.Persists...)
	h.write()
	for _, out := range rd.Outcomes {
		h.Outcome(out)
	}
	h.setAlarm(rd.Alarm)
}

func (h *Host) setAlarm(at machine.Mono) {
	h.alarm++
	if at == machine.Never {
		return
	}
	alarm, life := h.alarm, h.life
	h.w.After(h.TrueWait(at.Sub(h.Mono())), func() {
		if h.alarm == alarm && h.life == life {
			h.wake()
		}
	})
}

// write makes everything queued durable in one go, after a while.
func (h *Host) write() {
	if h.writing || len(h.disk.queue) == 0 {
		return
	}
	h.writing = true
	n, life := len(h.disk.queue), h.life
	h.w.After(h.disk.delay(), func() {
		if h.life != life {
			return
		}
		done := h.disk.sync(n)
		h.writing = false
		for _, p := range done {
			for _, env := range p.Then {
				if env.To == h.ID {
					h.Step(env)
				} else {
					h.net.send(env)
				}
			}
		}
		h.write()
	})
}

// Disk keeps records in order. A crash keeps what was synced and, of what was
// not, a prefix.
type Disk struct {
	w       *World
	durable []any
	queue   []machine.Persist
	slow    time.Duration // extra, while the disk is bad
}

func (d *Disk) delay() time.Duration {
	return d.w.Between(50*time.Microsecond, 2*time.Millisecond) + d.slow
}

func (d *Disk) sync(n int) []machine.Persist {
	done := d.queue[:n:n]
	d.queue = d.queue[n:]
	for _, p := range done {
		if p.Record != nil {
			d.durable = append(d.durable, p.Record)
		}
	}
	return done
}

func (d *Disk) crash() {
	if len(d.queue) > 0 {
		d.sync(d.w.Rand.IntN(len(d.queue) + 1))
	}
	d.queue = nil
}

// Network carries envelopes between hosts.
type Network struct {
	w     *World
	hosts map[machine.NodeID]*Host

	Loss, Duplicate float64
	Min, Max        time.Duration // delay; different delays reorder
	Slow            float64       // chance of a delay far beyond Max
	cut             map[[2]machine.NodeID]bool
	// Copy makes what arrives from what was sent, as a wire would.
	Copy func(any) any
	// Take, if set, may take an envelope off the wire by returning true.
	Take func(machine.Envelope) bool
}

// NewNetwork returns a network without faults.
func NewNetwork(w *World, copy func(any) any) *Network {
	return &Network{
		w: w, hosts: map[machine.NodeID]*Host{}, cut: map[[2]machine.NodeID]bool{}, Copy: copy,
		Min: 100 * time.Microsecond, Max: time.Millisecond,
	}
}

// Cut stops messages from one host to another, one way.
func (n *Network) Cut(from, to machine.NodeID) {
	n.cut[[2]machine.NodeID{from, to}] = true
	n.w.Note("cut %d>%d", from, to)
}

// Mend undoes all cuts.
func (n *Network) Mend() { clear(n.cut); n.w.Note("mend") }

func (n *Network) send(env machine.Envelope) {
	if n.cut[[2]machine.NodeID{env.From, env.To}] || n.w.Chance(n.Loss) {
		return
	}
	if n.Take != nil && n.Take(env) {
		return
	}
	n.deliver(env)
	if n.w.Chance(n.Duplicate) {
		n.deliver(env)
	}
}

func (n *Network) deliver(env machine.Envelope) {
	env.Body = n.Copy(env.Body)
	d := n.w.Between(n.Min, n.Max)
	if n.w.Chance(n.Slow) {
		d += n.w.Between(0, 3*time.Second)
	}
	n.w.After(d, func() {
		if h := n.hosts[env.To]; h != nil && !n.cut[[2]machine.NodeID{env.From, env.To}] {
			h.Step(env)
		}
	})
}
