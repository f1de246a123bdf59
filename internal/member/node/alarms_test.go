package node

import (
	"context"
	"errors"
	"testing"

	"github.com/tenure-lease/tenure/internal/state/alarm"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// An alarm that one member raises holds at all members, and ends at all.
func TestAlarmsHoldAtAllMembers(t *testing.T) {
	c := newCluster(t, 3, nimble, func(*Config) {})
	for _, n := range c.nodes {
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, raised := range []bool{true, false} {
		action := pb.AlarmRequest_ACTIVATE
		if !raised {
			action = pb.AlarmRequest_DEACTIVATE
		}
		if _, err := c.nodes[1].Propose(t.Context(), &pb.AlarmRequest{Action: action, MemberID: 7, Alarm: pb.AlarmType_NOSPACE}); err != nil {
			t.Fatal(err)
		}
		for i, n := range c.nodes {
			_, err := n.Propose(t.Context(), &pb.PutRequest{Key: []byte("k")})
			if errors.Is(err, alarm.ErrNoSpace) != raised {
				t.Errorf("member %d, alarm raised %v: a put ends with %v", i, raised, err)
			}
			if err := n.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := n.Alarms().Raised(7, pb.AlarmType_NOSPACE); got != raised {
				t.Errorf("member %d, alarm raised %v: it stands, %v", i, raised, got)
			}
		}
	}
}

// Reclaimed returns when compacted history has no room any more.
func TestReclaimed(t *testing.T) {
	c := newCluster(t, 1, nimble, func(*Config) {})
	n := c.nodes[0]
	if err := n.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	const puts = 3 * reclaimVersions
	txn := &pb.TxnRequest{}
	for range 100 {
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{}}})
	}
	for i := range puts / 100 {
		for j, op := range txn.Success {
			op.GetRequestPut().Key = []byte{'k', byte(j)}
			op.GetRequestPut().Value = []byte{byte(i)}
		}
		if _, err := n.Propose(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Propose(t.Context(), &pb.CompactionRequest{Revision: n.View().Revision()}); err != nil {
		t.Fatal(err)
	}
	if err := n.Reclaimed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := n.Stats().Versions; got != 100 {
		t.Errorf("%d versions are left, want 100", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Reclaimed(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("for a caller that has gone: %v", err)
	}
	a := &applier{reclaim: true}
	a.awaitReclaimed(reclaiming{ended, make(chan struct{})})
	a.awaitReclaimed(reclaiming{t.Context(), make(chan struct{})})
	if a.tellReclaimed(); len(a.emptied) != 1 {
		t.Errorf("%d wait while history is left, want the one that has not gone", len(a.emptied))
	}
	a.reclaim = false
	if a.tellReclaimed(); len(a.emptied) != 0 {
		t.Error("they still wait")
	}
}
