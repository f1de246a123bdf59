package main

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/cli"
)

// memberRefusals are the server's reasons not to change the membership, and what to do.
var memberRefusals = []struct {
	err  error
	says string
}{
	{rpctypes.ErrMemberNotFound, "it is no member any more: see `tenure member list`"},
	{rpctypes.ErrMemberExist, "it is a member already: see `tenure member list`"},
	{rpctypes.ErrPeerURLExist, "another member is at this peer URL: see `tenure member list`, and remove it first, or give another URL"},
	{rpctypes.ErrMemberBadURLs, "want one peer URL, http://host:port, or https://host:port where the members use TLS"},
	{rpctypes.ErrMemberNotLearner, "it votes already"},
	{rpctypes.ErrMemberLearnerNotReady, "it has not caught up with the leader: look with `tenure member list` whether it runs and its APPLIED grows, and try again, or give it time with --wait"},
	{rpctypes.ErrTooManyLearners, "there are as many learners as --max-learners of the leader allows: promote or remove one first, or add it without --learner"},
	{rpctypes.ErrMemberNotEnoughStarted, "it is the last voter, without which there is no cluster; to give the cluster up, stop it"},
	{rpctypes.ErrUnhealthy, "the leader has not heard from a majority of the voters that there would be: start those that are down, or remove them, first"},
	{rpctypes.ErrNotLeader, "leadership has just gone elsewhere: see `tenure member list`, and try again"},
	{rpctypes.ErrBadLeaderTransferee, "it has no vote: promote it first"},
}

// memberTrouble is an error of the server's as a colleague would put it. A change that was sent and not
// answered may have been made.
func memberTrouble(doing string, err error) error {
	for _, r := range memberRefusals {
		if !errors.Is(err, r.err) {
			continue
		}
		said := fmt.Errorf("cannot %s: %s", doing, r.says)
		if r.err == rpctypes.ErrMemberLearnerNotReady {
			return notYet{said, "caught up"}
		}
		return said
	}
	why := err.Error()
	code := status.Code(err)
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		code, why = known.Code(), known.Error()
	}
	switch {
	case code == codes.Unimplemented:
		return fmt.Errorf("cannot %s: this server is of an older version, which cannot do that", doing)
	case code == codes.PermissionDenied || code == codes.InvalidArgument || code == codes.FailedPrecondition:
		return fmt.Errorf("cannot %s: %s", doing, why)
	case errors.Is(err, context.DeadlineExceeded) || code == codes.DeadlineExceeded || errors.Is(err, rpctypes.ErrTimeout):
		why = "the server has not answered in time"
	}
	return cli.Exit(cli.ExitUnavailable, fmt.Errorf("cannot %s: %s; whether it was done is not known: `tenure member list` shows it", doing, why))
}
