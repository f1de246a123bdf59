package etcdapi

import (
	"context"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/member/watch"
)

// lines are the names for which calls wait at this member, with the waiting calls. One
// watch follows the contenders of a name for all of them: were each to look for the
// contender before its own, thousands would read thousands of keys each.
type lines struct {
	server *Server

	mu     sync.Mutex
	byName map[string]*line
}

// A line is the contenders of one name, the oldest first, as seen at a revision.
type line struct {
	server *Server
	name   []byte
	end    context.CancelFunc

	// Guarded by the mutex of lines.
	places map[*place]struct{}

	mu         sync.Mutex
	at         int64 // what follows includes all up to this revision; 0: nothing is known yet
	err        error // it cannot go on
	contenders []contenderKey
	created    map[string]int64 // of the living ones, by key
	waiting    map[string][]*place
}

type contenderKey struct {
	key     string
	created int64
}

// A place is one call that waits until a key, created at a revision, is the oldest.
type place struct {
	key     string
	created int64
	turn    chan turn // buffered: told once
}

type turn struct {
	revision int64
	gone     bool // the key is not there any more
	err      error
}

// wait returns when a key is the oldest of its name, and at which revision, or that it is
// gone. The caller has seen the key's creation published.
func (ls *lines) wait(ctx context.Context, name, key []byte, created int64) (turn, error) {
	p := &place{key: string(key), created: created, turn: make(chan turn, 1)}
	l := ls.join(name, p)
	defer ls.leave(l, p)
	select {
	case t := <-p.turn:
		return t, t.err
	case <-ctx.Done():
		return turn{}, context.Cause(ctx)
	}
}

// has reports whether calls wait for a name.
func (ls *lines) has(name []byte) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byName[string(name)] != nil
}

func (ls *lines) join(name []byte, p *place) *line {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byName[string(name)]
	if l == nil {
		ctx, cancel := context.WithCancel(context.Background())
		l = &line{server: ls.server, name: name, end: cancel, places: make(map[*place]struct{}), waiting: make(map[string][]*place)}
		if ls.byName == nil {
			ls.byName = make(map[string]*line)
		}
		ls.byName[string(name)] = l
		go l.run(ctx)
	}
	l.places[p] = struct{}{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[p.key] = append(l.waiting[p.key], p)
	l.judge(p)
	l.callOldest()
	return l
}

func (ls *lines) leave(l *line, p *place) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.mu.Lock()
	l.forget(p)
	l.mu.Unlock()
	if delete(l.places, p); len(l.places) == 0 {
		delete(ls.byName, string(l.name))
		l.end()
	}
}

// run follows the contenders until nobody waits any more, or the watches end.
func (l *line) run(ctx context.Context) {
	for {
		err := l.follow(ctx)
		if err == nil {
			continue // the watch was behind a compaction: begin anew
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = err
		for _, places := range l.waiting {
			for _, p := range places {
				p.tell(turn{err: err})
			}
		}
		return
	}
}

// follow reads the contenders and then their events. It returns nil if that has to begin anew.
func (l *line) follow(ctx context.Context) error {
	key, end := contenders(l.name)
	kvs, revision, err := l.server.lookup(caller.Member(ctx), &pb.RangeRequest{
		Key: key, RangeEnd: end, KeysOnly: true, SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_ASCEND,
	})
	if err != nil {
		return err
	}
	ws := l.server.backend.Watches().NewStream(0)
	defer ws.Close()
	if err := ws.Create(ctx, &pb.WatchCreateRequest{Key: key, RangeEnd: end, StartRevision: revision + 1}); err != nil {
		return err
	}
	l.begin(kvs, revision)
	for {
		r, err := ws.Next(ctx)
		if err != nil {
			return err
		}
		if r.Canceled {
			return nil
		}
		if len(r.Events) > 0 {
			l.apply(r.Events)
		}
	}
}

// begin takes the contenders as they are at a revision.
func (l *line) begin(kvs []*mvccpb.KeyValue, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.contenders, l.created = revision, nil, make(map[string]int64, len(kvs))
	for _, kv := range kvs {
		l.add(string(kv.Key), kv.CreateRevision)
	}
	for _, places := range l.waiting {
		for _, p := range places {
			l.judge(p)
		}
	}
	l.callOldest()
}

// add takes a contender that came after all others. Of contenders that the same transaction
// made, all members put the lesser key first.
func (l *line) add(key string, created int64) {
	if len(l.contenders) > 2*len(l.created)+64 {
		l.contenders = slices.DeleteFunc(l.contenders, func(c contenderKey) bool { return l.created[c.key] != c.created })
	}
	at := len(l.contenders)
	for at > 0 && l.contenders[at-1].created == created && l.contenders[at-1].key > key {
		at--
	}
	l.contenders = slices.Insert(l.contenders, at, contenderKey{key, created})
	l.created[key] = created
}

// apply takes the events of some revisions.
func (l *line) apply(events []*watch.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		key := string(e.KV.Key)
		if e.Type == mvccpb.Event_PUT {
			if e.IsCreate() {
				l.add(key, e.KV.CreateRevision)
			}
			continue
		}
		delete(l.created, key)
	}
	l.at = events[len(events)-1].KV.ModRevision
	// After all of them: a key that one revision deletes and puts anew was never without a
	// holder.
	for _, e := range events {
		for _, p := range l.waiting[string(e.KV.Key)] {
			l.judge(p)
		}
	}
	l.callOldest()
}

// judge tells a place that its key is gone, if that is known.
func (l *line) judge(p *place) {
	switch {
	case l.err != nil:
		p.tell(turn{err: l.err})
	case l.at >= p.created && l.created[p.key] != p.created:
		p.tell(turn{gone: true})
	}
}

// callOldest wakes the calls that wait for the oldest contender.
func (l *line) callOldest() {
	for len(l.contenders) > 0 {
		oldest := l.contenders[0]
		if l.created[oldest.key] == oldest.created {
			for _, p := range l.waiting[oldest.key] {
				if p.created == oldest.created {
					p.tell(turn{revision: l.at})
				}
			}
			return
		}
		l.contenders = l.contenders[1:]
	}
}

// forget removes a place. The caller holds l.mu.
func (l *line) forget(p *place) {
	rest := l.waiting[p.key]
	for i, q := range rest {
		if q == p {
			rest = append(rest[:i:i], rest[i+1:]...)
			break
		}
	}
	if l.waiting[p.key] = rest; len(rest) == 0 {
		delete(l.waiting, p.key)
	}
}

func (p *place) tell(t turn) {
	select {
	case p.turn <- t:
	default: // it was told
	}
}
