package node

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// On a slow machine a cluster with fast elections has no leader for a while, again and again.
// Tests that do not look at that ask again.

// undone reports whether a request was not done because there was no leader, or was given up before
// there was one. It also reports the refusal of a change of the members by a leader that has not heard
// from a majority lately.
func undone(err error) bool {
	return errors.Is(err, rpctypes.ErrGRPCNoLeader) || errors.Is(err, rpctypes.ErrGRPCRequestTooManyRequests) || errors.Is(err, rpctypes.ErrGRPCUnhealthy)
}

// leaderless reports whether a request failed because leaders changed. It may have been done.
func leaderless(err error) bool {
	return undone(err) || errors.Is(err, rpctypes.ErrGRPCTimeoutDueToLeaderFail)
}

// patiently makes a request, and repeats it for up to a minute while its error asks for that. Where
// clocks are slow, an election alone may take ten seconds.
func patiently(again func(error) bool, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		err := do(ctx)
		if !again(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond) // it may fail at once
	}
}

// add makes another member, which is to be started.
func (c *cluster) add(through int, url string, learner bool) (m *pb.Member) {
	c.t.Helper()
	err := patiently(undone, func(ctx context.Context) (err error) {
		m, _, err = c.nodes[through].AddMember(ctx, []string{url}, learner)
		return err
	})
	if err != nil {
		c.t.Fatalf("add a member at %s: %v", url, err)
	}
	return m
}

// remove removes a member, and returns how many are left.
func (c *cluster) remove(through int, id uint64) (left int) {
	c.t.Helper()
	err := patiently(undone, func(ctx context.Context) error {
		list, err := c.nodes[through].RemoveMember(ctx, id)
		left = len(list)
		return err
	})
	if err != nil {
		c.t.Fatalf("remove member %x: %v", id, err)
	}
	return left
}

// move sets a member's new URL.
func (c *cluster) move(through int, id uint64, url string) {
	c.t.Helper()
	err := patiently(leaderless, func(ctx context.Context) error {
		_, err := c.nodes[through].UpdateMember(ctx, id, []string{url})
		return err
	})
	if err != nil {
		c.t.Fatalf("move member %x: %v", id, err)
	}
}
