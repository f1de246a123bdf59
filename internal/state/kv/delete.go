package kv

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// DeleteRange deletes a key, or the keys of a range, in one revision; none if
// there was nothing to delete. It returns the errors of [CheckDeleteRange].
func (s *Store) DeleteRange(r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if err := CheckDeleteRange(r); err != nil {
		return nil, err
	}
	out := new(deleteReply)
	s.deleteRange(r, &out.response, &out.header)
	s.commit()
	return &out.response, nil
}

// deleteRange makes a change that was checked and fills in the response.
func (s *Store) deleteRange(r *pb.DeleteRangeRequest, out *pb.DeleteRangeResponse, header *pb.ResponseHeader) {
	s.tally.deletes++
	if r.PrevKv {
		s.tally.ranges++
	}
	scan(&s.keys, r.Key, r.RangeEnd, func(it *item) bool {
		old := it.live()
		if old == nil {
			return true
		}
		if r.PrevKv {
			out.PrevKvs = append(out.PrevKvs, &old.kv)
		}
		out.Deleted++
		s.delete(it, old)
		return true
	})
	header.Revision = s.reader().revision
	out.Header = header
}

// delete puts a tombstone over the live version of an item. The item stays in the
// tree until the deletion is compacted.
func (s *Store) delete(it *item, old *version) {
	v := &version{}
	v.kv.Key, v.kv.ModRevision = old.kv.Key, s.next()
	s.link(it, v)
	s.detach(old.kv.Lease, it)
}
