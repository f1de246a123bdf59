package kv

import (
	"errors"
	"io"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// The zero View tells nobody anything, and that by an error.
func TestZeroView(t *testing.T) {
	var v View
	_, rangeErr := v.Range(&pb.RangeRequest{Key: []byte("a")})
	_, pageErr := v.Page(&pb.RangeRequest{Key: []byte("a")})
	_, txnErr := v.Txn(&pb.TxnRequest{})
	_, eventsErr := v.Events(1)
	_, writeErr := v.WriteTo(io.Discard)
	for what, err := range map[string]error{"Range": rangeErr, "Page": pageErr, "Txn": txnErr, "Events": eventsErr, "WriteTo": writeErr} {
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
