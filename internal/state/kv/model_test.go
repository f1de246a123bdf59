package kv

import (
	"bytes"
	"maps"
	"slices"
	"sort"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// model is the store as one would write it for a page of paper: the whole state
// of every revision, and nothing shared or clever.
type model struct {
	states  []map[string]*mvccpb.KeyValue // by revision; 0 and 1 are empty
	events  []modelEvent
	compact int64
	leases  map[int64]LeaseInfo
}

type modelEvent struct {
	kv   *mvccpb.KeyValue
	dead bool
}

func newModel() *model {
	empty := map[string]*mvccpb.KeyValue{}
	return &model{
		states:  []map[string]*mvccpb.KeyValue{empty, empty},
		compact: -1,
		leases:  map[int64]LeaseInfo{},
	}
}

func (m *model) revision() int64 { return int64(len(m.states)) - 1 }

// draft is the next state while one request makes it.
type draft struct {
	m      *model
	before map[string]*mvccpb.KeyValue
	now    map[string]*mvccpb.KeyValue
	events []modelEvent
}

func (m *model) begin() *draft {
	before := m.states[m.revision()]
	return &draft{m: m, before: before, now: maps.Clone(before)}
}

func (d *draft) revision() int64 {
	if len(d.events) > 0 {
		return d.m.revision() + 1
	}
	return d.m.revision()
}

func (d *draft) commit() {
	if len(d.events) > 0 {
		d.m.states = append(d.m.states, d.now)
		d.m.events = append(d.m.events, d.events...)
	}
}

// within gives the keys of a range that exist in a state, in order.
func within(state map[string]*mvccpb.KeyValue, key, end []byte) []*mvccpb.KeyValue {
	var kvs []*mvccpb.KeyValue
	for _, k := range slices.Sorted(maps.Keys(state)) {
		if inRange(k, string(key), string(end)) {
			kvs = append(kvs, state[k])
		}
	}
	return kvs
}

func inRange(k, key, end string) bool {
	switch end {
	case "":
		return k == key
	case "\x00":
		return k >= key
	default:
		return k >= key && k < end
	}
}

func (d *draft) put(r *pb.PutRequest) *pb.PutResponse {
	rev := d.m.revision() + 1
	kv := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, Lease: r.Lease, CreateRevision: rev, ModRevision: rev, Version: 1}
	resp := &pb.PutResponse{Header: &pb.ResponseHeader{Revision: rev}}
	if old := d.now[string(r.Key)]; old != nil {
		kv.CreateRevision = old.CreateRevision
		kv.Version = old.Version + 1
		if r.IgnoreValue {
			kv.Value = old.Value
		}
		if r.IgnoreLease {
			kv.Lease = old.Lease
		}
		if r.PrevKv {
			resp.PrevKv = old
		}
	}
	d.now[string(r.Key)] = kv
	d.events = append(d.events, modelEvent{kv: kv})
	return resp
}

func (d *draft) delete(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	gone := within(d.now, r.Key, r.RangeEnd)
	for _, kv := range gone {
		delete(d.now, string(kv.Key))
		d.events = append(d.events, modelEvent{&mvccpb.KeyValue{Key: kv.Key, ModRevision: d.m.revision() + 1}, true})
	}
	resp := &pb.DeleteRangeResponse{Deleted: int64(len(gone)), Header: &pb.ResponseHeader{Revision: d.revision()}}
	if r.PrevKv {
		resp.PrevKvs = gone
	}
	return resp
}

func (d *draft) checkPut(r *pb.PutRequest) error {
	if _, ok := d.m.leases[r.Lease]; r.Lease != 0 && !ok {
		return ErrLeaseNotFound
	}
	if (r.IgnoreValue || r.IgnoreLease) && d.before[string(r.Key)] == nil {
		return ErrKeyNotFound
	}
	return nil
}

func (m *model) Put(r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := modelCheckPut(r); err != nil {
		return nil, err
	}
	d := m.begin()
	if err := d.checkPut(r); err != nil {
		return nil, err
	}
	resp := d.put(r)
	d.commit()
	return resp, nil
}

func (m *model) DeleteRange(r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if len(r.Key) == 0 {
		return nil, ErrEmptyKey
	}
	d := m.begin()
	resp := d.delete(r)
	d.commit()
	return resp, nil
}

func (m *model) Range(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if len(r.Key) == 0 {
		return nil, ErrEmptyKey
	}
	if r.SortOrder < 0 || r.SortOrder > 2 || r.SortTarget < 0 || r.SortTarget > 4 {
		return nil, ErrInvalidSort
	}
	return m.begin().read(r)
}

