package flease

import (
	"flag"
	"hash/fnv"
	"maps"
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

var exploreFlag = flag.Bool("explore", false, "explore the greater scopes, too: minutes")

// TestExplore looks at every state that some peers can reach. It tries every order in which
// messages arrive or stay away, every moment of a crash with restart, and time that passes
// in jumps, with clocks ε apart. In each, at most one lease is believed in by its owner's
// own clocks, tokens grow, and no acceptor promises less than it ever has. Doc says what was
// covered.
func TestExplore(t *testing.T) {
	const ms = time.Millisecond
	short := explorer{jumps: []time.Duration{380 * ms, 1160 * ms}, passes: 2}
	lives := []time.Duration{520 * ms, 1020 * ms, 1160 * ms} // half of t_max, t_max, W; and a little
	for _, scope := range []struct {
		name  string
		large bool
		explorer
		proposers []machine.NodeID
		offsets   [3]time.Duration
	}{
		{"two-ballots", false, explorer{ballots: 2}, []machine.NodeID{1, 2}, [3]time.Duration{}},
		{"two-ballots-third-crashes", false, explorer{ballots: 2, crashes: 1, only: 3, jumps: []time.Duration{1160 * ms}, passes: 1}, []machine.NodeID{1, 2}, [3]time.Duration{25 * ms, -25 * ms, 0}},
		// The third forgets what the first holds by it, and the second comes when half of that is
		// over, or just all, or the third is back.
		{"lease-outlasts-a-crash", false, explorer{ballots: 3, crashes: 1, only: 3, jumps: lives, passes: 1, later: 2, staged: true}, []machine.NodeID{1}, [3]time.Duration{}},
		{"lease-outlasts-a-crash-in-any-order", true, explorer{ballots: 3, crashes: 1, only: 3, jumps: lives, passes: 1, later: 2}, []machine.NodeID{1}, [3]time.Duration{-25 * ms, 25 * ms, 25 * ms}},
		{"two-ballots-one-crash", true, explorer{ballots: 2, crashes: 1, jumps: []time.Duration{1160 * ms}, passes: 1}, []machine.NodeID{1, 2}, [3]time.Duration{25 * ms, -25 * ms, 0}},
		{"two-ballots-one-crash-skewed", true, explorer{ballots: 2, crashes: 1, jumps: short.jumps, passes: 2}, []machine.NodeID{1, 2}, [3]time.Duration{-25 * ms, 25 * ms, 25 * ms}},
		{"three-ballots-one-crash", true, explorer{ballots: 3, crashes: 1, jumps: []time.Duration{1160 * ms}, passes: 1}, []machine.NodeID{1, 2}, [3]time.Duration{25 * ms, -25 * ms, -25 * ms}},
		{"three-proposers", true, explorer{ballots: 3}, []machine.NodeID{1, 2, 3}, [3]time.Duration{}},
	} {
		t.Run(scope.name, func(t *testing.T) {
			if scope.large && !*exploreFlag {
				t.Skip("-explore looks at it")
			}
			e := scope.explorer
			e.t, e.seen = t, map[uint64]struct{}{}
			e.from(e.begin(scope.offsets, scope.proposers))
			t.Logf("%d states, %d with a holder, %d ends; %d restarts", len(e.seen), e.held, e.ends, e.restarts)
			if e.held == 0 || e.crashes > 0 && e.restarts == 0 {
				t.Error("nothing happened in this scope")
			}
		})
	}
}

// explorer bounds a search.
type explorer struct {
	ballots, crashes, passes int
	only                     int            // the peer that may crash; 0: any
	later                    machine.NodeID // whose claim begins at any time, if at all
	staged                   bool           // somebody holds, then crashes, then passes, then that claim
	jumps                    []time.Duration

	t                    *testing.T
	seen                 map[uint64]struct{}
	held, ends, restarts int
}

// world is one state.
type world struct {
	now      time.Duration // true time
	peers    [3]*Peer
	offsets  [3]time.Duration
	wire     []message
	believed []belief
	promised [3]Ballot // the greatest of each acceptor, in all its lives
	waits    machine.NodeID
	token    uint64
	crashes  int
	passes   int
	ballots  int
}

type message struct {
	from, to machine.NodeID
	epoch    uint64
	op       Op
}

type belief struct {
	peer     int
	inc      uint32
	acquired Acquired
}

const exploreStart = time.Duration(1767225600) * time.Second

func (w *world) clock(i int) machine.Now {
	return machine.Now{Mono: machine.Mono(w.now), Wall: machine.Wall(exploreStart + w.now + w.offsets[i])}
}

func exploreConfig(i int, inc uint32) Config {
	cfg := testConfig(machine.NodeID(i+1), 3)
	cfg.TMax, cfg.Epsilon, cfg.RoundTimeout, cfg.Guard, cfg.Incarnation = time.Second, 50*time.Millisecond, 190*time.Millisecond, time.Millisecond, inc
	return cfg
}

func (e *explorer) begin(offsets [3]time.Duration, proposers []machine.NodeID) *world {
	w := &world{offsets: offsets}
	for i := range w.peers {
		e.restart(w, i, 1)
	}
	w.now += w.peers[0].quarantine + time.Millisecond
	for i := range w.peers {
		e.step(w, i, labstage.Wake{})
	}
	for _, id := range proposers {
		e.acquire(w, id)
	}
	w.waits = e.later
	return w
}

func (e *explorer) acquire(w *world, id machine.NodeID) {
	e.step(w, int(id)-1, Acquire{ID: uint64(id), Name: "r", Try: true})
}

func (e *explorer) restart(w *world, i int, inc uint32) {
	p, err := New(exploreConfig(i, inc))
	if err != nil {
		e.t.Fatal(err)
	}
	w.peers[i] = p
	e.step(w, i, labstage.Wake{})
}

// step steps one peer and takes what comes of it.
func (e *explorer) step(w *world, i int, input any) {
	p := w.peers[i].clone() // other states have it, too
	w.peers[i] = p
	labstage.Feed(p, w.clock(i), input)
	rd := p.Ready()
	if c, known := p.names["r"]; known {
		// R1 to R5 for all lives: an acceptor that has forgotten k accepts nothing below
		// it.
		k := p.cells[c].promised
		if k != 0 && k < w.promised[i] {
			e.t.Fatalf("acceptor %d promises %v, and had promised %v", i+1, k, w.promised[i])
		}
		w.promised[i] = max(w.promised[i], k)
	}
	for _, out := range rd.Outcomes {
		if a, ok := out.(Acquired); ok {
			for _, b := range w.believed {
				now := w.clock(b.peer)
				if w.peers[b.peer].cfg.Incarnation == b.inc && now.Mono < b.acquired.Deadline && now.Wall < b.acquired.Until {
					e.t.Fatalf("peers %d and %d hold at once: %+v, %+v", b.peer+1, i+1, b.acquired, a)
				}
			}
			if a.Token <= w.token {
				e.t.Fatalf("token %d after token %d", a.Token, w.token)
			}
			w.token = a.Token
			w.believed = append(slices.Clone(w.believed), belief{i, p.cfg.Incarnation, a})
			e.held++
		}
	}
	for _, env := range rd.Sends {
		for _, o := range env.Body.(*Batch).Ops {
			if o.Kind == Read && env.To == machine.NodeID(i+1)%3+1 {
				w.ballots++
			}
			w.wire = append(w.wire, message{env.From, env.To, env.Body.(*Batch).Epoch, o})
		}
	}
}

// from explores all that can follow.
func (e *explorer) from(w *world) {
	// An answer that nobody waits for changes nothing.
	w.wire = slices.DeleteFunc(w.wire, func(m message) bool {
		if m.op.Kind == Read || m.op.Kind == Write {
			return false
		}
		p := w.peers[m.to-1]
		a := int(m.op.Ref & (1<<attemptBits - 1))
		return a >= len(p.attempts) || p.ref(int32(a)) != m.op.Ref || p.attempts[a].k != m.op.Ballot
	})
	h := w.hash()
	if _, ok := e.seen[h]; ok || w.ballots > e.ballots {
		return
	}
	e.seen[h] = struct{}{}
	next := 0
	try := func(f func(*world)) {
		next++
		n := w.clone()
		f(n)
		e.from(n)
	}
	for j := range w.wire {
		try(func(n *world) {
			m := n.wire[j]
			n.wire = slices.Delete(n.wire, j, j+1)
			e.step(n, int(m.to)-1, machine.Envelope{From: m.from, To: m.to, Body: &Batch{
				Incarnation: 1, Epoch: m.epoch, Digest: n.peers[0].lay.digest, Ops: []Op{m.op}}})
		})
	}
	if w.waits != 0 && (!e.staged || w.passes == e.passes) {
		try(func(n *world) {
			n.waits = 0
			e.acquire(n, w.waits)
		})
	}
	if w.crashes < e.crashes && (!e.staged || len(w.believed) > 0 && w.passes == 0) {
		for i := range w.peers {
			if e.only != 0 && e.only != i+1 {
				continue
			}
			try(func(n *world) {
				n.crashes++
				e.restarts++
				e.restart(n, i, n.peers[i].cfg.Incarnation+1)
			})
		}
	}
	if w.passes < e.passes && (!e.staged || w.crashes == e.crashes) {
		for _, d := range e.jumps {
			try(func(n *world) {
				n.passes++
				n.now += d
				for i := range n.peers {
					e.step(n, i, labstage.Wake{})
				}
			})
		}
	}
	if next == 0 {
		e.ends++
	}
}

func (w *world) clone() *world {
	n := *w
	n.wire = slices.Clone(w.wire)
	return &n
}

func (p *Peer) clone() *Peer {
	n := *p
	n.names, n.lines, n.byID, n.alarmed, n.delays = maps.Clone(p.names), maps.Clone(p.lines), maps.Clone(p.byID), maps.Clone(p.alarmed), maps.Clone(p.delays)
	for i, line := range n.lines {
		n.lines[i] = slices.Clone(line)
	}
	n.cells, n.freeCells = slices.Clone(p.cells), slices.Clone(p.freeCells)
	n.claims, n.freeClaims = slices.Clone(p.claims), slices.Clone(p.freeClaims)
	n.attempts, n.freeAttempts = slices.Clone(p.attempts), slices.Clone(p.freeAttempts)
	n.turns, n.peers, n.wheel.links = slices.Clone(p.turns), slices.Clone(p.peers), slices.Clone(p.wheel.links)
	n.lanes = slices.Clone(p.lanes) // each is empty between two steps
	return &n
}

// hash stands for all that decides what can follow.
func (w *world) hash() uint64 {
	var d digest
	d.add(uint64(w.now), uint64(w.crashes), uint64(w.passes), uint64(w.ballots), w.token, uint64(w.waits))
	for _, k := range w.promised {
		d.add(uint64(k))
	}
	for _, b := range w.believed {
		d.add(uint64(b.peer), uint64(b.inc), uint64(b.acquired.Deadline))
	}
	for _, p := range w.peers {
		d.add(uint64(p.cfg.Incarnation), uint64(p.floor), uint64(p.silence.mono), uint64(p.silence.wall), uint64(p.hlc.last), uint64(p.turn), uint64(len(p.turns)), p.random)
		for i := range p.cells {
			c := &p.cells[i]
			d.add(uint64(c.promised), uint64(c.written))
			d.value(c.value)
		}
		for i := range p.claims {
			c := &p.claims[i]
			d.add(uint64(c.phase), uint64(c.wrote), uint64(c.token), uint64(c.until), uint64(c.deadline), uint64(c.renewAt), uint64(c.tries), uint64(c.att), c.id, uint64(oneIf(c.insists)))
		}
		for i := range p.attempts {
			a := &p.attempts[i]
			d.add(uint64(a.k), uint64(a.claim), uint64(a.gen), uint64(a.aim)<<8|uint64(a.stage), uint64(a.m0), uint64(a.exp), uint64(a.acks)<<32|uint64(a.nacks), uint64(a.shown), uint64(a.best))
			d.value(a.value)
		}
		for _, l := range p.wheel.links {
			d.add(uint64(l.at), uint64(l.level))
		}
	}
	wire := make([]uint64, len(w.wire)) // in any order
	for i, m := range w.wire {
		var o digest
		o.add(uint64(m.from)<<8|uint64(m.to), uint64(m.op.Kind)<<32|uint64(m.op.Ref), uint64(m.op.Ballot), uint64(m.op.Written))
		o.value(m.op.Value)
		wire[i] = o.sum()
	}
	slices.Sort(wire)
	d.add(wire...)
	return d.sum()
}

type digest struct{ b wire.Writer }

func (d *digest) add(xs ...uint64) {
	for _, x := range xs {
		d.b.Uint64(x)
	}
}

func (d *digest) value(v Value) {
	d.add(uint64(len(v)))
	v.encode(&d.b)
}

func (d *digest) sum() uint64 {
	h := fnv.New64a()
	h.Write(d.b)
	return mix(h.Sum64())
}
