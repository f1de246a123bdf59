package flease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

var _ tenure.Recorder = (*Leaser)(nil)

// Record implements tenure.Recorder: a majority of the members that miss nothing shows its newest, which is
// then passed on until a majority has it. It waits for them until ctx ends.
func (l *Leaser) Record(outer context.Context, name string) ([]byte, error) {
	if err := tenure.CheckName(name); err != nil {
		return nil, err
	}
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	p := l.peer
	var last round // that ctx has not cut short
	for {
		r := p.round(ctx, p.recordLimit(), recordQuestion{Name: name}, func(r round) bool { return r.whole() >= r.majority })
		if r.whole() >= r.majority {
			newest := r.newest(name)
			if newest.Token == 0 {
				return nil, nil
			}
			err = p.spread(ctx, newest, r)
			return append([]byte{}, newest.Data...), l.final(outer, "read the record of", name, err)
		}
		if ctx.Err() == nil || last.members == 0 {
			last = r
		}
		if cut := wait(ctx, p.pure.RoundTimeout); cut != nil {
			return nil, l.final(outer, "read the record of", name, fmt.Errorf("%w: %w", cut, last.missing(p.self)))
		}
	}
}

// SetRecord implements tenure.Recorder. A later tenure has a greater token, so that a record of an earlier
// one never takes the place of its record.
func (l *Leaser) SetRecord(ctx context.Context, held tenure.Lease, record []byte) error {
	x, ok := held.(*claim)
	if !ok || x.leaser != l {
		return holder.ErrForeign
	}
	return holder.Record(ctx, l.calls, x, record, func(ctx context.Context) error {
		x.mu.Lock()
		x.records++
		k := kept{Name: x.Name(), Token: x.Token(), Number: x.records, Data: append([]byte{}, record...)}
		x.mu.Unlock()
		err := l.peer.spread(ctx, k, round{})
		if err != nil && !errors.Is(err, tenure.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", tenure.ErrUnavailable, err)
		}
		return err
	})
}

// round is what members have answered to one question about records.
type round struct {
	epoch    uint64
	members  int
	majority int
	answers  map[machine.NodeID]recordAnswer
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
// without a restart in between. When the second begins, all of them have it at once.
func (r round) holding(k kept, before round) (n int) {
	if r.epoch != before.epoch {
		return 0
	}
	for id, a := range r.answers {
		b, known := before.answers[id]
		if known && a.Keeper == b.Keeper && a.of(k.Name).compare(k) >= 0 && b.of(k.Name).compare(k) >= 0 {
			n++
		}
	}
	return n
}

// missing says which members keep a record from being read.
func (r round) missing(self machine.NodeID) error {
	err := fmt.Errorf("%d of %d peers miss no record, and it takes %d", r.whole(), r.members, r.majority)
	if a, here := r.answers[self]; here && !a.Whole {
		err = fmt.Errorf("%w; this one has restarted and has not heard the records of the others yet", err)
	}
	return err
}

// recordLimit is how long a member may take to show a record: some round trips.
func (p *Peer) recordLimit() time.Duration { return 4 * p.pure.RoundTimeout }

// errOtherEpoch has a member not count while the list changes.
var errOtherEpoch = errors.New("it has another list of members")

// round asks all members, itself too, until enough have answered or the time for it is over.
func (p *Peer) round(ctx context.Context, limit time.Duration, q recordQuestion, enough func(round) bool) round {
	m := p.Members()
	r := round{
		epoch: m.Epoch, members: len(m.Addrs), majority: len(m.Addrs)/2 + 1,
		answers: map[machine.NodeID]recordAnswer{},
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, holder.ErrPatience)
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
		if got.err == nil {
			r.answers[got.id] = got.a
		}
		if enough(r) {
			return r
		}
	}
	return r
}

