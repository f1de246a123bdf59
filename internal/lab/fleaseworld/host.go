package fleaseworld

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/disk"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Ports of a host: for peers, and the socket for its own clients.
const (
	peerPort   = 7000
	socketPort = 1
)

// host is a machine, with its clocks, its disk and a peer.
type host struct {
	s          *stage
	index      machine.NodeID
	name       string
	mono, wall *clock.Simulated
	disk       *disk.Disk

	mu      sync.Mutex
	life    *life // nil while there is no peer
	lives   int
	removed bool           // it is no member any more
	skew    time.Duration  // how far its synchronized clock is ahead of all others, beyond ε
	back    time.Duration  // how far all synchronized clocks were set back
	dark    bool           // without power
	left    bool           // the peer has ended as planned, and has left a state
	has     engine.Members // the list that was read last
	unread  time.Time      // a newer one is read no earlier
	backup  []byte         // a state of an earlier end
}

// life is a peer from its start to its end.
type life struct {
	h    *host
	p    *world.Process
	peer *engine.Peer
	done chan struct{} // closed when all of it has ended
	over bool          // it was told to end, or was removed
	hit  bool          // it was ended while it started, or while it closed as planned
}

// years are how far the synchronized clocks are ahead of the bubble's, which begins in 2000:
// ballots are of later times.
const years = 30 * 365 * 24 * time.Hour

func (s *stage) newHost(index int) *host {
	h := &host{s: s, index: machine.NodeID(index), name: fmt.Sprintf("h%d", index), disk: disk.New()}
	h.mono = clock.NewSimulated(machine.Mono(1e9 + s.rand.Int64N(1e15)))
	h.mono.SetRate(1 + (2*s.rand.Float64()-1)*2e-4)
	off := s.between(-s.eps/2, s.eps/2)
	if index == 1 {
		h.skew = s.shape.skew
		off += h.skew
	}
	h.wall = clock.NewSimulated(machine.Mono(time.Now().Add(years + off).UnixNano()))
	return h
}

func (h *host) addr() string   { return fmt.Sprintf("%s:%d", h.name, peerPort) }
func (h *host) socket() string { return fmt.Sprintf("%s:%d", h.name, socketPort) }

// wander lets the synchronized clock go to another place within ±ε/2 of true time, slowly
// enough to be no step.
func (h *host) wander(every time.Duration) {
	h.mu.Lock()
	off := time.Duration(int64(h.wall.Now())-time.Now().Add(years).UnixNano()) - h.skew + h.back
	h.mu.Unlock()
	aim := h.s.between(-h.s.eps/2, h.s.eps/2)
	rate := float64(aim-off) / float64(every)
	h.wall.SetRate(1 + min(max(rate, -5e-4), 5e-4))
}

// ahead is by how much the synchronized clock is wrong.
func (h *host) ahead() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.skew
}

// setClock has an operator set the clock of a host right, and start its peer anew.
func (h *host) setClock() {
	h.wall.Jump(-h.ahead())
	h.mu.Lock()
	h.skew = 0
	h.mu.Unlock()
	h.stop(exits, 0)
}

// start starts the peer, and tries again until it runs or is not wanted.
func (h *host) start() {
	for {
		member := h.isMember()
		h.mu.Lock()
		if h.removed = h.removed || !member; h.removed || h.dark || h.life != nil || h.s.ended() {
			h.mu.Unlock()
			return
		}
		w := h.s.w
		p := w.Start(h.name)
		l := &life{h: h, p: p, done: make(chan struct{})}
		h.life = l
		h.lives++
		h.mu.Unlock()
		err := l.run()
		if err == nil {
			return
		}
		w.Trace.Add("%s does not start: %v", h.name, err)
		p.End()
		h.s.net.Exit(p)
		h.mu.Lock()
		h.life = nil
		hit := l.hit
		h.mu.Unlock()
		close(l.done)
		if hit {
			return // the goroutine that has ended it starts the next
		}
		w.Count("starts refused", 1)
		h.s.j.words(err)
		time.Sleep(500 * time.Millisecond)
	}
}

func (l *life) run() error {
	h, s := l.h, l.h.s
	listener, err := s.net.Listen(l.p, peerPort)
	if err != nil {
		return err
	}
	socket, err := s.net.Listen(l.p, socketPort)
	if err != nil {
		listener.Close()
		return err
	}
	restores := h.hasState()
	peer, err := engine.Start(context.Background(), engine.Config{
		Self: h.addr(), Membership: h.tell, TMax: s.tmax, Epsilon: s.eps, RoundTimeout: s.round,
		Replicas: 3, Listener: listener, Dial: s.net.Dialer(l.p), State: "state", FS: h.disk.FS(l.p),
		Clock: h.mono, Wall: func() time.Time { return time.Unix(0, int64(h.wall.Now())) },
		Logger: slog.New(slog.NewTextHandler(tracer{s.w, h.name}, nil)),
	})
	h.mu.Lock()
	h.left = err != nil && h.hasState() // a start that succeeds has used it up
	h.mu.Unlock()
	if err != nil {
		listener.Close()
		socket.Close()
		s.reckon()
		return err
	}
	s.w.Trace.Add("%s runs, life %d, serving %v", h.name, h.lives, peer.Status().Serving)
	s.w.Count("starts", 1)
	if restores {
		s.w.Count("starts with a state", 1)
	}
	h.mu.Lock()
	hit := l.hit
	if !hit {
		l.peer = peer
	}
	h.mu.Unlock()
	if hit {
		_ = peer.Close()
		s.reckon()
		return world.ErrDead
	}
	s.reckon()
	s.running.Go(func() {
		_ = peer.Serve(socket)
	})
	s.running.Go(func() {
		<-peer.Done()
		h.mu.Lock()
		over := l.over
		h.mu.Unlock()
		if !over {
			l.ended(peer.Err())
		}
	})
	s.local(l)
	return nil
}

