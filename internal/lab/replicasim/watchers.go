package replicasim

import (
	"context"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// hub is a member's part in watching: that of a node, which hears of each state that the
// member shows. It hands out its events before the world goes on, so that all follows
// from the seed, though there is a goroutine in it.
type hub struct {
	*watch.Hub
	turns     *watch.Stream // of no client: its requests make the hub go on at once
	published int64         // revision
}

// watchLimits are so small that watchers fall behind, and read the log in parts.
var watchLimits = watch.Config{MaxStreamEvents: 6, ChunkEvents: 3}

func newHub(v view) *hub {
	h := watch.NewHub(v.View, watchLimits)
	return &hub{h, h.NewStream(0), v.View.Revision()}
}

func (h *hub) onPublish(v view) {
	if h == nil {
		return
	}
	h.Publish(v.View)
	h.published = v.View.Revision()
	if err := h.turns.Progress(context.Background()); err != nil {
		panic(err)
	}
}

func (h *hub) close() {
	if h != nil {
		h.Close()
	}
}

// watcher is a client that watches some keys, at one member after the other: from now on, from
// its place elsewhere, or from behind the list that it has just read.
type watcher struct {
	c    *Cluster
	id   int
	span keyspan.Span
	next int64 // it has been told of all before that; 0: it is to begin anew
	stop bool

	m      *Member
	stream *watch.Stream // nil: it watches nowhere
	start  int64         // as asked for
}

// Watchers sets n clients to watch.
func (c *Cluster) Watchers(n int) {
	for range n {
		o := &watcher{c: c, id: len(c.watchers)}
		c.watchers = append(c.watchers, o)
		o.move()
	}
}

func (o *watcher) name() string {
	return fmt.Sprintf("watcher %d of %v", o.id, o.span)
}

// move goes to some member, soon.
func (o *watcher) move() {
	w := o.c.w
	o.stream = nil
	w.After(w.Between(0, 300*time.Millisecond), func() {
		if o.stop {
			return
		}
		m := o.c.anyMember()
		if m == nil || m.Paused() {
			o.move()
			return
		}
		switch {
		case o.next > 0 && w.Chance(0.8):
			o.begin(m, o.next)
		case w.Chance(0.3):
			o.draw()
			o.begin(m, 0)
		default:
			o.draw()
			o.look(m)
		}
	})
}

// draw draws keys to watch: all, the surveyors', the clients', or one.
func (o *watcher) draw() {
	key := func(s string) []byte { return []byte(s) }
	o.next = 0
	switch o.c.w.Rand.IntN(4) {
	case 0:
		o.span = keyspan.Span{Key: []byte{0}, End: []byte{0}} // as etcd writes it
	case 1:
		o.span = keyspan.Span{Key: key("m"), End: key("n")}
	case 2:
		o.span = keyspan.Span{Key: key("k"), End: key("l")}
	default:
		o.span = keyspan.Span{Key: surveyKey(o.c.w.Rand.IntN(surveyed))}
		if o.c.w.Chance(0.5) {
			o.span.Key = key(clientKey(o.c.w.Rand.IntN(clientKeys)))
		}
	}
}

// look reads the keys, then watches from behind the revision that it was told: at the
// same member or at another, which may be behind that.
func (o *watcher) look(m *Member) {
	w, over := o.c.w, false
	w.After(2*time.Second, func() {
		if !over {
			over = true
			o.move()
		}
	})
	m.readKeys(keyspan.Set{o.span}, func(v kv.View) {
		if over {
			return
		}
		over = true
		o.c.checks.listed(w, o, v)
		o.next = v.Revision() + 1
		if at := o.c.anyMember(); at != nil && !at.Paused() {
			m = at
		}
		o.begin(m, o.next)
	})
}

// begin watches at a member, from a revision on or from now on.
func (o *watcher) begin(m *Member, start int64) {
	if o.stop || !m.Up() || m.view().index == 0 {
		o.move()
		return
	}
	if m.hub == nil {
		m.hub = newHub(m.view())
	}
	o.m, o.start, o.stream = m, start, m.hub.NewStream(0)
	err := o.stream.Create(context.Background(), &pb.WatchCreateRequest{Key: o.span.Key, RangeEnd: o.span.End, StartRevision: start})
	if err != nil {
		panic(err)
	}
	r := o.receive()
	if !r.Created || r.Canceled {
		o.c.checks.fail(o.c.w, "%s was refused: %+v", o.name(), r)
		return
	}
	if start == 0 {
		o.next = r.Revision + 1
	}
	o.c.w.Count("watches", 1)
	m.After(o.c.w.Between(0, 100*time.Millisecond), o.listen)
	o.moveIfGone(m.Life(), o.stream)
}

// moveIfGone goes elsewhere when the member where it watches is not there any more.
func (o *watcher) moveIfGone(life int, at *watch.Stream) {
	o.c.w.After(200*time.Millisecond, func() {
		switch {
		case o.stream != at:
		case o.m.Life() != life:
			o.move()
		default:
			o.moveIfGone(life, at)
		}
	})
}

// receive takes the next response, which must be there.
func (o *watcher) receive() watch.Response {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := o.stream.Next(ctx)
	if err != nil {
		panic(fmt.Sprintf("%s hears nothing: %v", o.name(), err))
	}
	return r
}

// listen takes what there is, now and then, and asks up to where that is all.
func (o *watcher) listen() {
	w, m := o.c.w, o.m
	if o.stop {
		return
	}
	if !m.Paused() && m.view().Revision() >= o.start && !o.drain() {
		o.leave()
		return
	}
	if w.Chance(0.02) {
		o.leave()
		return
	}
	d := w.Between(0, 30*time.Millisecond)
	if w.Chance(0.1) { // so that it falls behind
		d = w.Between(0, 2*time.Second)
	}
	m.After(d, o.listen)
}

// leave goes elsewhere.
func (o *watcher) leave() {
	o.stream.Close()
	o.move()
}

// drain takes what there is; it returns false when the watch was ended.
func (o *watcher) drain() bool {
	w, k := o.c.w, &o.c.checks
	if err := o.stream.Progress(context.Background()); err != nil {
		panic(err)
	}
	for {
		r := o.receive()
		switch {
		case r.Canceled:
			if r.CompactRevision <= o.next {
				k.fail(w, "%s waits for revision %d and was ended at member %d by a compaction at %d", o.name(), o.next, o.m.ID, r.CompactRevision)
			}
			o.next = 0
			return false
		case len(r.Events) > 0:
			k.watched(w, o, r.Events)
		default:
			k.progressed(w, o, r.Revision)
			return true
		}
	}
}
