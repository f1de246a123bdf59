package kv

import (
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// itemOf is a key with versions of these revisions, of which a negative one is a deletion.
func itemOf(key string, revisions ...int64) *item {
	it := new(item)
	for n, rev := range revisions {
		v := &version{kv: mvccpb.KeyValue{Key: []byte(key), ModRevision: max(rev, -rev), Version: int64(n + 1)}}
		if rev < 0 {
			v.kv.Version = 0
		}
		v.prev.Store(it.head.Load())
		it.head.Store(v)
	}
	return it
}

// A version is visible from its own revision to the next one's, and none is while the key is
// deleted.
func TestWhichVersionIsVisible(t *testing.T) {
	it := itemOf("k", 3, 5, -7, 9)
	for rev, want := range map[int64]int64{2: 0, 3: 3, 4: 3, 5: 5, 6: 5, 7: 0, 8: 0, 9: 9, 100: 9} {
		got := int64(0)
		if v := it.at(rev); v != nil {
			got = v.kv.ModRevision
		}
		if got != want {
			t.Errorf("at revision %d the version of %d is visible, want that of %d", rev, got, want)
		}
	}
	if v := it.live(); v == nil || v.kv.ModRevision != 9 {
		t.Errorf("the newest version is %v", v)
	}
	if v := itemOf("k", 3, -7).live(); v != nil {
		t.Errorf("a key that is deleted has version %v", v)
	}
}

// A range has its first key and not its end; without an end it has one key, and with that of
// one zero byte all that follow. A caller that has seen enough sees no more.
func TestWhichKeysARangeHas(t *testing.T) {
	var keys keyTree
	for _, key := range []string{"a", "b", "c", "d"} {
		keys.Set(key, itemOf(key, 1))
	}
	for _, c := range []struct {
		key, end string
		most     int
		want     string
	}{
		{"b", "d", 9, "bc"}, {"b", "", 9, "b"}, {"x", "", 9, ""}, {"b", "\x00", 9, "bcd"}, {"\x00", "\x00", 9, "abcd"}, {"b", "b", 9, ""}, {"d", "b", 9, ""},
		{"a", "d", 2, "ab"}, {"a", "\x00", 2, "ab"},
	} {
		got := ""
		scan(&keys, []byte(c.key), []byte(c.end), func(it *item) bool {
			got += string(it.key())
			return len(got) < c.most
		})
		if got != c.want {
			t.Errorf("[%q, %q) has %q, want %q", c.key, c.end, got, c.want)
		}
	}
}

// A set of keys has each once, however it came to have it, and a copy changes by itself.
func TestSmallKeySets(t *testing.T) {
	a, b, c := itemOf("a", 1), itemOf("b", 1), itemOf("c", 1)
	var k keySet
	wants := func(after string, k keySet, want ...*item) {
		t.Helper()
		var got []*item
		k.scan(func(it *item) bool { got = append(got, it); return true })
		if !slices.Equal(got, want) || k.len() != len(want) {
			t.Errorf("after %s: %d keys of which %d are seen, want %d", after, k.len(), len(got), len(want))
		}
	}
	wants("nothing", k)
	k.add(b)
	k.add(b)
	wants("a key twice", k, b)
	k.add(a)
	wants("another one", k, a, b)
	k.add(b)
	wants("one that is there", k, a, b)
	two := k.copy()
	k.add(c)
	wants("a third one", k, a, b, c)
	wants("one that its copy has", two, a, b)
	k.remove(c)
	k.remove(a)
	k.remove(a)
	wants("two that leave", k, b)
	k.remove(a)
	wants("one that is not there", k, b)
	k.remove(b)
	wants("the last one", k)
	wants("all that its copy lost", two, a, b)
	seen := 0
	two.scan(func(*item) bool { seen++; return false })
	if seen != 1 {
		t.Errorf("%d keys are seen by a reader that has seen enough", seen)
	}
}

// An operation's response in a transaction is the one that was filled in.
func TestResponsesAsOperations(t *testing.T) {
	var r rangeReply
	var p putReply
	var d deleteReply
	var x txnReply
	r.response.Count, d.response.Deleted, x.response.Succeeded, p.response.PrevKv = 3, 4, true, &mvccpb.KeyValue{Version: 5}
	for name, c := range map[string]struct {
		op *pb.ResponseOp
		ok func(op *pb.ResponseOp) bool
	}{
		"a range":       {r.asOp(), func(op *pb.ResponseOp) bool { return op.GetResponseRange().GetCount() == 3 }},
		"a put":         {p.asOp(), func(op *pb.ResponseOp) bool { return op.GetResponsePut().GetPrevKv().GetVersion() == 5 }},
		"a deletion":    {d.asOp(), func(op *pb.ResponseOp) bool { return op.GetResponseDeleteRange().GetDeleted() == 4 }},
		"a transaction": {x.asOp(), func(op *pb.ResponseOp) bool { return op.GetResponseTxn().GetSucceeded() }},
	} {
		if !c.ok(c.op) {
			t.Errorf("%s answers %v", name, c.op)
		}
	}
}
