package flease

import (
	"context"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
)

// watch looks at a name for all callers at one peer that await it: a thousand followers of an
// election cost the other peers no more than one.
type watch struct {
	kick   chan struct{} // a caller has come: look at once
	cancel context.CancelFunc

	// Under Peer.mu.
	refs    int
	begun   uint64 // looks so far
	seen    uint64 // number of the look that state and err are from
	state   tenure.State
	err     error
	changed chan struct{} // closed with each look
}

// Await implements tenure.Awaiter. It looks about every fiftieth of t_max.
func (l *Leaser) Await(outer context.Context, since tenure.State) (tenure.State, error) {
	if err := tenure.CheckName(since.Name); err != nil {
		return since, err
	}
	in, err := l.calls.Call(outer)
	if err != nil {
		return since, err
	}
	defer l.calls.Leave()
	p := l.peer
	w, before := p.watch(since.Name)
	defer p.unwatch(since.Name, w)
	for {
		p.mu.Lock()
		// A look that had begun before this call may be older than since.
		known, s, err, changed := w.seen > before, w.state, w.err, w.changed
		p.mu.Unlock()
		if known && (err != nil || !tenure.SameHolders(s, since)) {
			return s, l.final(outer, "observe", since.Name, err)
		}
		if _, more := holder.Await(in, changed); !more {
			return s, l.final(outer, "observe", since.Name, in.Cut())
		}
	}
}

// watch joins the callers that await a name, and returns the number of looks that had begun.
func (p *Peer) watch(name string) (*watch, uint64) {
	p.mu.Lock()
	w := p.watches[name]
	first := w == nil
	if first {
		w = &watch{kick: make(chan struct{}, 1), changed: make(chan struct{})}
		p.watches[name] = w
	}
	w.refs++
	before := w.begun
	select {
	case w.kick <- struct{}{}:
	default:
	}
	p.mu.Unlock()
	if first {
		ctx, cancel := context.WithCancel(p.ctx)
		p.mu.Lock()
		w.cancel = cancel
		p.mu.Unlock()
		p.spawn(func() { p.look(ctx, name, w) })
	}
	return w, before
}

func (p *Peer) unwatch(name string, w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.refs--; w.refs == 0 {
		delete(p.watches, name)
		if w.cancel != nil {
			w.cancel()
		}
	}
}

// look looks at a name until ctx ends.
func (p *Peer) look(ctx context.Context, name string, w *watch) {
	pause := min(max(p.cfg.TMax/50, 5*time.Millisecond), 250*time.Millisecond)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.kick:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		w.begun++
		n := w.begun
		p.mu.Unlock()
		s, err := p.glimpse(ctx, name)
		if ctx.Err() != nil {
			return // callers that still wait see that the peer has ended
		}
		p.mu.Lock()
		w.seen, w.state, w.err = n, s, err
		close(w.changed)
		w.changed = make(chan struct{})
		p.mu.Unlock()
		timer.Reset(pause)
	}
}

// glimpse looks once, through the peer's own Leaser.
func (p *Peer) glimpse(ctx context.Context, name string) (tenure.State, error) {
	in, err := p.watcher.calls.Call(ctx)
	if err != nil {
		return tenure.State{Name: name}, err
	}
	defer p.watcher.calls.Leave()
	return p.watcher.look(in, name)
}
