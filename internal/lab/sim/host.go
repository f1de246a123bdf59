package sim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Host is where one machine runs: it has clocks, a disk, and a fate. Process adds the
// machine, which the rest of a world need not know.
type Host struct {
	ID   machine.NodeID
	Lane string // its name in a timeline
	Disk Disk
	// Lag is how long a turn may take to begin once there is a reason for one.
	Lag time.Duration
	// Processor, if set, takes the time that Process.Takes says for each turn.
	Processor *Processor
	// Access begins an operation on a storage that is outside the host. Its end is told by
	// Accessed, within After, so that it answers no later life of the host. The operation
	// changes the storage with World.After, for it takes effect even if the host has
	// crashed meanwhile.
	Access func(*Host, machine.Access)

	w    *World
	net  *Network
	mono clock // counts suspend
	wall clock

	m         runs // nil while crashed
	life      int  // counts starts and crashes: operations of an earlier life are void
	paused    bool
	suspended bool // paused, and with it all that is around the process
	inbox     []input
	resumed   []func() // the calls that wait for the end of a pause
	stepped   bool     // a step is scheduled
	alarm     uint64
	idle      int // turns in a row that had no input and no effect, and were wanted
	writing   bool

	down, still *Mark // the crash and the pause that last
}

// newHost adds a host to a network, which may be nil. Its monotonic clock shows
// anything and differs in rate from true time by at most maxRate, each way; its
// wall clock is right.
func newHost(w *World, net *Network, id machine.NodeID, maxRate float64) *Host {
	h := &Host{ID: id, Lane: fmt.Sprintf("host %d", id), Disk: Disk{w: w}, Lag: 200 * time.Microsecond, w: w, net: net}
	h.mono = clock{shown: w.Between(0, 100*time.Hour), rate: (2*w.Rand.Float64() - 1) * maxRate}
	h.wall = clock{shown: epoch}
	if net != nil {
		net.hosts[id] = h
	}
	return h
}

// Now reads both clocks.
func (h *Host) Now() machine.Now {
	return machine.Now{Mono: h.Mono(), Wall: machine.Wall(h.wall.read(h.w.now))}
}

// Mono reads the host's monotonic clock.
func (h *Host) Mono() machine.Mono { return machine.Mono(h.mono.read(h.w.now)) }

// Drift lets the monotonic clock go at another rate from here on: 1e-4 is 100 ppm
// too fast.
func (h *Host) Drift(rate float64) {
	h.mono.set(h.w.now, 0, rate)
	h.wake() // the alarm rings at another true time now
}

// StepMono sets the monotonic clock forward, as only a broken host does.
func (h *Host) StepMono(by time.Duration) {
	h.mono.set(h.w.now, by, h.mono.rate)
	h.w.Note("host %d: the monotonic clock steps by %v", h.ID, by)
	h.w.Mark(Fault, h.Lane, "the monotonic clock steps by %v", by)
}

// SlewWall lets the wall clock go at another rate from here on.
func (h *Host) SlewWall(rate float64) { h.wall.set(h.w.now, 0, rate) }

// StepWall sets the wall clock forward, or back.
func (h *Host) StepWall(by time.Duration) {
	h.wall.set(h.w.now, by, h.wall.rate)
	h.w.Note("host %d: the wall clock steps by %v", h.ID, by)
	h.w.Mark(Fault, h.Lane, "the wall clock steps by %v", by)
}

// TrueWait is how long a wait of d by the host's monotonic clock takes in true time.
func (h *Host) TrueWait(d time.Duration) time.Duration {
	return time.Duration(float64(d)/(1+h.mono.rate)) + 1
}

func (h *Host) start(m runs) {
	h.life++
	h.down.End()
	h.still.End()
	h.w.Mark(Remark, h.Lane, "starts")
	h.m, h.inbox, h.resumed = m, nil, nil
	h.paused, h.suspended, h.writing = false, false, false
	if h.Processor != nil {
		h.Processor.queue, h.stepped = [2][]work{}, false
	}
	h.wake()
}

// Up reports whether the host has a machine, paused or not.
func (h *Host) Up() bool { return h.m != nil }

// Life counts the host's starts and crashes.
func (h *Host) Life() int { return h.life }

// After has f called when d of true time has passed, unless the host has crashed or
// was started anew by then.
func (h *Host) After(d time.Duration, f func()) {
	life := h.life
	h.w.After(d, func() {
		if h.life == life {
			f()
		}
	})
}

// Crash loses the machine and what the disk has not made durable.
func (h *Host) Crash() {
	h.life++
	h.still.End()
	h.down.End()
	h.down = h.w.Begin(Fault, h.Lane, "crash")
	h.m, h.inbox, h.resumed = nil, nil, nil
	h.Disk.crash()
	h.w.Note("crash %d", h.ID)
}

// Pause stops the process as SIGSTOP does: clocks go on, arrivals pile up, writes under way
// end.
func (h *Host) Pause() { h.stop("pause") }

