package replica

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/state/keyspan"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// touchLogOf has entries from index 2 on, of one request each.
func touchLogOf(t testing.TB, keysOf func(int64) [][]byte, bodies ...[]byte) *touchLog {
	t.Helper()
	l := new(touchLog)
	for i, body := range bodies {
		l.Add(entryOf(uint64(i+2), body), keysOf)
	}
	return l
}

func noKeys(int64) [][]byte { return nil }

func key(k string) keyspan.Set { return keyspan.Set{{Key: []byte(k)}} }

func TestTouchLogDependencies(t *testing.T) {
	put := func(k string, lease int64) []byte {
		return bodyOf(t, kindPut, &pb.PutRequest{Key: []byte(k), Lease: lease})
	}
	ask := func(k string) []byte {
		return bodyOf(t, kindTxn, &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte(k)}}})
	}
	revoke := bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7})
	grant := bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 7, TTL: 5})
	wipe := bodyOf(t, kindDeleteRange, &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("c")})
	compact := bodyOf(t, kindCompact, &pb.CompactionRequest{Revision: 2})
	tests := []struct {
		name   string
		bodies [][]byte
		want   []uint64 // which entry blocks the entries from 2 on
	}{
		{"other keys", [][]byte{put("a", 0), put("b", 0)}, []uint64{0, 0}},
		{"the same key", [][]byte{put("a", 0), put("b", 0), put("a", 0)}, []uint64{0, 0, 2}},
		{"what is read", [][]byte{put("a", 0), ask("a"), ask("b")}, []uint64{0, 2, 0}},
		{"what one reads, a later one must not change before it", [][]byte{ask("a"), put("a", 0)}, []uint64{0, 2}},
		{"a range", [][]byte{put("b", 0), wipe, put("c", 0), put("a", 0)}, []uint64{0, 2, 0, 3}},
		{"a lease and its keys", [][]byte{put("a", 7), put("b", 0), revoke, put("a", 0)}, []uint64{0, 0, 2, 2}},
		{"a lease that is gone", [][]byte{revoke, put("a", 7), put("b", 8)}, []uint64{0, 2, 0}},
		{"a lease that is new", [][]byte{grant, put("a", 7), revoke}, []uint64{0, 2, 2}},
		{"a barrier", [][]byte{put("a", 0), compact, put("z", 0), grant}, []uint64{0, 2, 3, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := touchLogOf(t, noKeys, tt.bodies...)
			var got []uint64
			for i := range tt.bodies {
				got = append(got, l.blocked(uint64(i+2)))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			for i := range tt.bodies { // in order of the log nobody waits
				l.release(uint64(i + 2))
				if got := l.blocked(uint64(i + 3)); got > uint64(i+2) {
					t.Errorf("entry %d waits for %d", i+3, got)
				}
			}
			l.forget(uint64(len(tt.bodies) + 1))
			if got := l.Keys().Len() + l.leases.Len() + len(l.attached); got != 0 {
				t.Errorf("%d things are kept in the end", got)
			}
		})
	}
}

func TestTouchLogLeaseKeys(t *testing.T) {
	revoke := bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7})
	put := bodyOf(t, kindPut, &pb.PutRequest{Key: []byte("p"), Lease: 7})

	applied := func(id int64) [][]byte { return [][]byte{fmt.Appendf(nil, "of %d", id)} }
	if got, want := touchLogOf(t, applied, put, revoke).scratch.Keys.Writes.String(), `{"p", "of 7"}`; got != want {
		t.Errorf("a revocation: got %s, want %s", got, want)
	}
	if got, want := touchLogOf(t, nil, put, revoke).scratch.Keys.Writes.String(), `{["", …)}`; got != want {
		t.Errorf("without keysOf: got %s, want %s", got, want)
	}
	many := func(int64) (keys [][]byte) {
		for i := range maxLeaseKeys + 1 {
			keys = append(keys, fmt.Appendf(nil, "%04d", i))
		}
		return keys
	}
	if got, want := touchLogOf(t, many, revoke).scratch.Keys.Writes.String(), `{["0000", "1000"), "1000"}`; got != want {
		t.Errorf("a large lease: got %s, want %s", got, want)
	}
	l := touchLogOf(t, noKeys, put)
	l.Truncate(2)
	if l.Add(entryOf(2, revoke), noKeys); len(l.scratch.Keys.Writes) != 0 {
		t.Errorf("a truncated put: got %v, want nothing", l.scratch.Keys.Writes)
	}
}

func TestTouchLogRestored(t *testing.T) {
	put := bodyOf(t, kindPut, &pb.PutRequest{Key: []byte("p")})
	l := touchLogOf(t, noKeys, put, put, put)
	l.restored(9)
	l.Add(entryOf(10, put), noKeys)
	if got := l.Keys().FirstUnreleased(key("other")); got != 9 {
		t.Errorf("behind a snapshot: got %d, want 9", got)
	}
	if got := l.blocked(10); got != 9 {
		t.Errorf("the first entry after it waits for %d, want 9", got)
	}
	l.releaseThrough(9)
	if got := l.Keys().LastTouch(key("other")); got != 0 {
		t.Errorf("once it is released: got %d, want 0", got)
	}
	if got := l.Keys().Floor(); got != 9 {
		t.Errorf("floor: got %d, want 9", got)
	}
}

