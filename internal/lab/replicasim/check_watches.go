package replicasim

import (
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// happened are the events of a revision that a watcher is to be told of.
func (k *checks) happened(o *watcher, rev int64) (list []shownEvent) {
	for _, e := range k.revisions.events[rev] {
		if o.span.Contains([]byte(e.key)) {
			list = append(list, e)
		}
	}
	return list
}

// watched judges events that a watcher was told of: each once, in the order of
// revisions, all of a revision together, and none left out.
func (k *checks) watched(w *sim.World, o *watcher, events []*watch.Event) {
	for len(events) > 0 {
		rev := events[0].KV.ModRevision
		var told []shownEvent
		for len(events) > 0 && events[0].KV.ModRevision == rev {
			told = append(told, shownEventOf(events[0].Event))
			events = events[1:]
		}
		if rev < o.next {
			k.fail(w, "%s was told of revision %d at member %d, behind what came before %d", o.name(), rev, o.m.ID, o.next)
			continue
		}
		k.missed(w, o, rev-1)
		if want := k.happened(o, rev); !slices.Equal(told, want) {
			k.fail(w, "%s was told of %v at revision %d at member %d, want %v", o.name(), told, rev, o.m.ID, want)
		}
		o.next = rev + 1
		w.Count("events watched", len(told))
	}
}

// missed wants that there is nothing up to a revision that a watcher was not told of.
func (k *checks) missed(w *sim.World, o *watcher, upTo int64) {
	for rev := o.next; rev <= upTo; rev++ {
		if list := k.happened(o, rev); len(list) > 0 {
			k.fail(w, "%s was not told of %v at revision %d, and is at %d at member %d", o.name(), list, rev, upTo, o.m.ID)
		}
	}
}

// progressed judges a report that a watcher has been told of all up to a revision, which is
// one that its member has published.
func (k *checks) progressed(w *sim.World, o *watcher, rev int64) {
	if now := o.m.hub.published; rev > now {
		k.fail(w, "%s was told of progress to revision %d at member %d, which has published %d", o.name(), rev, o.m.ID, now)
	}
	k.missed(w, o, rev)
	o.next = max(o.next, rev+1)
}

// listed judges the list that a watcher has read before it begins: the keys as they were at the
// revision behind which it will watch.
func (k *checks) listed(w *sim.World, o *watcher, v kv.View) {
	want := map[string]string{}
	for rev := int64(1); rev <= v.Revision(); rev++ {
		for _, e := range k.happened(o, rev) {
			if want[e.key] = fmt.Sprint(e.key, "@", rev); e.gone {
				delete(want, e.key)
			}
		}
	}
	resp, err := v.Range(&pb.RangeRequest{Key: o.span.Key, RangeEnd: o.span.End})
	if err != nil {
		panic(err)
	}
	for _, found := range resp.Kvs {
		if got := fmt.Sprint(string(found.Key), "@", found.ModRevision); got != want[string(found.Key)] {
			k.fail(w, "%s reads %s at revision %d, want %q", o.name(), got, v.Revision(), want[string(found.Key)])
		}
	}
	if len(resp.Kvs) != len(want) {
		k.fail(w, "%s reads %d keys at revision %d, want %d", o.name(), len(resp.Kvs), v.Revision(), len(want))
	}
}
