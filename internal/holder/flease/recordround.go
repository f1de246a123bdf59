package flease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// round is what members have answered to one question about records.
type round struct {
	epoch    uint64
	members  int
	majority int
	before   map[machine.NodeID]string // the members of the list before, if they are known
	staying  int                       // how many of them are members still
	answers  map[machine.NodeID]recordAnswer
	outdated bool // there is a newer list
	passed   bool // nobody here knows the list before, and there was one
}

// whole counts the members that miss no record.
func (r round) whole() (n int) {
	for _, a := range r.answers {
		if a.Whole {
			n++
		}
	}
	return n
}

// newest is the newest record of a name.
func (r round) newest(name string) (newest kept) {
	for _, a := range r.answers {
		if k := a.of(name); k.compare(newest) > 0 {
			newest = k
		}
	}
	return newest
}

// holding counts the members that had the record, or a newer one, in this round and in the one before,
// and missed no others, without a restart in between. When the second begins, all of them have it at once.
func (r round) holding(k kept, before round) (n int) {
	if r.epoch != before.epoch {
		return 0
	}
	has := func(a recordAnswer) bool { return a.Whole && a.of(k.Name).compare(k) >= 0 }
	for id, a := range r.answers {
		if b, known := before.answers[id]; known && a.Keeper == b.Keeper && has(a) && has(b) {
			n++
		}
	}
	return n
}

// full counts the members that have no room for the record.
func (r round) full(k kept) (n int) {
	for _, a := range r.answers {
		if a.Full && a.of(k.Name).Token == 0 {
			n++
		}
	}
	return n
}

// readable reports whether the newest record of the answers is the newest that was set: a majority misses none.
func (r round) readable() bool { return r.whole() >= r.majority }

// sufficient reports whether so many members have shown all records that one of them has each record that
// a majority had: fewer are without it.
func (r round) sufficient() bool { return r.whole() > r.members-r.majority }

// blank returns the members that missed records in this round and in the one before, with their lives, without
// a restart in between.
func (r round) blank(before round) map[machine.NodeID]uint32 {
	blank := map[machine.NodeID]uint32{}
	for id, a := range r.answers {
		if b, known := before.answers[id]; known && r.epoch == before.epoch && a.Keeper == b.Keeper && a.blank() && b.blank() {
			blank[id] = a.Keeper
		}
	}
	return blank
}

// moved reports whether so many members of the list before go by this one that no majority goes by that one.
// Of those that have left nobody asks.
func (r round) moved() bool {
	if r.outdated || r.passed {
		return false
	}
	here := 0
	for id := range r.answers {
		if _, was := r.before[id]; was {
			here++
		}
	}
	majority := len(r.before)/2 + 1
	return here >= min(len(r.before)-majority+1, r.staying)
}

// missing says which members keep a record from being read.
func (r round) missing(self machine.NodeID) error {
	err := fmt.Errorf("%d of %d peers miss no record, and it takes %d", r.whole(), r.members, r.majority)
	switch a, here := r.answers[self]; {
	case !here || a.Whole:
	case a.Full:
		err = fmt.Errorf("%w; this one has restarted, and has no room for the records of others: it keeps those of %d names", err, heardMax)
	default:
		err = fmt.Errorf("%w; this one has restarted and has not heard the records of the others yet", err)
	}
	return err
}

// recordLimit is how long a member may take to show a record: some round trips.
func (p *Peer) recordLimit() time.Duration { return 4 * p.pure.RoundTimeout }

// errOtherEpoch has a member not count while the list changes.
var errOtherEpoch = errors.New("it has another list of members")