func (d *draft) read(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	state := d.now
	switch {
	case r.Revision > d.revision():
		return nil, ErrFutureRevision
	case r.Revision <= 0 || r.Revision == d.m.revision()+1:
	case r.Revision < d.m.compact:
		return nil, ErrCompacted
	default:
		state = d.m.states[r.Revision]
	}
	kvs := within(state, r.Key, r.RangeEnd)
	resp := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: d.revision()}, Count: int64(len(kvs))}
	if r.CountOnly {
		return resp, nil
	}
	filters := r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0
	if filters {
		kvs = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool {
			return r.MinModRevision != 0 && kv.ModRevision < r.MinModRevision ||
				r.MaxModRevision != 0 && kv.ModRevision > r.MaxModRevision ||
				r.MinCreateRevision != 0 && kv.CreateRevision < r.MinCreateRevision ||
				r.MaxCreateRevision != 0 && kv.CreateRevision > r.MaxCreateRevision
		})
	}
	if r.SortOrder == pb.RangeRequest_NONE && r.SortTarget != pb.RangeRequest_KEY {
		// The first keys up to the limit, and one more, are sorted; not all.
		if r.Limit > 0 && !filters && int64(len(kvs))-1 > r.Limit {
			kvs = kvs[:r.Limit+1]
		}
	}
	less := func(a, b *mvccpb.KeyValue) bool {
		switch r.SortTarget {
		case pb.RangeRequest_VERSION:
			return a.Version < b.Version
		case pb.RangeRequest_CREATE:
			return a.CreateRevision < b.CreateRevision
		case pb.RangeRequest_MOD:
			return a.ModRevision < b.ModRevision
		case pb.RangeRequest_VALUE:
			return bytes.Compare(a.Value, b.Value) < 0
		}
		return bytes.Compare(a.Key, b.Key) < 0
	}
	// Stable sorting is the same for the dozen keys of the tests.
	sort.SliceStable(kvs, func(i, j int) bool {
		if r.SortOrder == pb.RangeRequest_DESCEND {
			return less(kvs[j], kvs[i])
		}
		return less(kvs[i], kvs[j])
	})
	if r.Limit > 0 && int64(len(kvs)) > r.Limit {
		kvs = kvs[:r.Limit]
		resp.More = true
	}
	for _, kv := range kvs {
		if r.KeysOnly {
			bare := &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version}
			if r.SortTarget == pb.RangeRequest_VALUE {
				bare.Lease = kv.Lease
			}
			kv = bare
		}
		resp.Kvs = append(resp.Kvs, kv)
	}
	return resp, nil
}

func (m *model) Compact(rev int64) error {
	if rev <= m.compact {
		return ErrCompacted
	}
	if rev > m.revision() {
		return ErrFutureRevision
	}
	m.compact = rev
	return nil
}

func (m *model) Grant(id, ttl int64) error {
	if id == 0 {
		return ErrLeaseNotFound
	}
	if ttl > MaxLeaseTTL {
		return ErrLeaseTTLTooLarge
	}
	if _, ok := m.leases[id]; ok {
		return ErrLeaseExists
	}
	m.leases[id] = LeaseInfo{ID: id, TTL: max(ttl, 1)}
	return nil
}

func (m *model) Revoke(id int64) error {
	if _, ok := m.leases[id]; !ok {
		return ErrLeaseNotFound
	}
	d := m.begin()
	for _, key := range m.leaseKeys(id) {
		d.delete(&pb.DeleteRangeRequest{Key: key})
	}
	d.commit()
	delete(m.leases, id)
	return nil
}

func (m *model) Checkpoint(id, remaining int64) error {
	l, ok := m.leases[id]
	if !ok {
		return ErrLeaseNotFound
	}
	l.Remaining = max(remaining, 0)
	m.leases[id] = l
	return nil
}

// leaseKeys needs no table: a key says itself which lease it has.
func (m *model) leaseKeys(id int64) (keys [][]byte) {
	for _, kv := range within(m.states[m.revision()], []byte{0}, []byte{0}) {
		if kv.Lease == id {
			keys = append(keys, kv.Key)
		}
	}
	return keys
}

// prev is the key-value before an event, as far as history goes.
func (m *model) prev(e modelEvent) *mvccpb.KeyValue {
	if e.kv.ModRevision-1 < m.compact {
		return nil
	}
	return m.states[e.kv.ModRevision-1][string(e.kv.Key)]
}

// reaches reports whether a deletion of [key, end) deletes k, as etcd's check of
// overlaps sees it: deletions without an end do not count.
func reaches(k, key, end string) bool {
	return end != "\x00" && inRange(k, key, end)
}

func compareKeys(a, b string) int { return strings.Compare(a, b) }
