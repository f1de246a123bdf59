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
	few := func(id int64) [][]byte { return many(id)[:maxLeaseKeys] }
	if got := len(touchLogOf(t, few, revoke).scratch.Keys.Writes); got != maxLeaseKeys {
		t.Errorf("a lease of %d keys: %d keys are touched", maxLeaseKeys, got)
	}
	compact := bodyOf(t, kindCompact, &pb.CompactionRequest{Revision: 2})
	all := new(touchLog)
	if got := all.Add(entryOf(2, revoke, compact), noKeys); got.resolved || len(got.ended) > 0 || !got.all || got.Keys.Writes.String() != `{["", …)}` {
		t.Errorf("the end of a lease beside a compaction: %s is touched, by a state: %v, want all by the entry itself", got.Keys.Writes, got.resolved)
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

// One Touch is reused for all entries. Nothing of one entry remains for the next: neither its keys,
// nor the leases that are attached or ended, nor whether its keys depend on a state.
func TestATouchIsOfOneEntry(t *testing.T) {
	put := func(k string, lease int64) []byte {
		return bodyOf(t, kindPut, &pb.PutRequest{Key: []byte(k), Lease: lease})
	}
	revoke := bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7})
	var l touchLog
	for i, step := range []struct {
		body     []byte
		want     string
		resolved bool
		attached int // in all
	}{
		{put("a", 7), `{"a"}`, false, 1},
		{revoke, `{"a"}`, true, 1},
		{put("b", 0), `{"b"}`, false, 1},
		{put("c", -3), `{"c"}`, false, 2},
		{[]byte{200}, `{["", …)}`, false, 2},
		{put("d", 0), `{"d"}`, false, 2},
	} {
		touch := l.Add(entryOf(uint64(i+2), step.body), noKeys)
		if got := touch.Keys.Writes.String(); got != step.want || touch.resolved != step.resolved || len(l.attached) != step.attached {
			t.Errorf("entry %d touches %s, by a state: %v, and %d keys are attached to leases; want %s, %v, %d", i+2, got, touch.resolved, len(l.attached), step.want, step.resolved, step.attached)
		}
	}
}

// An unreadable entry may attach any key to any lease, so the end of a lease after it is a barrier. A
// lease that several requests end ends all its keys, and each of the other leases does so as well. A
// barrier ends no keys of its own.
func TestLeasesThatEndTogether(t *testing.T) {
	put := func(k string, lease int64) []byte {
		return bodyOf(t, kindPut, &pb.PutRequest{Key: []byte(k), Lease: lease})
	}
	revoke := func(id int64) []byte { return bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: id}) }
	of := func(id int64) [][]byte { return [][]byte{fmt.Appendf(nil, "of %d", id)} }
	for _, tt := range []struct {
		name    string
		entries [][][]byte
		want    string // the keys of the last
	}{
		{"one behind what cannot be read", [][][]byte{{{kindPut, 1 << 3, 5}}, {revoke(7)}}, `{["", …)}`},
		{"two, the later first", [][][]byte{{put("a", 7), put("b", 9), put("c", 8)}, {revoke(9), revoke(7), revoke(9)}}, `{"a", "b", "of 7", "of 9"}`},
		{"one with what it is attached to in the same entry", [][][]byte{{put("a", 7), revoke(7)}}, `{"a", "of 7"}`},
		{"one beside a barrier", [][][]byte{{put("a", 7)}, {revoke(7), {200}}}, `{["", …)}`},
	} {
		var l touchLog
		var touch *Touch
		for i, bodies := range tt.entries {
			touch = l.Add(entryOf(uint64(i+2), bodies...), of)
		}
		if got := slices.Clone(touch.Keys.Writes).Normalize().String(); got != tt.want {
			t.Errorf("%s: the keys that end are %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Keys, leases and guards of entries that are replaced, released, or in every state no longer bind.
// Those of all other entries do. An entry waits for the lowest of the entries that it depends on.
func TestWhatATouchLogKeeps(t *testing.T) {
	put := func(k string, lease int64) []byte {
		return bodyOf(t, kindPut, &pb.PutRequest{Key: []byte(k), Lease: lease})
	}
	ask := func(k string) []byte {
		return bodyOf(t, kindTxn, &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte(k)}}, Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: []byte("z")})}})
	}
	grant := bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 7, TTL: 5})
	scanned := func(body []byte) *Touch {
		touch := new(Touch)
		touch.scanRequest(body)
		return touch
	}
	begin := func() *touchLog { return touchLogOf(t, noKeys, grant, ask("a"), put("b", 0)) } // 2, 3, 4
	onLease, onGuard, onKey := scanned(put("x", 7)), scanned(put("a", 0)), scanned(put("b", 0))
	again := scanned(grant)
	for _, tt := range []struct {
		name         string
		do           func(l *touchLog)
		lease, guard bool
		held         []uint64
	}{
		{"nothing", func(*touchLog) {}, true, true, []uint64{2, 3, 4}},
		{"2 is released", func(l *touchLog) { l.release(2) }, false, true, []uint64{3, 4}},
		{"3 is released", func(l *touchLog) { l.release(3) }, true, false, []uint64{2, 4}},
		{"all up to 3 is released", func(l *touchLog) { l.releaseThrough(3) }, false, false, []uint64{4}},
		{"all from 3 on is replaced", func(l *touchLog) { l.Truncate(3) }, true, false, []uint64{2}},
		{"all is replaced", func(l *touchLog) { l.Truncate(2) }, false, false, nil},
	} {
		l := begin()
		tt.do(l)
		if l.entangled(onLease) != tt.lease || l.entangled(again) != tt.lease || l.entangled(onGuard) != tt.guard || l.entangled(onKey) {
			t.Errorf("%s: a put to the lease waits %v, another grant %v, a put of the guard %v, one of a key that was put %v; want %v, %v, %v, false",
				tt.name, l.entangled(onLease), l.entangled(again), l.entangled(onGuard), l.entangled(onKey), tt.lease, tt.lease, tt.guard)
		}
		var held []uint64
		for i := uint64(2); i <= 4; i++ {
			if l.held(i) {
				held = append(held, i)
			}
		}
		if !slices.Equal(held, tt.held) || !slices.Equal(slices.Collect(l.unreleased()), tt.held) {
			t.Errorf("%s: entries %d are held, and %d are not released; want %d", tt.name, held, slices.Collect(l.unreleased()), tt.held)
		}
	}
	l := begin()
	l.releaseThrough(4)
	if l.forget(4); l.keys.Len()+l.leases.Len()+l.guards.Len() > 0 {
		t.Errorf("of what is in every state %d keys, %d leases and %d guards are kept", l.keys.Len(), l.leases.Len(), l.guards.Len())
	}
	l = touchLogOf(t, noKeys, grant, ask("a"), put("k", 0), bodyOf(t, kindTxn, &pb.TxnRequest{Success: []*pb.RequestOp{
		putOp(&pb.PutRequest{Key: []byte("k"), Lease: 7}), putOp(&pb.PutRequest{Key: []byte("a")}),
	}}))
	for _, want := range []uint64{2, 3, 4} { // by its lease, by its guard, by its key
		if got := l.blocked(5); got != want {
			t.Errorf("an entry that waits for %d and others waits for %d first", want, got)
		}
		l.release(want)
	}
	l.restored(9)
	if !l.held(9) || l.leases.FirstUnreleased(onLease.Leases.Reads) != 9 {
		t.Error("behind a snapshot whose leases nobody knows, a put to one of them waits for nothing")
	}
	l = touchLogOf(t, noKeys, put("a", 7), put("b", 7))
	if l.Truncate(3); len(l.attached) != 1 || string(l.attached[0].key) != "a" {
		t.Errorf("with the second entry replaced, the keys that are attached to leases are %+v", l.attached)
	}
	if l.forget(2); len(l.attached) > 0 {
		t.Errorf("what is in every state is attached still: %+v", l.attached)
	}
}

