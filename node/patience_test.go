package node

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// On a slow machine a cluster with fast elections has no leader for a while, again and again.
// Tests that do not look at that ask again.

// undone reports whether a request was not done because nobody led, or only when it was given up.
func undone(err error) bool {
	return errors.Is(err, rpctypes.ErrGRPCNoLeader) || errors.Is(err, rpctypes.ErrGRPCRequestTooManyRequests)
}

// leaderless reports whether a request failed because leaders changed. It may have been done.
func leaderless(err error) bool {
	return undone(err) || errors.Is(err, rpctypes.ErrGRPCTimeoutDueToLeaderFail)
}

// patiently makes a request, and again for 15 s while its error asks for that.
func patiently(again func(error) bool, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	for {
		err := do(ctx)
		if !again(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond) // it may fail at once
	}
}
