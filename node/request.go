package node

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tenure-lease/tenure/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

var errStopped = rpctypes.ErrGRPCStopped

// maxRequestBytes bounds a request, whatever the API in front allows: heartbeats
// wait behind it on the connections between members, and a frame has to hold it.
const maxRequestBytes = 16 << 20

type result struct {
	response proto.Message
	err      error
}

// Propose replicates a request and returns its response once the state that
// this member publishes includes it. Requests are etcd's: Put, DeleteRange, Txn,
// Compaction, LeaseGrant, LeaseRevoke. Errors are package kv's for what the state
// refuses, ctx's, or etcd's own. After a timeout, ErrGRPCStopped and the end of
// ctx it is open whether the request takes effect; all others mean that it does
// not.
func (n *Node) Propose(ctx context.Context, req proto.Message) (proto.Message, error) {
	if grant, ok := req.(*pb.LeaseGrantRequest); ok {
		n.granting.Add(1)
		defer n.granting.Add(-1)
		var err error
		if req, err = n.grant(grant); err != nil {
			return nil, err
		}
	}
	body, err := replica.EncodeRequest(req)
	if err != nil {
		return nil, err
	}
	if len(body) > maxRequestBytes {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	if n.results.cost.Load()+int64(len(body)) > n.cfg.MaxPendingBytes {
		return nil, rpctypes.ErrGRPCRequestTooManyRequests
	}
	id := n.ids.Add(1)
	answer := n.results.add(id, int64(len(body)))
	n.driver.Step(replica.Propose{ID: id, Body: body})
	select {
	case r := <-answer:
		return r.response, r.err
	case <-ctx.Done():
		n.results.forget(id)
		return nil, ctx.Err()
	case <-n.stop:
		return nil, errStopped
	}
}

// grant fills in what a client leaves to the server.
func (n *Node) grant(req *pb.LeaseGrantRequest) (*pb.LeaseGrantRequest, error) {
	if n.State().view.Stats().Leases+n.granting.Load() > n.cfg.MaxLeases {
		return nil, rpctypes.ErrGRPCRequestTooManyRequests
	}
	grant := &pb.LeaseGrantRequest{ID: req.ID, TTL: max(req.TTL, n.cfg.minTTL())}
	for grant.ID == 0 {
		grant.ID = rand.Int64()
	}
	return grant, nil
}

// timeout is what a caller is told who has waited since then in vain.
func (n *Node) timeout(since time.Time) error {
	if l := n.leadership.Load(); l.leader == 0 || l.at.After(since) {
		return rpctypes.ErrGRPCTimeoutDueToLeaderFail
	}
	return rpctypes.ErrGRPCTimeout
}

type askResult struct {
	answer replica.AnswerLease
	err    error
}

func (n *Node) ask(ctx context.Context, lease int64, renew bool) (replica.AnswerLease, error) {
	id := n.ids.Add(1)
	answer := n.asks.add(id, 0)
	n.driver.Step(replica.AskLease{ID: id, Lease: lease, Renew: renew})
	select {
	case r := <-answer:
		return r.answer, r.err
	case <-ctx.Done():
		n.asks.forget(id)
		return replica.AnswerLease{}, ctx.Err()
	case <-n.stop:
		return replica.AnswerLease{}, errStopped
	}
}

// KeepAlive renews a lease and returns its time to live in seconds, 0 if there
// is no such lease. The leader has confirmed that it was the leader after the
// call; the lease lives for that long from the call on.
func (n *Node) KeepAlive(ctx context.Context, lease int64) (ttl int64, err error) {
	a, err := n.ask(ctx, lease, true)
	return a.TTL / 1000, err
}

// TimeToLive returns how long a lease has left and was granted for, in seconds;
// remaining is -1 if there is no such lease.
func (n *Node) TimeToLive(ctx context.Context, lease int64) (remaining, granted int64, err error) {
	a, err := n.ask(ctx, lease, false)
	if err != nil {
		return 0, 0, err
	}
	if a.TTL == 0 {
		return -1, 0, nil
	}
	return a.Remaining / 1000, a.TTL / 1000, nil
}
