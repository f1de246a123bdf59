package kv

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Put stores a key-value in one revision. It keeps the slices of r.
// Besides the errors of [CheckPut] it returns [ErrLeaseNotFound], and
// [ErrKeyNotFound] for ignore_value and ignore_lease without a key.
func (s *Store) Put(r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := CheckPut(r); err != nil {
		return nil, err
	}
	if err := s.checkPut(r); err != nil {
		return nil, err
	}
	out := new(putReply)
	s.put(r, &out.response, &out.header)
	s.commit()
	return &out.response, nil
}

// checkPut judges a request by the state before it.
func (s *Store) checkPut(r *pb.PutRequest) error {
	if r.Lease != 0 {
		if _, ok := s.leases.Get(r.Lease); !ok {
			return ErrLeaseNotFound
		}
	}
	if r.IgnoreValue || r.IgnoreLease {
		if it, ok := s.keys.Get(text(r.Key)); !ok || it.live() == nil {
			return ErrKeyNotFound
		}
	}
	return nil
}

// put makes a change that was checked and fills in the response.
func (s *Store) put(r *pb.PutRequest, out *pb.PutResponse, header *pb.ResponseHeader) {
	v := &version{}
	kv := &v.kv
	kv.Value, kv.Lease = r.Value, r.Lease
	kv.ModRevision = s.next()

	it, known := s.keys.Get(text(r.Key))
	if known {
		kv.Key = it.key() // one copy for all versions
	} else {
		it = new(item)
		kv.Key = r.Key
	}
	var lease int64
	if old := it.live(); old != nil {
		kv.CreateRevision, kv.Version = old.kv.CreateRevision, old.kv.Version+1
		lease = old.kv.Lease
		if r.IgnoreValue {
			kv.Value = old.kv.Value
		}
		if r.IgnoreLease {
			kv.Lease = old.kv.Lease
		}
		if r.PrevKv {
			out.PrevKv = &old.kv
		}
	} else {
		kv.CreateRevision, kv.Version = kv.ModRevision, 1
	}
	s.link(it, v)
	if !known {
		s.keys.Set(text(kv.Key), it)
		s.keysMoved = true
	}
	if lease != kv.Lease {
		s.detach(lease, it)
		s.attach(kv.Lease, it)
	}
	s.tally.puts++
	s.tally.putBytes += uint64(len(kv.Key) + len(kv.Value))
	if r.PrevKv || r.IgnoreValue || r.IgnoreLease {
		s.tally.ranges++
	}
	header.Revision = s.next()
	out.Header = header
}
