package kv

import (
	"github.com/tidwall/btree"
)

// MaxLeaseTTL is the longest time-to-live of a lease, in seconds.
const MaxLeaseTTL = 9_000_000_000

// LeaseInfo describes a lease.
type LeaseInfo struct {
	ID int64
	// TTL is the time-to-live that was granted, in seconds.
	TTL int64
	// Remaining is what was left of it at the last checkpoint, in milliseconds;
	// 0: all of it.
	Remaining int64
}

// lease is one entry of the table. Views share it; it may be changed in place only
// while no View has seen it, see own.
type lease struct {
	info  LeaseInfo
	epoch uint64 // of the Store when it was made or copied
	keys  keySet
}

// leaseTree holds leases by id.
type leaseTree = btree.Map[int64, *lease]

// Grant adds a lease. The caller chooses the id; zero stands for no lease and is
// refused with [ErrLeaseNotFound], as etcd does. A ttl below one second is raised
// to one; a server's own minimum is its own affair. Other errors are
// [ErrLeaseTTLTooLarge] and [ErrLeaseExists].
func (s *Store) Grant(id, ttl int64) error {
	if id == 0 {
		return ErrLeaseNotFound
	}
	if ttl > MaxLeaseTTL {
		return ErrLeaseTTLTooLarge
	}
	if _, ok := s.leases.Get(id); ok {
		return ErrLeaseExists
	}
	s.leases.Set(id, &lease{info: LeaseInfo{ID: id, TTL: max(ttl, 1)}, epoch: s.epoch})
	s.leaseMoved = true
	s.stats.addLease()
	if s.Counts != nil {
		s.Counts.Granted.Add(1)
		s.Counts.TTLs.add(max(ttl, 1))
	}
	return nil
}

// Revoke removes a lease and deletes all its keys, in order, in one revision;
// without keys there is no revision. A lease that has expired ends in the same
// way. It returns [ErrLeaseNotFound].
func (s *Store) Revoke(id int64) error {
	l, ok := s.leases.Get(id)
	if !ok {
		return ErrLeaseNotFound
	}
	s.stats.Bytes -= l.keys.bytes()
	// Off the table first, so that delete finds no lease to detach from.
	s.leases.Delete(id)
	s.leaseMoved = true
	s.stats.removeLease()
	l.keys.scan(func(it *item) bool {
		s.delete(it, it.live())
		s.tally.deletes++
		return true
	})
	s.commit()
	if s.Counts != nil {
		s.Counts.Revoked.Add(1)
	}
	return nil
}

// Checkpoint records what remains of a lease's time, in milliseconds; zero (or less)
// forgets the record, so that the lease has all its time. It returns
// [ErrLeaseNotFound].
func (s *Store) Checkpoint(id, remaining int64) error {
	l, ok := s.own(id)
	if !ok {
		return ErrLeaseNotFound
	}
	l.info.Remaining = max(remaining, 0)
	return nil
}

// own gives a lease that may be changed in place, which is a copy if a View has
// seen the one in the table.
func (s *Store) own(id int64) (*lease, bool) {
	l, ok := s.leases.Get(id)
	if !ok {
		return nil, false
	}
	s.leaseMoved = true
	if l.epoch != s.epoch {
		l = &lease{info: l.info, epoch: s.epoch, keys: l.keys.copy()}
		s.leases.Set(id, l)
	}
	return l, true
}

// attach ties a live key to a lease; id 0 is none.
func (s *Store) attach(id int64, it *item) {
	if id == 0 {
		return
	}
	if l, ok := s.own(id); ok {
		before := l.keys.bytes()
		l.keys.add(it)
		s.stats.Bytes += l.keys.bytes() - before
	}
}

// detach unties a key from a lease; id 0 is none, and a lease that is being
// revoked is no longer there.
func (s *Store) detach(id int64, it *item) {
	if id == 0 {
		return
	}
	if l, ok := s.own(id); ok {
		before := l.keys.bytes()
		l.keys.remove(it)
		s.stats.Bytes += l.keys.bytes() - before
	}
}
