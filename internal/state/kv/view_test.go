package kv

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// The zero View tells nobody anything, and that by an error.
func TestZeroView(t *testing.T) {
	var v View
	_, rangeErr := v.Range(&pb.RangeRequest{Key: []byte("a")})
	_, txnErr := v.Txn(&pb.TxnRequest{})
	_, eventsErr := v.Events(1)
	_, writeErr := v.WriteTo(io.Discard)
	for what, err := range map[string]error{"Range": rangeErr, "Txn": txnErr, "Events": eventsErr, "WriteTo": writeErr} {
		if !errors.Is(err, ErrNoState) {
			t.Errorf("%s: %v, want %v", what, err, ErrNoState)
		}
	}
	if _, ok := v.Lease(1); ok || len(v.LeaseKeys(1)) > 0 {
		t.Error("it has a lease")
	}
	for l := range v.Leases() {
		t.Errorf("it has lease %v", l)
	}
	if v.Revision() != 0 || New().View().Revision() == 0 {
		t.Error("it has the revision of an empty store")
	}
}

// A range is longer than as many keys as it has, and no longer.
func TestLonger(t *testing.T) {
	if (View{}).Longer([]byte("a"), []byte("z"), 0) {
		t.Error("a range of no state has a key")
	}
	s := New()
	for _, key := range []string{"a", "b", "b2", "c"} {
		mustPut(t, s, key, "", 0)
	}
	v := s.View()
	for _, c := range []struct {
		key, end string
		keys     int
	}{{"b", "c", 2}, {"b", "\x00", 3}, {"\x00", "\x00", 4}, {"x", "z", 0}, {"b", "b2", 1}} {
		for n := range 6 {
			if got := v.Longer([]byte(c.key), []byte(c.end), n); got != (c.keys > n) {
				t.Errorf("[%q, %q) has %d keys: longer than %d: %v", c.key, c.end, c.keys, n, got)
			}
		}
	}
	if v.Longer([]byte("a"), nil, 0) {
		t.Error("a single key takes time to read")
	}
}

// Events end when the caller has enough of them.
func TestEventsEndEarly(t *testing.T) {
	s := New()
	for range 3 {
		mustPut(t, s, "a", "", 0)
	}
	events, err := s.View().Events(1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e := range events {
		if n++; e.KV.ModRevision == 3 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d events came, want 2", n)
	}
}

// A version counts as long as it is there, in a restored store as in the one that was
// written.
func TestStats(t *testing.T) {
	s := New()
	last := s.View().Stats()
	grows := func(what string, by Stats) {
		t.Helper()
		now := s.View().Stats()
		got := Stats{now.Keys - last.Keys, now.Versions - last.Versions, now.Leases - last.Leases, now.Bytes - last.Bytes, now.History - last.History}
		if got != by {
			t.Errorf("%s: the figures change by %+v, want %+v", what, got, by)
		}
		last = now
	}
	lease, key := Stats{Leases: 1, Bytes: leaseBytes}, Stats{Keys: 1, Versions: 1, Bytes: keyBytes + 3 + versionBytes + 5}
	if err := s.Grant(7, 60); err != nil {
		t.Fatal(err)
	}
	grows("a lease", lease)
	mustPut(t, s, "key", "value", 7)
	grows("a key", key)
	mustPut(t, s, "key", "another", 7)
	grows("a version", Stats{Versions: 1, Bytes: versionBytes + 7, History: versionBytes + 5})
	if err := s.Grant(8, 60); err != nil {
		t.Fatal(err)
	}
	grows("another lease", lease)
	if err := s.Revoke(8); err != nil {
		t.Fatal(err)
	}
	grows("a lease that is revoked", Stats{Leases: -1, Bytes: -leaseBytes})
	again, err := Read(bytes.NewReader(snapshot(t, s.View())))
	if err != nil {
		t.Fatal(err)
	}
	if got := again.View().Stats(); got != last {
		t.Errorf("a store that was read has %+v, and the one that was written %+v", got, last)
	}
	if err := s.Revoke(7); err != nil {
		t.Fatal(err)
	}
	grows("a lease with its key", Stats{Keys: -1, Versions: 1, Leases: -1, Bytes: versionBytes - leaseBytes, History: versionBytes + 7 + versionBytes + keyBytes + 3})
	mustPut(t, s, "key", "", 0)
	grows("a key that comes back", Stats{Keys: 1, Versions: 1, Bytes: versionBytes, History: -keyBytes - 3})
}

// A limit applies after sorting. For every order, target and filter, a range with a limit
// has the first results of all, and reports whether there are more. A page has the same,
// and counts no further than one key behind its limit.
func TestLimitsOfEachOrder(t *testing.T) {
	s, m := New(), newModel()
	for _, kv := range [][2]string{{"c", "1"}, {"a", "5"}, {"e", "2"}, {"b", "4"}, {"d", "3"}, {"b", "0"}, {"a", "6"}, {"a", "7"}} {
		mustPut(t, s, kv[0], kv[1], 0)
		if _, err := m.Put(&pb.PutRequest{Key: []byte(kv[0]), Value: []byte(kv[1])}); err != nil {
			t.Fatal(err)
		}
	}
	for target := range pb.RangeRequest_SortTarget_name {
		for order := range pb.RangeRequest_SortOrder_name {
			for _, limit := range []int64{-1, 0, 1, 2, 3, 4, 5, 6, math.MaxInt64} {
				for _, least := range []int64{0, 4} {
					r := &pb.RangeRequest{
						Key: []byte("a"), RangeEnd: []byte("\x00"), Limit: limit, MinModRevision: least,
						SortTarget: pb.RangeRequest_SortTarget(target), SortOrder: pb.RangeRequest_SortOrder(order),
					}
					want, err := m.Range(r)
					if err != nil {
						t.Fatal(err)
					}
					got, err := s.View().Range(r)
					if err != nil || !proto.Equal(got, want) {
						t.Errorf("%v with a limit of %d:\n got %v, %v\nwant %v", r, limit, got, err, want)
					}
				}
			}
		}
	}
}

// Comparisons judge the state of the view, whatever came later.
func TestAnOldViewComparesWhatItShows(t *testing.T) {
	s := New()
	mustPut(t, s, "k", "old", 0)
	v := s.View()
	mustPut(t, s, "k", "new", 0)
	if _, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("k")}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "k", "newest", 0)
	for name, c := range map[string]*pb.Compare{
		"value":   {Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte("old")}},
		"version": {Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: 1}},
		"create":  {Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 2}},
		"mod":     {Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: 2}},
	} {
		c.Key = []byte("k")
		if resp, err := v.Txn(&pb.TxnRequest{Compare: []*pb.Compare{c}}); err != nil || !resp.Succeeded {
			t.Errorf("in a view of revision 2 the %s of a key is that of a later one: %v, %v", name, resp, err)
		}
	}
}