// A read that takes a place in the log touches the keys that it reads. Transactions may nest as deeply
// as servers allow. An unknown field does not hide the fields behind it.
func TestWhatIsReadOfRequests(t *testing.T) {
	nested := &pb.TxnRequest{Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: []byte("k")})}}
	for range maxNesting - 1 {
		nested = &pb.TxnRequest{Failure: []*pb.RequestOp{txnOp(nested)}}
	}
	unknown := []byte{9 << 3, 5}
	expiry := bodyOf(t, kindExpire, listOf([]int64{7}))
	txn := bodyOf(t, kindTxn, &pb.TxnRequest{Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: []byte("k")})}})
	behind := func(body []byte) []byte { return append(append(slices.Clone(body[:1]), unknown...), body[1:]...) }
	for _, tt := range []struct {
		name          string
		body          []byte
		writes, reads string
		ended         int
		ok            bool
	}{
		{"a read", EncodeRead(keyspan.Set{{Key: []byte("k")}, {Key: []byte("l"), End: []byte("m")}}), `{}`, `{"k", ["l", "m")}`, 0, true},
		{"a transaction in many", bodyOf(t, kindTxn, nested), `{"k"}`, `{}`, 0, true},
		{"an expiry", expiry, `{}`, `{}`, 1, true},
		{"an expiry behind what is not known", behind(expiry), `{}`, `{}`, 1, true},
		{"a transaction behind what is not known", behind(txn), `{"k"}`, `{}`, 0, true},
		{"an expiry of a number", []byte{kindExpire, 1 << 3, 7}, `{}`, `{}`, 0, false},
		{"an expiry that is cut off", expiry[:len(expiry)-1], `{}`, `{}`, 0, false},
	} {
		var touch Touch
		ok := touch.scanRequest(tt.body)
		if got := touch.Keys.Reads.String(); ok != tt.ok || ok && (touch.Keys.Writes.String() != tt.writes || got != tt.reads || len(touch.ended) != tt.ended) {
			t.Errorf("%s writes %s and reads %s, and ends %d leases, %v; want %s, %s, %d, %v", tt.name, touch.Keys.Writes, got, len(touch.ended), ok, tt.writes, tt.reads, tt.ended, tt.ok)
		}
	}
}

// Which keys a lease has is remembered of entries that are not in the state yet, and of no others: then the
// state tells.
func TestKeysOfLeasesUntilTheyAreApplied(t *testing.T) {
	put := func(key string) []byte {
		return bodyOf(t, kindPut, &pb.PutRequest{Key: []byte(key), Lease: 7})
	}
	l := touchLogOf(t, noKeys, put("a"), put("b"), put("c"))
	l.forget(3) // of the entries 2 to 4
	got := l.Add(entryOf(5, bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7})), noKeys).Keys.Writes
	if want := key("c"); !slices.EqualFunc(got, want, func(a, b keyspan.Span) bool { return a.String() == b.String() }) {
		t.Errorf("a lease ends with the keys %v, of which all but %v are in the state", got, want)
	}
}