func TestTouchLogUnreleased(t *testing.T) {
	put := func(lease int64) []byte { return bodyOf(t, kindPut, &pb.PutRequest{Key: []byte("p"), Lease: lease}) }
	grant := bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 7, TTL: 5})
	checkpoint := bodyOf(t, kindCheckpoint, &pb.LeaseCheckpointRequest{})
	l := touchLogOf(t, noKeys, grant, put(7), checkpoint, put(0), grant, grant, put(7), grant)
	l.release(6)
	var got []uint64
	for index := range l.unreleased() {
		got = append(got, index)
		l.release(index)
	}
	if want := []uint64{2, 3, 5, 7, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for index := range l.unreleased() {
		t.Errorf("%d is still there", index)
	}
}

// FuzzTouch: whatever is in the log, scanning it ends, an entry that apply makes
// nothing of is a barrier, and one that is applied changes nothing unforetold.
func FuzzTouch(f *testing.F) {
	put := bodyOf(f, kindPut, &pb.PutRequest{Key: []byte("k"), Value: []byte("v"), Lease: 7})
	f.Add(put, bodyOf(f, kindRevoke, &pb.LeaseRevokeRequest{ID: 7}), false)
	f.Add(mergedOp(f, &pb.PutRequest{Key: []byte("k")}, &pb.PutRequest{Lease: 7}), put, false)
	f.Add(bodyOf(f, kindTxn, &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: []byte("k"), RangeEnd: []byte{0}}},
		Success: []*pb.RequestOp{txnOp(&pb.TxnRequest{Failure: []*pb.RequestOp{putOp(&pb.PutRequest{Key: []byte("x")})}})},
	}), bodyOf(f, kindDeleteRange, &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("l")}), false)
	f.Add(bodyOf(f, kindExpire, &pb.LeaseCheckpointRequest{Checkpoints: []*pb.LeaseCheckpoint{{ID: 7}}}), []byte{}, false)
	f.Add(entryOf(2, put).Data, []byte{}, true)
	f.Fuzz(func(t *testing.T, one, other []byte, raw bool) {
		a := NewApplier(1, 1)
		apply(t, a, entryOf(2,
			bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 7, TTL: 5}),
			bodyOf(t, kindPut, &pb.PutRequest{Key: []byte("k"), Lease: 7}),
			bodyOf(t, kindPut, &pb.PutRequest{Key: []byte("b")})))
		e := entryOf(3, one, other)
		if raw {
			e.Data = one
			if b, err := decodeBatch(one); err == nil {
				e.Term = proto.Uint64(b.Term)
			}
		}
		var l touchLog
		touch := l.Add(e, a.Store().View().LeaseKeys)
		before := a.Store().Revision()
		if err := a.Apply(e); err != nil {
			if _, err := decodeBatch(e.Data); err != nil && !contains(touch.Keys.Writes, keyspan.All()) {
				t.Errorf("no batch, but it touches only %v", touch.Keys.Writes)
			}
			return
		}
		view := a.Store().View()
		events, err := view.Events(before + 1)
		if err != nil {
			t.Fatal(err)
		}
		for ev := range events {
			if !contains(touch.Keys.Writes, keyspan.Span{Key: ev.KV.Key}) {
				t.Errorf("it changed %q, foretold was %v", ev.KV.Key, touch.Keys.Writes)
			}
		}
		// What ended or was attached now is foretold for the end of any lease.
		later := l.Add(entryOf(4, bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7})), noKeys)
		for _, k := range view.LeaseKeys(7) {
			if !bytes.Equal(k, []byte("k")) && !contains(later.Keys.Writes, keyspan.Span{Key: k}) {
				t.Errorf("%q was attached, foretold was %v", k, later.Keys.Writes)
			}
		}
	})
}

func BenchmarkTouch(b *testing.B) {
	value := make([]byte, 128)
	k := []byte("/registry/pods/default/web-7d9c5b8f6d-x2x4k")
	lock := &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: k, Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{}}},
		Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: k, Lease: 1 << 60})},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: k}}}},
	}
	put := bodyOf(b, kindPut, &pb.PutRequest{Key: k, Value: value})
	entries := map[string][][]byte{
		"put":      {put},
		"100 puts": slices.Repeat([][]byte{put}, 100),
		"1 MiB":    {bodyOf(b, kindPut, &pb.PutRequest{Key: k, Value: make([]byte, 1<<20)})},
		"lock":     {bodyOf(b, kindTxn, lock)},
	}
	for name, bodies := range entries {
		e := entryOf(2, bodies...)
		b.Run("scan/"+name, func(b *testing.B) {
			b.ReportAllocs()
			var t Touch
			for b.Loop() {
				t.scan(e)
			}
		})
		b.Run("decode/"+name, func(b *testing.B) { // what apply does, to compare
			b.ReportAllocs()
			for b.Loop() {
				batch, err := decodeBatch(e.Data)
				if err != nil {
					b.Fatal(err)
				}
				for _, r := range batch.Requests {
					if _, _, err := decodeRequest(r.Body); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run("log/"+name, func(b *testing.B) {
			b.ReportAllocs()
			var l touchLog
			for index := uint64(2); b.Loop(); index++ {
				*e.Index = index
				l.Add(e, noKeys)
				l.release(index)
				l.forget(index)
			}
		})
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	e := entryOf(2, bodyOf(t, kindPut, &pb.PutRequest{Key: []byte("k"), Value: []byte("v"), Lease: 7}))
	var touch Touch
	touch.scan(e)
	if got := testing.AllocsPerRun(100, func() { touch.scan(e) }); got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}
