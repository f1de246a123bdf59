package replicasim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/pushlease"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// This file is for users that measure a cluster from outside and do not judge it: see package
// internal/lab/widearea.

// Policies are the policies of read leases that this build knows.
var Policies = []string{"off", "leader", "all", "leader/key", "all/key", "static/key", "quorum/key", "cost/key"}

// ErrPolicy says that this build has no such policy of read leases.
var ErrPolicy = errors.New("this build has no such policy of read leases")

// CheckPolicy reports whether a cluster can be started under this policy.
func CheckPolicy(policy string) error {
	if !slices.Contains(Policies, policy) {
		return fmt.Errorf("%q: %w; it has %q", policy, ErrPolicy, Policies)
	}
	return nil
}

// Member returns the member with this ID, from 1 up.
func (c *Cluster) Member(id machine.NodeID) *Member { return c.members[id-1] }

// Elect has a fresh cluster elect this member, and reports whether it did: the others
// stand still until it asks for their votes.
func (c *Cluster) Elect(id machine.NodeID) bool {
	others := slices.DeleteFunc(slices.Clone(c.members), func(m *Member) bool { return m.ID == id })
	for _, m := range others {
		m.Pause()
	}
	c.w.Run(2 * electionTicks * tick) // by then it has asked
	for _, m := range others {
		m.Resume()
	}
	return c.w.Until(10*time.Second, func() bool {
		return !slices.ContainsFunc(c.members, func(m *Member) bool { return m.replica.Status().Leader != id })
	})
}

// Put writes a key at this member. Done is called at most once, with the write's
// revision, or with an error that reports whether it may still take effect; never
// if the member dies.
func (m *Member) Put(key, value []byte, done func(rev int64, err error)) {
	m.propose(&pb.PutRequest{Key: key, Value: value}, func(r replica.Result, err error) {
		if err != nil || r.Err != nil {
			done(0, cmp.Or(err, r.Err))
			return
		}
		done(r.Response.(*pb.PutResponse).Header.Revision, nil)
	})
}

// Get reads a key at this member, linearizably. Done is told which revision wrote
// it, 0 if there is no such key.
func (m *Member) Get(key []byte, done func(written int64)) {
	m.readKeys(keyspan.Set{{Key: key}}, func(v kv.View) { done(writtenAt(v, key)) })
}

// PutAll writes keys at this member, all at one revision; done is as in Put.
func (m *Member) PutAll(keys [][]byte, value []byte, done func(rev int64, err error)) {
	txn := &pb.TxnRequest{}
	for _, key := range keys {
		put := &pb.PutRequest{Key: key, Value: value}
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}})
	}
	m.propose(txn, func(r replica.Result, err error) {
		if err != nil || r.Err != nil {
			done(0, cmp.Or(err, r.Err))
			return
		}
		done(r.Response.(*pb.TxnResponse).Header.Revision, nil)
	})
}

// GetAll reads keys at this member, linearizably and as of one moment. Done is told
// which revision wrote each.
func (m *Member) GetAll(keys [][]byte, done func(written []int64)) {
	set := make(keyspan.Set, len(keys))
	for i, key := range keys {
		set[i] = keyspan.Span{Key: key}
	}
	m.readKeys(set, func(v kv.View) {
		written := make([]int64, len(keys))
		for i, key := range keys {
			written[i] = writtenAt(v, key)
		}
		done(written)
	})
}

// writtenAt is which revision wrote a key.
func writtenAt(v kv.View, key []byte) int64 {
	resp, err := v.Range(&pb.RangeRequest{Key: key})
	if err != nil {
		panic(err)
	}
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].ModRevision
}

// CountLeaseMessages counts, from now on, the messages by which members get, make and keep
// promises.
func (c *Cluster) CountLeaseMessages() *int {
	n := new(int)
	c.net.Take = func(env machine.Envelope) bool {
		switch env.Body.(type) {
		case quorumlease.Request, quorumlease.Promise, quorumlease.Return,
			pushlease.Guard, pushlease.GuardAck, pushlease.Pushed, pushlease.PromiseReply:
			*n++
		}
		return false
	}
	return n
}

// Die stops the member for good. No other is told: its host is gone and closes no connection.
func (m *Member) Die() { m.crash() }
