package fleaseworld

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/machine"
)

// records is the judge of records. A record that was acknowledged, or read, stays until a later one takes its place, as
// long as no majority of the members has forgotten at one moment; see "Records" of internal/holder/flease.
//
// Each record that is set has a number, in the order in which the calls begin. That is their order: only a holder of
// the lease sets one, and it sets one after the other.
type records struct {
	mu    sync.Mutex
	last  map[string]uint64 // the greatest number that was drawn, of each name
	known map[string]uint64 // the greatest that was acknowledged, or read
	age   int               // counts the moments at which a majority had forgotten
}

// draw returns the number of a record that is to be set.
func (j *records) draw(name string) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last == nil {
		j.last = map[string]uint64{}
	}
	j.last[name]++
	return j.last[name]
}

// before is what a call has to respect that begins now.
type before struct {
	number uint64
	age    int
}

func (j *records) of(name string) before {
	j.mu.Lock()
	defer j.mu.Unlock()
	return before{j.known[name], j.age}
}

// seen takes in a record that was acknowledged or read, unless a majority has forgotten since. It returns false if a record
// that was read is earlier than it may be, or was never set.
func (j *records) seen(name string, number uint64, since before) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if number > j.last[name] {
		return false
	}
	if since.age != j.age {
		return true
	}
	if j.known == nil {
		j.known = map[string]uint64{}
	}
	j.known[name] = max(j.known[name], number)
	return number >= since.number
}

// reckon is called when peers have ended or started, or the members have changed, and now and then: it judges nothing of before
// by what comes later if a majority has forgotten.
func (s *stage) reckon() {
	m, _ := s.members.current()
	lost := s.majorityForgot(m.Addrs)
	if len(m.Was) > 0 { // some may go by the list before still
		lost = lost || s.majorityForgot(m.Was)
	}
	if !lost {
		return
	}
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	if len(s.records.known) > 0 {
		s.w.Count("records forgotten", 1)
	}
	s.records.known, s.records.age = nil, s.records.age+1
}

func (s *stage) majorityForgot(members map[machine.NodeID]string) bool {
	forgot := 0
	for id := range members {
		if s.hosts[id-1].forgot() {
			forgot++
		}
	}
	return forgot > len(members)/2
}

// forgot reports whether the peer of the host misses records, or has none that it could start with.
func (h *host) forgot() bool {
	if p := h.now(); p != nil {
		st := p.Status()
		return st.Incomplete && !st.Unconfirmed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.left
}

// chronicle reads the record of a name whose exclusive lease is held, and sets it.
func (d *holder) chronicle(l tenure.Lease, r *rand.Rand) {
	s := d.s
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.tmax)
	defer cancel()
	err := d.recall(ctx, l.Name())
	if err == nil && r.IntN(3) == 0 {
		// The first of two is given up, sooner or later, and must not come behind the second.
		soon, cancel := context.WithTimeout(ctx, upTo(r, s.tmax/20))
		_ = d.record(soon, l)
		cancel()
		s.w.Count("two records of a tenure", 1)
	}
	if err == nil {
		err = d.record(ctx, l)
	}
	if err == nil && r.IntN(3) == 0 {
		err = d.recall(ctx, l.Name())
	}
	switch {
	case !d.isAlive() || err == nil:
	case s.isSteady() && !s.ended() && l.Check() == nil:
		s.w.Fail("liveness: %s holds %s, and its record: %v", d.name, l.Name(), err)
	default:
		d.heard("", err)
	}
}

// recall reads the record of a name.
func (d *holder) recall(ctx context.Context, name string) error {
	s := d.s
	since := s.records.of(name)
	raw, err := d.leaser.(tenure.Recorder).Record(ctx, name)
	d.p.Gate()
	if err != nil || !d.isAlive() {
		return errors.Join(err, context.Cause(ctx))
	}
	number, bad := strconv.ParseUint(string(raw), 10, 64)
	switch {
	case bad != nil && raw != nil:
		s.w.Fail("record: %s reads %q of %s, which nobody has set", d.name, raw, name)
	case !s.records.seen(name, number, since):
		s.w.Fail("record: %s reads number %d of %s, and number %d was acknowledged or read before", d.name, number, name, since.number)
	case number > 0:
		s.w.Count("records read", 1)
	}
	return nil
}

// record sets the record of a lease that is held.
func (d *holder) record(ctx context.Context, l tenure.Lease) error {
	s := d.s
	since, number := s.records.of(l.Name()), s.records.draw(l.Name())
	s.w.Trace.Add("%s sets record %d of %s, token %d", d.name, number, l.Name(), l.Token())
	err := d.leaser.(tenure.Recorder).SetRecord(ctx, l, fmt.Append(nil, number))
	d.p.Gate()
	if err == nil && d.isAlive() {
		s.w.Trace.Add("%s has set record %d of %s", d.name, number, l.Name())
		s.records.seen(l.Name(), number, since)
		s.w.Count("records", 1)
	}
	return err
}