// Suspend stops the whole host, as a laptop's lid or a virtual machine's monitor does. To
// the machine it is a pause, for its clock counts the time; but envelopes sent to the host
// meanwhile are lost.
func (h *Host) Suspend() { h.suspended = true; h.stop("suspend") }

func (h *Host) stop(how string) {
	h.paused = true
	h.w.Note("%s %d", how, h.ID)
	h.still.End()
	h.still = h.w.Begin(Fault, h.Lane, "%s", how)
}

// Paused reports whether the host is paused or suspended.
func (h *Host) Paused() bool { return h.paused }

// Resume ends a pause or a suspend.
func (h *Host) Resume() {
	h.paused, h.suspended = false, false
	h.still.End()
	h.w.Note("resume %d", h.ID)
	waiting := h.resumed
	h.resumed = nil
	for _, f := range waiting {
		f()
	}
	h.wake()
}

// input waits to be stepped: message is set, or step.
type input struct {
	message *machine.Envelope
	step    func(machine.Now)
}

// Receive queues a message, to be stepped with whatever else is there by then.
func (h *Host) Receive(e machine.Envelope) { h.add(input{message: &e}) }

// Accessed queues the end of an Access.
func (h *Host) Accessed(a machine.Accessed) {
	h.add(input{step: func(now machine.Now) { h.m.accessed(now, a) }})
}

func (h *Host) add(in input) {
	if h.m == nil {
		return
	}
	h.inbox = append(h.inbox, in)
	h.wake()
}

// LoseInbox loses the inputs that wait to be stepped.
func (h *Host) LoseInbox() { h.inbox = nil }

func (h *Host) wake() {
	if h.stepped || h.m == nil || h.paused {
		return
	}
	h.stepped = true
	life := h.life
	h.w.After(h.w.Between(0, h.Lag), func() {
		if h.life == life && h.Processor != nil {
			h.Work(h.turn)
			return
		}
		h.stepped = false
		if h.life == life {
			_, end := h.turn()
			end()
		} else {
			h.wake()
		}
	})
}

// turn does the driver's loop body; its results leave at the end.
func (h *Host) turn() (takes time.Duration, end func()) {
	h.stepped = false
	if h.m == nil || h.paused {
		return 0, func() {}
	}
	inbox := h.inbox
	h.inbox = nil
	var received []machine.Envelope
	for _, in := range inbox {
		if in.message != nil {
			received = append(received, *in.message)
			h.m.receive(h.Now(), *in.message)
		} else {
			in.step(h.Now())
		}
	}
	h.m.wake(h.Now())
	rd, takes := h.m.ready(received)
	h.checkSpin(len(inbox), rd)
	return takes, func() { h.leave(rd) }
}

// maxIdle is how many turns in a row a machine may want for nothing.
const maxIdle = 20

// checkSpin stops the world when a machine wants to be woken at once, again and again, and does
// nothing then: for real it would keep a processor busy.
func (h *Host) checkSpin(inputs int, rd effects) {
	if inputs > 0 || len(rd.Sends)+len(rd.Persists)+len(rd.Outcomes)+len(rd.Accesses) > 0 || rd.Alarm > h.Mono() {
		h.idle = 0
		return
	}
	if h.idle++; h.idle > maxIdle {
		panic(fmt.Sprintf("sim: host %d spins: its machine wanted %d turns in a row, without an input, and did nothing in them", h.ID, maxIdle))
	}
}

// leave sees to what a turn decided.
func (h *Host) leave(rd effects) {
	for _, out := range rd.Outcomes {
		out()
	}
	for _, env := range rd.Sends {
		h.net.send(env)
	}
	h.Disk.Queue = append(h.Disk.Queue, rd.Persists...)
	h.write()
	for _, a := range rd.Accesses {
		h.Access(h, a)
	}
	h.setAlarm(rd.Alarm)
}

func (h *Host) setAlarm(at machine.Mono) {
	h.alarm++
	if at == machine.Never {
		return
	}
	alarm := h.alarm
	h.After(h.TrueWait(at.Sub(h.Mono())), func() {
		if h.alarm == alarm {
			h.wake()
		}
	})
}

// write makes everything queued durable in one go, after a while. A pause ends no write,
// but its waiters hear of it only afterwards.
func (h *Host) write() {
	if h.writing || len(h.Disk.Queue) == 0 {
		return
	}
	h.writing = true
	n := len(h.Disk.Queue)
	h.After(h.Disk.delay(), func() {
		done := h.Disk.sync(n)
		h.WhenRunning(func() {
			h.writing = false
			for _, p := range done {
				for _, env := range p.Then {
					if env.To == h.ID {
						h.Receive(env)
					} else {
						h.net.send(env)
					}
				}
			}
			h.write()
		})
	})
}

// WhenRunning calls f now, or at the end of the pause, unless the host crashes before.
func (h *Host) WhenRunning(f func()) {
	if h.paused {
		h.resumed = append(h.resumed, f)
		return
	}
	f()
}
