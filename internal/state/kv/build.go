package kv

import (
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Content is a state as the file of another program tells it.
type Content struct {
	Revision int64 // the newest; 1 at least
	Compact  int64 // the oldest that can be read; -1: all of them
	// Raised says that nothing happened at the compact revision: it was chosen so that it is greater than any
	// that a client may have seen.
	Raised bool
	// Base has the key-values that are visible at the compact revision and older than it, in order of
	// keys.
	Base iter.Seq[*mvccpb.KeyValue]
	// Events has the changes from the compact revision on, in order. One of Version 0 is a deletion.
	Events iter.Seq[*mvccpb.KeyValue]
	// Leases are in order of id.
	Leases iter.Seq[LeaseInfo]
}

// Build makes a Store of a content, whose key-values it keeps. It returns an error for one that no course
// of requests leads to: each change must follow from the one before.
func Build(c Content) (*Store, error) {
	s := New()
	if err := s.begin(c.Revision, c.Compact); err != nil {
		return nil, err
	}
	if c.Raised {
		if c.Compact < 2 {
			return nil, corrupt("impossible revision")
		}
		s.raised = c.Compact
	}
	var last []byte
	for kv := range c.Base {
		v := newVersion(kv)
		if err := s.replay(recordBase, v, last); err != nil {
			return nil, err
		}
		last = v.kv.Key
	}
	for kv := range c.Events {
		if err := s.replay(recordPut, newVersion(kv), nil); err != nil {
			return nil, err
		}
	}
	before := int64(0)
	for l := range c.Leases {
		if err := s.restoreLease(l, before); err != nil {
			return nil, err
		}
		before = l.ID
	}
	return s, s.complete()
}

// newVersion copies the fields of a key-value; those that protobuf keeps beside them are not to be copied.
func newVersion(kv *mvccpb.KeyValue) *version {
	v := new(version)
	v.kv.Key, v.kv.ModRevision = kv.Key, kv.ModRevision
	if kv.Version == 0 {
		return v
	}
	v.kv.CreateRevision, v.kv.Version, v.kv.Lease, v.kv.Value = kv.CreateRevision, kv.Version, kv.Lease, kv.Value
	return v
}

// begin gives a new Store the revisions of a content or a snapshot.
func (s *Store) begin(revision, compact int64) error {
	if revision < 1 || revision > maxRevision || compact < -1 || compact > revision {
		return corrupt("impossible revision")
	}
	s.revision, s.compact = revision, compact
	s.floor.Store(compact)
	return nil
}

// restoreLease adds a lease behind that with the id last.
func (s *Store) restoreLease(l LeaseInfo, last int64) error {
	if s.leases.Len() > 0 && l.ID <= last || l.TTL < 1 || l.Remaining < 0 {
		return corrupt("impossible lease")
	}
	if err := s.Grant(l.ID, l.TTL); err != nil {
		return corrupt(err.Error())
	}
	return s.Checkpoint(l.ID, l.Remaining)
}

// complete ends the making of a Store, once all is there.
func (s *Store) complete() error {
	if s.revision != max(s.lastReplayed(), 1) {
		return corrupt("the last events are missing")
	}
	return s.attachAll()
}
