package fleaseworld

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/tenure-lease/tenure"
)

// records is the judge of records. A record that was acknowledged stays as long as no majority of the members
// has forgotten at one moment; see "Records" of internal/holder/flease.
type records struct {
	mu    sync.Mutex
	known map[string]uint64 // greatest token whose record was acknowledged
	age   int               // counts the moments at which a majority had forgotten
}

func (j *records) of(name string) (token uint64, age int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.known[name], j.age
}

// acknowledged takes in a record, unless a majority has forgotten meanwhile.
func (j *records) acknowledged(name string, token uint64, age int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if age == j.age {
		j.known[name] = max(j.known[name], token)
	}
}

// reckon is called when peers have ended or started, or the members have changed: it judges nothing of before
// by what comes later if a majority has forgotten.
func (s *stage) reckon() {
	m, _ := s.members.current()
	forgot := 0
	for id := range m.Addrs {
		if h := s.hosts[id-1]; h.forgot() {
			forgot++
		}
	}
	if forgot <= len(m.Addrs)/2 {
		return
	}
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	if len(s.records.known) > 0 {
		s.w.Count("records forgotten", 1)
	}
	s.records.known, s.records.age = map[string]uint64{}, s.records.age+1
}

// forgot reports whether the peer of the host misses records, or has none that it could start with.
func (h *host) forgot() bool {
	if p := h.now(); p != nil {
		return p.Status().Incomplete
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.left
}

// chronicle reads the record of a name whose exclusive lease is held, and sets it to the token.
func (d *holder) chronicle(l tenure.Lease, late bool) {
	s, r := d.s, d.leaser.(tenure.Recorder)
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.tmax)
	defer cancel()
	known, age := s.records.of(l.Name())
	raw, err := r.Record(ctx, l.Name())
	d.p.Gate()
	if !d.isAlive() {
		return
	}
	_, then := s.records.of(l.Name())
	if err == nil {
		token, bad := strconv.ParseUint(string(raw), 10, 64)
		switch {
		case bad != nil && raw != nil:
			s.w.Fail("record: %s reads %q of %s, which nobody has set", d.name, raw, l.Name())
		case token < known && then == age:
			s.w.Fail("record: %s reads that of token %d of %s, and that of token %d was acknowledged before", d.name, token, l.Name(), known)
		case token > l.Token() && !late && l.Check() == nil:
			s.w.Fail("record: %s holds %s with token %d, and reads the record of token %d", d.name, l.Name(), l.Token(), token)
		case token > 0:
			s.w.Count("records read", 1)
		}
		_, age = s.records.of(l.Name())
		err = r.SetRecord(ctx, l, fmt.Append(nil, l.Token()))
		d.p.Gate()
	}
	switch {
	case !d.isAlive():
	case err == nil:
		s.records.acknowledged(l.Name(), l.Token(), age)
		s.w.Count("records", 1)
	case s.isSteady() && !s.ended() && l.Check() == nil:
		s.w.Fail("liveness: %s holds %s, and its record: %v", d.name, l.Name(), err)
	default:
		d.heard("", err)
	}
}