// round asks all members, itself too, until enough have answered or the time for it is over.
func (p *Peer) round(ctx context.Context, q recordQuestion, enough func(round) bool) round {
	p.mu.Lock()
	m, before, passed := p.members, p.before, p.passed
	p.mu.Unlock()
	r := round{
		epoch: m.Epoch, members: len(m.Addrs), majority: len(m.Addrs)/2 + 1, before: before, passed: passed,
		answers: map[machine.NodeID]recordAnswer{},
	}
	for id := range before {
		if _, stays := m.Addrs[id]; stays {
			r.staying++
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		id  machine.NodeID
		a   recordAnswer
		err error
	}
	answers := make(chan answer, len(m.Addrs))
	for id := range m.Addrs {
		p.spawn(func() {
			a, err := p.ask(ctx, m, id, q)
			answers <- answer{id, a, err}
		})
	}
	for range m.Addrs {
		var got answer
		select {
		case got = <-answers:
		case <-ctx.Done():
			return r
		case <-p.ctx.Done():
			return r
		}
		switch {
		case got.err == nil:
			r.answers[got.id] = got.a
		case errors.Is(got.err, errOtherEpoch) && got.a.Epoch > r.epoch:
			r.outdated = true
		}
		if enough(r) {
			return r
		}
	}
	return r
}

// within bounds a round about one record.
func (p *Peer) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.recordLimit(), holder.ErrPatience)
}

// ask asks one member, page by page if it is for all records.
func (p *Peer) ask(ctx context.Context, m Members, id machine.NodeID, q recordQuestion) (all recordAnswer, err error) {
	for first := true; ; first = false {
		a, err := p.recordPage(ctx, m, id, q)
		for try := 0; err != nil && !first && try < pageTries && ctx.Err() == nil; try++ {
			a, err = p.recordPage(ctx, m, id, q)
		}
		switch {
		case err != nil:
			return a, err
		case !first && a.Keeper != all.Keeper:
			return all, errors.New("it has restarted meanwhile")
		}
		if first {
			all = a
		} else { // a page that it has shown while it missed records may lack some
			all.Whole, all.Records = all.Whole && a.Whole, append(all.Records, a.Records...)
		}
		if !a.More {
			return all, nil
		}
		if len(a.Records) == 0 || a.Records[len(a.Records)-1].Name <= q.After {
			return all, errors.New("it says that there is more and shows nothing new")
		}
		q.After = a.Records[len(a.Records)-1].Name
	}
}

// pageTries is how often a page that got lost is asked for again, so that a slow network does not have a member
// begin from the first page for ever.
const pageTries = 3

// recordPage asks a member for one page. The error says why it does not count; it wraps errOtherEpoch if it is
// a member under another list.
func (p *Peer) recordPage(ctx context.Context, m Members, id machine.NodeID, q recordQuestion) (a recordAnswer, err error) {
	if id == p.self {
		a = p.shown(q)
	} else {
		say, err := json.Marshal(inquiry{Record: &q})
		if err != nil {
			return a, err
		}
		said, err := peer.Ask(ctx, m.Addrs[id], p.cfg.TLS, p.cfg.Dial, say)
		if err != nil {
			return a, offline(err)
		}
		if err := json.Unmarshal(said, &a); err != nil {
			return a, err
		}
	}
	if err := a.check(id, p.cfg.Cluster, m.Epoch, p.list(m)); err != nil {
		return a, err
	}
	if id != p.self {
		p.shelf.heard(id, a.Keeper)
		p.shelf.lived(a.Lives, p.pure.Incarnation)
	}
	return a, nil
}

// check returns why an answer does not count that should be a member's, of a cluster with a list of members. An address
// may lead to another peer.
func (a recordAnswer) check(id machine.NodeID, cluster string, epoch, list uint64) error {
	switch {
	case a.Keeper == 0:
		return errors.New("it ends, or is of a version that keeps no records")
	case a.Self != id || a.Cluster != cluster:
		return errors.New("it is another peer, or of another cluster")
	case a.Epoch != epoch:
		return errOtherEpoch
	case a.List != list:
		return errors.New("it has other members in its list")
	}
	return nil
}

// list is a digest of a list of members in one cluster.
func (p *Peer) list(m Members) uint64 {
	var w wire.Writer
	w.Bytes([]byte(p.cfg.Cluster))
	w.Uint64(m.Epoch)
	w.Uint64(m.view(p.cfg.Replicas).Places)
	h := fnv.New64a()
	_, _ = h.Write(w)
	return h.Sum64()
}