// hasState reports whether the life before has left a state.
func (h *host) hasState() bool {
	names, _ := h.disk.Disk.FS().ReadDir("state")
	for _, n := range names {
		if strings.HasSuffix(n, ".snapshot") {
			return true
		}
	}
	return false
}

// ended: the peer has ended by itself.
func (l *life) ended(err error) {
	h := l.h
	h.s.w.Trace.Add("%s ends: %v", h.name, err)
	removed := strings.Contains(err.Error(), "no member any more")
	switch {
	case removed:
		h.s.w.Count("removed", 1)
		h.mu.Lock()
		h.removed = true
		h.mu.Unlock()
	case !h.s.hurtByDisk():
		h.s.w.Fail("%s ends by itself: %v", h.name, err)
	}
	l.end(exits)
	if !removed {
		h.s.running.Go(h.start)
	}
}

// How a life ends.
type ending int

const (
	exits   ending = iota // killed: the kernel closes its connections
	crashes               // the host loses its power
	leaves                // a planned shutdown
)

// end ends the life, and returns when nothing of it is left.
func (l *life) end(how ending) {
	h, s := l.h, l.h.s
	h.mu.Lock()
	if l.over {
		h.mu.Unlock()
		<-l.done
		return
	}
	l.over = true
	peer := l.peer
	h.mu.Unlock()
	l.kill(how)
	if peer != nil {
		err := peer.Close()
		h.mu.Lock()
		hit := l.hit
		h.mu.Unlock()
		if how == leaves && !hit {
			s.j.words(err)
		}
		s.w.Trace.Add("%s has closed: %v", h.name, err)
		h.mu.Lock()
		h.left = how == leaves && !l.hit && h.hasState()
		h.mu.Unlock()
	}
	if how == leaves {
		l.p.End()
		s.net.Exit(l.p)
	}
	h.mu.Lock()
	if h.life == l {
		h.life = nil
	}
	h.mu.Unlock()
	s.reckon()
	close(l.done)
}

// kill ends the process, unless it closes as planned.
func (l *life) kill(how ending) {
	h, s := l.h, l.h.s
	s.w.Trace.Add("%s is ended, %v", h.name, [...]string{"killed", "by a power cut", "as planned"}[how])
	switch how {
	case crashes:
		h.disk.Kill()
		s.net.PowerOff(l.p)
		l.p.End()
	case exits:
		l.p.End()
		s.net.Exit(l.p)
	}
	if how != leaves {
		s.deprive(l)
	}
}

// isOver reports whether nothing more can befall the life.
func (l *life) isOver() bool {
	select {
	case <-l.p.Ended():
		return true
	default:
		return l.hit
	}
}

// strike ends a life that has not begun, or that closes as planned, and returns when nothing of
// it is left.
func (l *life) strike(how ending) {
	l.kill(how)
	<-l.done
}

// stop ends the peer, if there is one, and starts another after a while. It may be one that starts,
// or that closes as planned.
func (h *host) stop(how ending, down time.Duration) bool {
	return h.stopAnd(how, func() { time.Sleep(down) })
}

// stopAnd is stop, with something that happens to the host before the next peer starts.
func (h *host) stopAnd(how ending, before func()) bool {
	h.mu.Lock()
	l := h.life
	if l == nil || l.isOver() || how == leaves && (l.peer == nil || l.over) {
		h.mu.Unlock()
		return false
	}
	end := l.end
	switch {
	case l.over:
		l.hit, end = true, l.strike
		h.s.w.Count("ended while they closed", 1)
	case l.peer == nil:
		l.hit, end = true, l.strike
		h.s.w.Count("ended while they started", 1)
	}
	h.dark = h.dark || how == crashes
	h.mu.Unlock()
	if how == crashes {
		h.s.killClients(h)
	}
	end(how)
	before()
	if how == crashes {
		h.disk.Crash(h.s.w.Rand(fmt.Sprintf("crash %s %d", h.name, h.lives)))
		h.s.net.PowerOn(h.name)
		h.mu.Lock()
		h.dark = false
		h.mu.Unlock()
	}
	h.start()
	return true
}

// now is the peer that runs, or nil.
func (h *host) now() *engine.Peer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil || h.life.over {
		return nil
	}
	return h.life.peer
}

// tracer writes a peer's log into the trace.
type tracer struct {
	w    *world.World
	name string
}

func (t tracer) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if _, rest, ok := strings.Cut(line, "level="); ok {
		line = rest
	}
	t.w.Trace.Add("%s log %s", t.name, line)
	for _, what := range []string{"jump", "skew"} {
		if strings.Contains(line, "flease: "+what) {
			t.w.Count("alarms: "+what, 1)
			t.w.Count(t.name+" alarms: "+what, 1)
		}
	}
	if strings.Contains(line, "not that of the last shutdown") {
		t.w.Count("states noticed", 1)
	}
	return len(b), nil
}
