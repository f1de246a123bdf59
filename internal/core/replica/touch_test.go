package replica

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/state/keyspan"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

func putOp(r *pb.PutRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: r}}
}

func txnOp(r *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
}

func TestTouch(t *testing.T) {
	const seven = `"\x00\x00\x00\x00\x00\x00\x00\a"`
	const all = `{["", …)}`
	one, other := []byte("one"), []byte("other")
	nested := &pb.TxnRequest{Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: one})}}
	for range maxNesting {
		nested = &pb.TxnRequest{Failure: []*pb.RequestOp{txnOp(nested)}}
	}
	deeper := &pb.TxnRequest{Success: []*pb.RequestOp{txnOp(nested)}}
	put := bodyOf(t, kindPut, &pb.PutRequest{Key: one, Value: other})
	tests := []struct {
		name string
		body []byte
		want [4]string // keys written and read, leases written and read
	}{
		{"put", put, [4]string{`{"one"}`, `{}`, `{}`, `{}`}},
		{"put with a lease", bodyOf(t, kindPut, &pb.PutRequest{Key: one, Lease: 7}),
			[4]string{`{"one"}`, `{}`, `{}`, `{` + seven + `}`}},
		{"deletion of a range", bodyOf(t, kindDeleteRange, &pb.DeleteRangeRequest{Key: one, RangeEnd: other}),
			[4]string{`{["one", "other")}`, `{}`, `{}`, `{}`}},
		{"deletion from a key on", bodyOf(t, kindDeleteRange, &pb.DeleteRangeRequest{Key: one, RangeEnd: []byte{0}}),
			[4]string{`{["one", …)}`, `{}`, `{}`, `{}`}},
		{"both branches", bodyOf(t, kindTxn, &pb.TxnRequest{
			Compare: []*pb.Compare{{Key: one, RangeEnd: other}},
			Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: one, Lease: 7}), txnOp(&pb.TxnRequest{
				Compare: []*pb.Compare{{Key: []byte("x")}},
				Failure: []*pb.RequestOp{putOp(&pb.PutRequest{Key: []byte("y")})},
			})},
			Failure: []*pb.RequestOp{
				{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: other}}},
				{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("r"), RangeEnd: []byte("s")}}},
			},
		}), [4]string{`{"one", "other", "y"}`, `{["one", "other"), ["r", "s"), "x"}`, `{}`, `{` + seven + `}`}},
		{"nested as deeply as may be", bodyOf(t, kindTxn, nested), [4]string{`{"one"}`, `{}`, `{}`, `{}`}},
		{"nested too deeply", bodyOf(t, kindTxn, deeper), [4]string{all, `{}`, all, `{}`}},
		{"compaction", bodyOf(t, kindCompact, &pb.CompactionRequest{Revision: 3}), [4]string{all, `{}`, all, `{}`}},
		{"member", bodyOf(t, kindMember, &pb.Member{ID: 1}), [4]string{all, `{}`, all, `{}`}},
		{"a newer version's kind", []byte{200, 1}, [4]string{all, `{}`, all, `{}`}},
		{"grant", bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 7, TTL: 9}), [4]string{`{}`, `{}`, `{` + seven + `}`, `{}`}},
		{"a lease twice", append(bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 9}), bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 7})[1:]...),
			[4]string{`{}`, `{}`, `{` + seven + `}`, `{}`}},
		{"a lease that is a text", []byte{kindGrant, 2<<3 | 2, 1, 7}, [4]string{all, `{}`, all, `{}`}},
		{"a range's end that is a number", []byte{kindDeleteRange, 1<<3 | 2, 1, 'k', 2 << 3, 7}, [4]string{all, `{}`, all, `{}`}},
		{"revocation", bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7}), [4]string{`{}`, `{}`, `{` + seven + `}`, `{}`}},
		{"expiry", bodyOf(t, kindExpire, &pb.LeaseCheckpointRequest{Checkpoints: []*pb.LeaseCheckpoint{{ID: 7}}}),
			[4]string{`{}`, `{}`, `{` + seven + `}`, `{}`}},
		{"checkpoint", bodyOf(t, kindCheckpoint, &pb.LeaseCheckpointRequest{Checkpoints: []*pb.LeaseCheckpoint{{ID: 7}}}),
			[4]string{`{}`, `{}`, `{}`, `{}`}},
		{"an unknown field", append(slices.Clone(put), 0xf8, 0x07, 5), [4]string{`{"one"}`, `{}`, `{}`, `{}`}},
		{"an unknown field of four bytes", append(slices.Clone(put), 0xfd, 0x07, 1<<3|2, 1, 'x', 0), [4]string{`{"one"}`, `{}`, `{}`, `{}`}},
		{"a key twice", append(slices.Clone(put), bodyOf(t, kindPut, &pb.PutRequest{Key: other})[1:]...), [4]string{`{"other"}`, `{}`, `{}`, `{}`}},
		{"a key that is a number", []byte{kindPut, 1 << 3, 5}, [4]string{all, `{}`, all, `{}`}},
		{"merged operations", mergedOp(t, &pb.PutRequest{Key: one}, &pb.PutRequest{Lease: 7}), [4]string{all, `{}`, all, `{}`}},
		{"a lease that is a text, of a put", []byte{kindPut, 1<<3 | 2, 1, 'k', 3<<3 | 2, 1, 7}, [4]string{all, `{}`, all, `{}`}},
		{"a comparison that is a number", []byte{kindTxn, 1 << 3, 5}, [4]string{all, `{}`, all, `{}`}},
		{"an operation that is a number", []byte{kindTxn, 2 << 3, 5}, [4]string{all, `{}`, all, `{}`}},
		{"a range that is a number", []byte{kindTxn, 2<<3 | 2, 2, 1 << 3, 5}, [4]string{all, `{}`, all, `{}`}},
		{"a put that is a number", []byte{kindTxn, 2<<3 | 2, 2, 2 << 3, 5}, [4]string{all, `{}`, all, `{}`}},
		{"a deletion that is a number", []byte{kindTxn, 2<<3 | 2, 2, 3 << 3, 5}, [4]string{all, `{}`, all, `{}`}},
		{"a transaction that is a number", []byte{kindTxn, 2<<3 | 2, 2, 4 << 3, 5}, [4]string{all, `{}`, all, `{}`}},
		{"two ranges in an operation", []byte{kindTxn, 2<<3 | 2, 4, 1<<3 | 2, 0, 1<<3 | 2, 0}, [4]string{all, `{}`, all, `{}`}},
		{"two transactions in an operation", []byte{kindTxn, 2<<3 | 2, 4, 4<<3 | 2, 0, 4<<3 | 2, 0}, [4]string{all, `{}`, all, `{}`}},
		{"an unknown field beside an operation", []byte{kindTxn, 2<<3 | 2, 7, 5 << 3, 1, 1<<3 | 2, 3, 1<<3 | 2, 1, 'k'}, [4]string{`{}`, `{"k"}`, `{}`, `{}`}},
		{"an unknown field of a transaction", []byte{kindTxn, 4 << 3, 5}, [4]string{`{}`, `{}`, `{}`, `{}`}},
		{"an operation that is cut off", []byte{kindTxn, 2<<3 | 2, 1, 0x80}, [4]string{all, `{}`, all, `{}`}},
		{"an expiry that is a number", []byte{kindExpire, 1 << 3, 7}, [4]string{all, `{}`, all, `{}`}},
		{"an unknown field of an expiry", []byte{kindExpire, 2 << 3, 7}, [4]string{`{}`, `{}`, `{}`, `{}`}},
		{"cut off", put[:len(put)-1], [4]string{all, `{}`, all, `{}`}},
		{"no body", nil, [4]string{all, `{}`, all, `{}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var touch Touch
			touch.scan(entryOf(2, tt.body))
			if got := shown(&touch); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}

	var touch Touch
	later := entryOf(2, put)
	*later.Term++
	if touch.scan(later); shown(&touch) != [4]string{`{}`, `{}`, `{}`, `{}`} {
		t.Errorf("a batch of another term: got %q", shown(&touch))
	}
	unknown := entryOf(2, put)
	unknown.Data[0] = 0x7f
	read := entryOf(2, EncodeRead(keyspan.Set{{Key: one}}), bodyOf(t, kindCompact, &pb.CompactionRequest{Revision: 3}))
	for name, e := range map[string]*raftpb.Entry{
		"all beside": read,
		"no version": unknown,
		"membership": {Type: raftpb.EntryConfChangeV2.Enum()},
		"no batch":   {Data: []byte{entryVersion}},
		"version":    {Data: []byte{keptVersion + 1}},
		"tail":       {Term: proto.Uint64(1), Data: append(entryOf(2, put).Data, 0)},
	} {
		if touch.scan(e); shown(&touch) != [4]string{all, `{}`, all, `{}`} {
			t.Errorf("%s: got %q, want a barrier", name, shown(&touch))
		}
	}
}

func shown(t *Touch) (s [4]string) {
	for i, set := range []keyspan.Set{t.Keys.Writes, t.Keys.Reads, t.Leases.Writes, t.Leases.Reads} {
		s[i] = slices.Clone(set).Normalize().String()
	}
	return s
}

func leaseSpan(id int64) keyspan.Span {
	return keyspan.Span{Key: binary.BigEndian.AppendUint64(nil, uint64(id))}
}

func contains(s keyspan.Set, o keyspan.Span) bool {
	return slices.ContainsFunc(s, o.Meets)
}

// TestTouchIsWhatApplyChanges: whatever is appended, truncated and applied,
// later, changes no key and no lease that was not foretold when it was appended.
func TestTouchIsWhatApplyChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := requests{t}
		var l touchLog
		type pending struct {
			entry        *raftpb.Entry
			keys, leases keyspan.Set
		}
		var log []pending
		a := NewApplier(1, 1)
		published := a.Store().View() // what keysOf reads; not always the newest
		last := a.Index()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			default:
				var bodies [][]byte
				for range rapid.IntRange(1, 3).Draw(t, "requests") {
					bodies = append(bodies, g.body())
				}
				last++
				e := entryOf(last, bodies...)
				touch := l.Add(e, published.LeaseKeys)
				log = append(log, pending{e, slices.Clone(touch.Keys.Writes), clone(touch.Leases.Writes)})
			case 0: // a new leader had less
				n := rapid.IntRange(0, len(log)).Draw(t, "stays")
				if n < len(log) {
					last = log[n].entry.GetIndex() - 1
					l.Truncate(last + 1)
					log = log[:n]
				}
			case 1, 2:
				n := rapid.IntRange(0, len(log)).Draw(t, "applied")
				for _, p := range log[:n] {
					keys, leases, _ := apply(t, a, p.entry)
					for _, k := range keys {
						if !contains(p.keys, keyspan.Span{Key: []byte(k)}) {
							t.Fatalf("entry %d changed %q, foretold was %v", p.entry.GetIndex(), k, p.keys)
						}
					}
					for _, id := range leases {
						if !contains(p.leases, leaseSpan(id)) {
							t.Fatalf("entry %d changed lease %d, foretold was %v", p.entry.GetIndex(), id, p.leases)
						}
					}
				}
				log = log[n:]
				if g.one(2, "published") {
					published = a.Store().View()
					if g.one(2, "forgotten") {
						l.forget(a.Index())
					}
				}
			}
		}
	})
}

func clone(s keyspan.Set) (c keyspan.Set) {
	for _, span := range s {
		c = append(c, keyspan.Span{Key: slices.Clone(span.Key), End: slices.Clone(span.End)})
	}
	return c
}

// TestTouchIsWhatApplyReads: two states that agree on what an entry touches, and on
// nothing else, answer it alike and end alike in what it changes.
func TestTouchIsWhatApplyReads(t *testing.T) {
	foreign := 0 // keys that differed
	rapid.Check(t, func(t *rapid.T) {
		g := requests{t}
		a, b := NewApplier(1, 1), NewApplier(1, 1)
		both := func(x, y []byte) {
			apply(t, a, entryOf(a.Index()+1, x))
			apply(t, b, entryOf(b.Index()+1, y))
		}
		for range rapid.IntRange(0, 20).Draw(t, "history") {
			body := g.body()
			both(body, body)
		}
		e := entryOf(0, g.body(), g.body())
		var l touchLog
		*e.Index = 1
		touch := l.Add(e, a.Store().View().LeaseKeys)
		for _, k := range touchKeys {
			span := keyspan.Span{Key: []byte(k)}
			if contains(touch.Keys.Writes, span) || contains(touch.Keys.Reads, span) {
				continue
			}
			foreign++
			both(bodyOf(t, kindPut, &pb.PutRequest{Key: span.Key, Value: []byte("x")}),
				bodyOf(t, kindPut, &pb.PutRequest{Key: span.Key, Value: []byte("y")}))
			if g.one(2, "deleted") {
				both(bodyOf(t, kindPut, &pb.PutRequest{Key: span.Key}),
					bodyOf(t, kindDeleteRange, &pb.DeleteRangeRequest{Key: span.Key}))
			}
		}
		for id := int64(1); id <= 4; id++ {
			if contains(touch.Leases.Writes, leaseSpan(id)) || contains(touch.Leases.Reads, leaseSpan(id)) {
				continue
			}
			view := b.Store().View()
			if _, ok := view.Lease(id); !ok {
				both(bodyOf(t, kindCheckpoint, &pb.LeaseCheckpointRequest{}), bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: id, TTL: 1}))
			} else if len(view.LeaseKeys(id)) == 0 {
				both(bodyOf(t, kindCheckpoint, &pb.LeaseCheckpointRequest{}), bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: id}))
			}
		}
		if a.Store().Revision() != b.Store().Revision() {
			t.Fatalf("revisions %d and %d: the test is wrong", a.Store().Revision(), b.Store().Revision())
		}
		*e.Index = a.Index() + 1
		keysA, leasesA, gotA := apply(t, a, e)
		keysB, leasesB, gotB := apply(t, b, e)
		if !slices.Equal(keysA, keysB) || !slices.Equal(leasesA, leasesB) {
			t.Fatalf("changed keys %q and %q, leases %v and %v; touched %v", keysA, keysB, leasesA, leasesB, touch.Keys)
		}
		for i := range gotA {
			if gotA[i].Err != gotB[i].Err || !sameAnswer(gotA[i].Response, gotB[i].Response) {
				t.Fatalf("touched %v: answers %v and %v", touch.Keys, gotA[i], gotB[i])
			}
		}
		for _, k := range keysA {
			x, _ := a.Store().View().Range(&pb.RangeRequest{Key: []byte(k)})
			y, _ := b.Store().View().Range(&pb.RangeRequest{Key: []byte(k)})
			if !proto.Equal(x, y) {
				t.Fatalf("%q became %v and %v", k, x, y)
			}
		}
	})
	if foreign == 0 {
		t.Error("no state differed from the other")
	}
}

func sameAnswer(x, y protoreflect.ProtoMessage) bool {
	return x == nil && y == nil || x != nil && y != nil && proto.Equal(x, y)
}

func TestAppendReads(t *testing.T) {
	look := &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("c")}
	tests := []struct {
		m    proto.Message
		want string
	}{
		{look, `{["a", "c")}`},
		{&pb.TxnRequest{
			Compare: []*pb.Compare{{Key: []byte("x")}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: look}}},
			Failure: []*pb.RequestOp{txnOp(&pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("y"), RangeEnd: []byte{0}}}})},
		}, `{"x", ["a", "c"), ["y", …)}`},
		{&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{}}, {}}}, `{""}`},
	}
	for _, tt := range tests {
		if got := AppendReads(nil, tt.m).String(); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.m, got, tt.want)
		}
	}
}
