package kv

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// The world of TestReadersBesideWriter: each revision is one transaction that
// gives all keys the revision as their value, or one that deletes them all when
// the revision is a multiple of ten. So any read at any revision judges itself.
const worldKeys = 12

func worldTxn(rev int64) *pb.TxnRequest {
	if rev%10 == 0 {
		return &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("key/"), RangeEnd: []byte("key0")},
		}}}}
	}
	r := &pb.TxnRequest{}
	for i := range worldKeys {
		r.Success = append(r.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
			Key:   fmt.Appendf(nil, "key/%02d", i),
			Value: strconv.AppendInt(nil, rev, 10),
			Lease: 1 + rev%3,
		}}})
	}
	return r
}

func judgeWorld(rev int64, kvs []*mvccpb.KeyValue) error {
	want := worldKeys
	if rev%10 == 0 || rev == 1 {
		want = 0
	}
	if len(kvs) != want {
		return fmt.Errorf("at revision %d: %d keys, want %d", rev, len(kvs), want)
	}
	for _, kv := range kvs {
		if string(kv.Value) != strconv.FormatInt(rev, 10) || kv.ModRevision != rev {
			return fmt.Errorf("at revision %d: %v", rev, kv)
		}
	}
	return nil
}

// judgeView reads a view in every way. Views that were overtaken by Reclaim may
// refuse, but never answer wrong.
func judgeView(v View, rev int64) error {
	all := &pb.RangeRequest{Key: []byte("key/"), RangeEnd: []byte("key0"), Revision: rev}
	resp, err := v.Range(all)
	switch {
	case errors.Is(err, ErrCompacted) || errors.Is(err, ErrStaleView):
	case err != nil:
		return err
	default:
		if rev == 0 {
			rev = v.Revision()
		}
		if err := judgeWorld(rev, resp.Kvs); err != nil {
			return err
		}
	}
	from := max(v.CompactRevision(), v.Revision()-30, 2)
	events, err := v.Events(from)
	if err != nil {
		return err
	}
	last, n := from-1, 0
	for e := range events {
		if e.KV.ModRevision != last {
			if last++; e.KV.ModRevision != last || n%worldKeys != 0 {
				return fmt.Errorf("event %d is of revision %d, want %d", n, e.KV.ModRevision, last)
			}
		}
		n++
		if prev := e.Prev(); prev != nil && prev.ModRevision != e.KV.ModRevision-1 {
			return fmt.Errorf("event %v follows %v", e.KV, prev)
		}
	}
	if last != v.Revision() {
		return fmt.Errorf("events end at %d, the view at %d", last, v.Revision())
	}
	for id := int64(1); id <= 3; id++ {
		want := 0
		if v.Revision() > 1 && v.Revision()%10 != 0 && id == 1+v.Revision()%3 {
			want = worldKeys
		}
		if got := len(v.LeaseKeys(id)); got != want {
			return fmt.Errorf("at revision %d lease %d has %d keys, want %d", v.Revision(), id, got, want)
		}
	}
	return nil
}

// judgeSnapshot writes a pinned view while the store goes on, and judges what
// can be read back.
func judgeSnapshot(v View) error {
	var b bytes.Buffer
	if _, err := v.WriteTo(&b); err != nil {
		return err
	}
	s, err := Read(&b)
	if err != nil {
		return err
	}
	if s.Revision() != v.Revision() || s.CompactRevision() != v.CompactRevision() {
		return fmt.Errorf("snapshot of revision %d has %d", v.Revision(), s.Revision())
	}
	for rev := max(v.CompactRevision(), 1); rev <= v.Revision(); rev++ {
		if err := judgeView(s.View(), rev); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	return nil
}

// TestReadersBesideWriter lets one goroutine write, compact and reclaim, and others
// read published views and write snapshots of pinned ones. It is for -race.
func TestReadersBesideWriter(t *testing.T) {
	const revisions = 3000
	s := New()
	for id := int64(1); id <= 3; id++ {
		if err := s.Grant(id, 60); err != nil {
			t.Fatal(err)
		}
	}
	var published atomic.Pointer[View]
	publish := func() {
		v := s.View()
		published.Store(&v)
	}
	publish()
	var readers sync.WaitGroup
	var done atomic.Bool
	for i := range 3 {
		readers.Go(func() {
			for n := int64(i); !done.Load(); n++ {
				v := *published.Load()
				rev := int64(0)
				if oldest := max(v.CompactRevision(), 1); n%2 == 0 {
					rev = oldest + n%(v.Revision()-oldest+1)
				}
				if err := judgeView(v, rev); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for rev := int64(2); rev <= revisions; rev++ {
		if _, err := s.Txn(worldTxn(rev)); err != nil || s.Revision() != rev {
			t.Fatal(s.Revision(), err)
		}
		if rev%7 == 0 {
			if err := s.Compact(rev - rev%5); err != nil {
				t.Fatal(err)
			}
		}
		s.Reclaim(int(rev % 100))
		if rev%3 == 0 {
			publish()
		}
		if rev%100 == 0 {
			v, release := s.Pin()
			readers.Go(func() {
				defer release()
				if err := judgeSnapshot(v); err != nil {
					t.Error(err)
				}
			})
		}
	}
	done.Store(true)
	readers.Wait()

	// With all pins released nothing holds the history any more.
	for s.Reclaim(100) {
	}
	if got, limit := s.View().Stats().Versions, int64(20*worldKeys); got > limit {
		t.Errorf("%d versions are kept, want at most %d", got, limit)
	}
}
