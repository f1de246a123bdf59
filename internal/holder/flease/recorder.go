package flease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
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
		r := p.readRound(ctx, name)
		if r.readable() {
			newest := r.newest(name)
			if newest.Token == 0 {
				return nil, nil
			}
			if _, err := p.spread(ctx, newest, r); err != nil {
				return nil, l.final(outer, "read the record of", name, err)
			}
			return append([]byte{}, newest.Data...), nil
		}
		if ctx.Err() == nil || last.members == 0 {
			last = r
		}
		if cut := wait(ctx, p.pure.RoundTimeout); cut != nil {
			return nil, l.final(outer, "read the record of", name, fmt.Errorf("%w: %w", cut, last.missing(p.self)))
		}
	}
}

func (p *Peer) readRound(ctx context.Context, name string) round {
	ctx, cancel := p.within(ctx)
	defer cancel()
	return p.round(ctx, recordQuestion{Name: name}, round.readable)
}

// SetRecord implements tenure.Recorder.
func (l *Leaser) SetRecord(ctx context.Context, held tenure.Lease, record []byte) error {
	x, ok := held.(*claim)
	if !ok || x.leaser != l {
		return holder.ErrForeign
	}
	return l.setRecord(ctx, x, x.nextRecord(), record)
}

// setRecord sets the record that has a number among those of a tenure.
func (l *Leaser) setRecord(ctx context.Context, x *claim, number uint64, record []byte) error {
	return holder.Record(ctx, l.calls, x, record, func(ctx context.Context) error {
		k := kept{Name: x.Name(), Token: x.Token(), Number: number, Data: append([]byte{}, record...)}
		err := l.peer.set(ctx, x, k)
		if err != nil && !errors.Is(err, tenure.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", tenure.ErrUnavailable, err)
		}
		return err
	})
}

// set has a majority keep a record of a tenure. A later tenure has a greater token, so that a record of an earlier
// one never takes the place of its record. A greater token that is met while the lease is held is from before
// clocks were set back.
func (p *Peer) set(ctx context.Context, x *claim, k kept) error {
	for {
		met, err := p.spread(ctx, k, round{})
		if err != nil || met.compare(k) <= 0 {
			return err
		}
		if met.Token == k.Token && met.Number >= k.Number {
			return nil // the same tenure has set a later one
		}
		if _, err := p.spread(ctx, met, round{}); err != nil {
			return err
		}
		if err := x.Check(); err != nil { // only now: see kept.over
			return err
		}
		k = k.over(met)
	}
}

// spread passes a record on until a majority has it at one moment, see "Records" in the package comment. It returns
// the newest record of the name that it has met.
func (p *Peer) spread(ctx context.Context, k kept, before round) (met kept, err error) {
	if err := context.Cause(ctx); err != nil { // a caller that has gone may have set another meanwhile
		return met, err
	}
	put := p.shelf.put
	if before.members > 0 { // others have shown it
		put = p.shelf.putHeard
	}
	if !put(k) {
		return met, errNoRoom
	}
	for {
		r := p.spreadRound(ctx, k, before)
		if n := r.holding(k, before); r.majority > 0 && n >= r.majority {
			return r.newest(k.Name), nil
		}
		if r.full(k) > r.members-r.majority {
			return met, errNoRoom
		}
		cut := ctx.Err()
		if r.holding(k, r) < r.majority { // the others are fetching it
			cut = wait(ctx, min(p.pure.RoundTimeout, 10*time.Millisecond))
		}
		if cut != nil {
			return met, fmt.Errorf("%d of %d peers have it and miss no other, and it takes %d: %w", r.holding(k, r), r.members, r.majority, cut)
		}
		before = r
	}
}

var errNoRoom = fmt.Errorf("%w: peers keep the records of %d names; all of them forget the names together, when all end and start without --state", ErrBusy, recordsMax)

func (p *Peer) spreadRound(ctx context.Context, k kept, before round) round {
	ctx, cancel := p.within(ctx)
	defer cancel()
	return p.round(ctx, recordQuestion{Name: k.Name, Take: p.self}, func(r round) bool {
		return r.holding(k, before) >= r.majority || r.holding(k, r) >= r.majority && before.epoch == 0
	})
}

// shown answers a question about records, at this peer.
func (p *Peer) shown(q recordQuestion) recordAnswer {
	m := p.Members()
	// A peer that votes under a list that it has not read yet goes by none: others may have left the older one.
	epoch := max(m.Epoch, p.activeEpoch.Load())
	a := recordAnswer{Keeper: p.pure.Incarnation, Self: p.self, Cluster: p.cfg.Cluster, Epoch: epoch, List: p.list(m)}
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
	ctx, cancel := p.within(p.ctx)
	defer cancel()
	if a, err := p.ask(ctx, m, from, recordQuestion{Name: name}); err == nil {
		if k := a.of(name); k.Token != 0 {
			p.shelf.put(k)
		}
	}
}
