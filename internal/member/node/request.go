package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/member/span"
	"github.com/tenure-lease/tenure/internal/state/auth"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

var errStopped = rpctypes.ErrGRPCStopped

// maxRequestBytes bounds a request, whatever the API in front allows: heartbeats
// wait behind it on the connections between members, and a frame has to hold it.
const maxRequestBytes = 16 << 20

// requestOverhead is about what a request costs here beside its own bytes.
const requestOverhead = 256

type result struct {
	response proto.Message
	err      error
	state    *state // of a read by the log, which has no response
}

// Propose replicates a request and returns its response once the state that
// this member publishes includes it; in key order, once it is released, though
// what is published may be older. Requests are etcd's: Put, DeleteRange, Txn,
// Compaction, LeaseGrant, LeaseRevoke, Alarm, and those that change users (package auth). The caller
// of ctx is judged where the request is applied. Errors are package kv's and auth's for what
// the state refuses, ctx's, or etcd's own. After a timeout, ErrGRPCStopped and the end of
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
	r, err := n.propose(ctx, body)
	return r.response, err
}

// propose replicates an encoded request.
func (n *Node) propose(ctx context.Context, body []byte) (result, error) {
	if span.On(ctx) {
		return n.proposeTraced(ctx, body)
	}
	return n.replicate(ctx, body)
}

func (n *Node) replicate(ctx context.Context, body []byte) (result, error) {
	if len(body) > maxRequestBytes {
		return result{}, rpctypes.ErrGRPCRequestTooLarge
	}
	cost := int64(len(body)) + requestOverhead
	if n.results.cost.Load()+cost > n.cfg.MaxPendingBytes {
		return result{}, rpctypes.ErrGRPCRequestTooManyRequests
	}
	id := n.ids.Add(1)
	answer := n.results.add(id, cost)
	n.driver.Step(replica.Propose{ID: id, Body: body, Caller: n.calling(ctx)})
	select {
	case r := <-answer:
		return r, r.err
	case <-ctx.Done():
		n.failed.Add(1)
		n.results.forget(id)
		return result{}, ctx.Err()
	case <-n.stop:
		return result{}, errStopped
	}
}

// calling returns the caller of a request, by whom it is judged where it is applied (AU-12). The
// log has none while users are not in force: members of earlier versions can read it then.
func (n *Node) calling(ctx context.Context) auth.Caller {
	if !n.applied().users.Enabled() {
		return auth.Caller{}
	}
	return caller.Of(ctx)
}

// grant fills in what a client leaves to the server.
func (n *Node) grant(req *pb.LeaseGrantRequest) (*pb.LeaseGrantRequest, error) {
	if leases(n.granting.Load, func() int64 { return n.applied().view.Stats().Leases }) > n.cfg.MaxLeases {
		return nil, rpctypes.ErrGRPCRequestTooManyRequests
	}
	grant := &pb.LeaseGrantRequest{ID: req.ID, TTL: max(req.TTL, n.cfg.minTTL())}
	for grant.ID == 0 {
		grant.ID = rand.Int64()
	}
	return grant, nil
}

// leases adds the leases that are being granted to those that the state has. A grant moves from
// the one count to the other, so it is looked for where it comes from before where it goes to:
// it may be counted twice, and is never missed.
func leases(granting, granted func() int64) int64 {
	n := granting()
	return n + granted()
}

// timeout is the error for a caller that has waited since then in vain.
func (n *Node) timeout(since time.Time) error {
	if l := n.leadership.Load(); l.leader == 0 || l.at.After(since) {
		return rpctypes.ErrGRPCTimeoutDueToLeaderFail
	}
	return rpctypes.ErrGRPCTimeout
}

// readTimeout is timeout for a read, and counts it.
func (n *Node) readTimeout(since time.Time) error {
	err := n.timeout(since)
	if errors.Is(err, rpctypes.ErrGRPCTimeout) {
		n.slowReads.Add(1)
	} else {
		n.failedReads.Add(1)
	}
	return err
}

type askResult struct {
	answer replica.AnswerLease
	err    error
}

// ask puts a question about a lease; to wait, once, gives the answer.
func (n *Node) ask(lease int64, renew bool) (wait func(context.Context) (replica.AnswerLease, error)) {
	id := n.ids.Add(1)
	answer := n.asks.add(id, 0)
	n.driver.Step(replica.AskLease{ID: id, Lease: lease, Renew: renew})
	return func(ctx context.Context) (replica.AnswerLease, error) {
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
}

// KeepAlive begins to renew a lease. To wait, once, returns its time to live in
// seconds, 0 if there is no such lease. The leader has then confirmed that it was
// the leader after the call of KeepAlive; the lease lives for that long from that
// call on.
func (n *Node) KeepAlive(lease int64) (wait func(context.Context) (ttl int64, err error)) {
	answer := n.ask(lease, true)
	return func(ctx context.Context) (int64, error) {
		a, err := answer(ctx)
		return a.TTL / 1000, err
	}
}

// TimeToLive returns how long a lease has left and was granted for, in seconds;
// remaining is -1 if there is no such lease.
func (n *Node) TimeToLive(ctx context.Context, lease int64) (remaining, granted int64, err error) {
	a, err := n.ask(lease, false)(ctx)
	if err != nil {
		return 0, 0, err
	}
	if a.TTL == 0 {
		return -1, 0, nil
	}
	// Whole seconds that are left for sure, as etcd says it: 89 of 90 at once.
	return max(a.Remaining-1, 0) / 1000, a.TTL / 1000, nil
}
