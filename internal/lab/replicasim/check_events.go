package replicasim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/state/kv"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// revisions are the members' publications, by revision: every member must show the same events,
// in the same order, in every life.
type revisions struct {
	events map[int64][]shownEvent
	last   int64
	seen   map[uint64]int64 // by member: up to where it was looked at
	puts   map[string]int   // how often each value was put

	// Of the surveyors' keys: the revisions that put some, their values from then on, and at
	// which revision each value was put.
	landed []int64
	lands  map[int64]land
	shown  map[int64]time.Duration
	of     map[string]int64
}

func newRevisions() revisions {
	return revisions{events: map[int64][]shownEvent{}, seen: map[uint64]int64{}, puts: map[string]int{}, lands: map[int64]land{}, shown: map[int64]time.Duration{}, of: map[string]int64{}}
}

// shownEvent is an event in the form in which it is compared.
type shownEvent struct {
	key, what string
	gone      bool // the key is not there any more
}

func shownEventOf(e kv.Event) shownEvent {
	return shownEvent{
		key:  string(e.KV.Key),
		what: fmt.Sprintf("%v %s=%s v%d c%d l%d", e.Type, e.KV.Key, e.KV.Value, e.KV.Version, e.KV.CreateRevision, e.KV.Lease),
		gone: e.Type == mvccpb.DELETE,
	}
}

func (e shownEvent) String() string { return e.what }

// watchEvents looks at a member's publications since the last look.
func (k *checks) watchEvents(w *sim.World, m *Member) {
	r := &k.revisions
	view := m.state.Store().View()
	from := max(r.seen[uint64(m.ID)]+1, view.CompactRevision(), 1)
	if view.Revision() < from {
		return
	}
	events, err := view.Events(from)
	if err != nil {
		k.fail(w, "events: member %d at revision %d, from %d: %v", m.ID, view.Revision(), from, err)
		return
	}
	shown := map[int64][]shownEvent{}
	last := int64(0)
	for e := range events {
		rev := e.KV.ModRevision
		if rev < last {
			k.fail(w, "events: member %d shows revision %d after %d", m.ID, rev, last)
		}
		last = rev
		shown[rev] = append(shown[rev], shownEventOf(e))
	}
	for rev := from; rev <= view.Revision(); rev++ {
		if rev > r.last {
			r.last = rev
			r.events[rev] = shown[rev]
			k.countPuts(w, view, rev)
		} else if got, want := fmt.Sprint(shown[rev]), fmt.Sprint(r.events[rev]); got != want {
			k.fail(w, "events: member %d shows %s at revision %d, another showed %s", m.ID, got, rev, want)
		}
	}
	r.seen[uint64(m.ID)] = view.Revision()
}

// countPuts counts the puts of a new revision. Clients never write one value
// twice.
func (k *checks) countPuts(w *sim.World, view kv.View, rev int64) {
	events, err := view.Events(rev)
	if err != nil {
		return
	}
	for e := range events {
		if e.KV.ModRevision == rev && len(e.KV.Value) > 0 {
			k.revisions.puts[string(e.KV.Value)]++
			k.revisions.noteSurveys(w.Now(), rev, string(e.KV.Key), string(e.KV.Value))
		}
	}
}

// once judges whether every write took effect as often as its client was told.
func (k *checks) once(w *sim.World) {
	for _, h := range k.history {
		o, out := h.Input.(op), h.Output.(outcome)
		if o.kind == 'r' {
			continue
		}
		n := k.revisions.puts[o.new]
		switch {
		case n > 1:
			k.fail(w, "%s of %s took effect %d times", o.key, o.new, n)
		case n == 0 && out.known && (o.kind == 'w' || out.value == "true"):
			k.fail(w, "%s of %s was acknowledged and is lost", o.key, o.new)
		case n == 1 && out.known && out.value == "false":
			k.fail(w, "%s of %s took effect and its client was told otherwise", o.key, o.new)
		}
	}
	for _, value := range k.void {
		if k.revisions.puts[value] > 0 {
			k.fail(w, "%s took effect, but its client was told that it never will", value)
		}
	}
}
