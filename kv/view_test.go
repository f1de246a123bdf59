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