// ask asks one member, page by page if it is for all records.
func (p *Peer) ask(ctx context.Context, m Members, id machine.NodeID, q recordQuestion) (all recordAnswer, err error) {
	for first := true; ; first = false {
		var a recordAnswer
		if id == p.self {
			a = p.shown(q)
		} else {
			say, err := json.Marshal(inquiry{Record: &q})
			if err != nil {
				return all, err
			}
			said, err := peer.Ask(ctx, m.Addrs[id], p.cfg.TLS, p.cfg.Dial, say)
			if err != nil {
				return all, offline(err)
			}
			if err := json.Unmarshal(said, &a); err != nil {
				return all, err
			}
		}
		switch {
		case a.Keeper == 0:
			return all, errors.New("it ends, or is of a version that keeps no records")
		case a.Epoch != m.Epoch:
			return all, errOtherEpoch
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

// spread passes a record on until a majority has it at one moment, see "Records" in the package comment.
func (p *Peer) spread(ctx context.Context, k kept, before round) error {
	if !p.shelf.put(k) {
		return fmt.Errorf("%w: peers keep the records of %d names", ErrBusy, recordsMax)
	}
	for {
		r := p.round(ctx, p.recordLimit(), recordQuestion{Name: k.Name, Take: p.self}, func(r round) bool {
			return r.holding(k, before) >= r.majority || r.holding(k, r) >= r.majority && before.epoch == 0
		})
		if n := r.holding(k, before); r.majority > 0 && n >= r.majority {
			return nil
		}
		cut := ctx.Err()
		if r.holding(k, r) < r.majority { // the others are fetching it
			cut = wait(ctx, min(p.pure.RoundTimeout, 10*time.Millisecond))
		}
		if cut != nil {
			return fmt.Errorf("%d of %d peers have it, and it takes %d: %w", r.holding(k, r), r.members, r.majority, cut)
		}
		before = r
	}
}

// shown answers a question about records, at this peer.
func (p *Peer) shown(q recordQuestion) recordAnswer {
	a := recordAnswer{Keeper: p.pure.Incarnation, Epoch: p.Members().Epoch}
	if !p.shelf.show(q, &a) {
		return recordAnswer{}
	}
	if q.Name != "" && q.Take != 0 && q.Take != p.self && p.shelf.fetching(q.Name) {
		p.spawn(func() {
			defer p.shelf.fetched(q.Name)
			p.fetch(q.Name, q.Take)
		})
	}
	return a
}

// fetch takes a record over from a member. It dials the member itself: that there is one to fetch may
// have been anybody's word.
func (p *Peer) fetch(name string, from machine.NodeID) {
	m := p.Members()
	if _, member := m.Addrs[from]; !member {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.recordLimit())
	defer cancel()
	if a, err := p.ask(ctx, m, from, recordQuestion{Name: name}); err == nil {
		if k := a.of(name); k.Token != 0 {
			p.shelf.put(k)
		}
	}
}

// recollect has a peer that has started hear the records of the others, until none is missing that it has
// acknowledged in an earlier life.
func (p *Peer) recollect() {
	for p.ctx.Err() == nil {
		if _, whole := p.shelf.size(); whole {
			return
		}
		first := p.gather()
		switch blank := len(first.answers) - first.whole(); {
		case first.sufficient():
			p.shelf.complete()
		case blank >= first.majority && p.gather().blank(first) >= first.majority:
			// A majority had forgotten the records at one moment, and nothing brings them back. The
			// cluster may as well be new.
			p.shelf.complete()
		default:
			_ = wait(p.ctx, p.pure.RoundTimeout)
		}
	}
}

// gather asks all members for all of their records, and keeps what they show.
func (p *Peer) gather() round {
	r := p.round(p.ctx, gatherLimit, recordQuestion{}, round.sufficient)
	for id, a := range r.answers {
		for _, k := range a.Records {
			if !p.shelf.put(k) {
				delete(r.answers, id)
			}
		}
	}
	return r
}

// gatherLimit is how long a member may take to show all records, of which there may be megabytes.
const gatherLimit = 10 * time.Second

// sufficient reports whether so many members have shown all records that one of them has each record that
// a majority had: fewer are without it.
func (r round) sufficient() bool { return r.whole() > r.members-r.majority }

// blank counts the members that missed records in this round and in the one before, without a restart
// in between.
func (r round) blank(before round) (n int) {
	for id, a := range r.answers {
		if b, known := before.answers[id]; known && r.epoch == before.epoch && a.Keeper == b.Keeper && !a.Whole && !b.Whole {
			n++
		}
	}
	return n
}
