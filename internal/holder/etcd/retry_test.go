package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// TestPassing: trouble that waiting may cure is distinguished from mistakes.
func TestPassing(t *testing.T) {
	for err, want := range map[error]bool{
		status.Error(codes.Unavailable, "no connection"):              true,
		status.Error(codes.DeadlineExceeded, "too late"):              true,
		status.Error(codes.ResourceExhausted, "too many requests"):    true,
		fmt.Errorf("queue up: %w", rpctypes.ErrNoLeader):              true,
		fmt.Errorf("of one try: %w", context.DeadlineExceeded):        true,
		status.Error(codes.PermissionDenied, "not you"):               false,
		fmt.Errorf("grant a lease: %w", rpctypes.ErrLeaseTTLTooLarge): false,
		errors.New("something else"):                                  false,
		errGone:                                                       false,
	} {
		if got := passing(err); got != want {
			t.Errorf("%v: waiting may cure it: %v, want %v", err, got, want)
		}
		if told := unavailable(err); !errors.Is(told, err) || errors.Is(told, tenure.ErrUnavailable) != want {
			t.Errorf("%v: a caller is told %v; waiting may cure it: %v", err, told, want)
		}
	}
}

// TestRetry: a request that gets no answer is sent again. An error that waiting does not cure is
// returned at once, and with the caller's patience the last error.
func TestRetry(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		calls := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := retry(ctx, func(ctx context.Context) error {
			if calls++; calls > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil || calls != 2 {
			t.Errorf("a request that got lost was sent %d times, and ends with %v; want it sent again", calls, err)
		}

		mistake := errors.New("mistake")
		began := time.Now()
		if err := retry(ctx, func(context.Context) error { return mistake }); err != mistake || time.Since(began) > 0 {
			t.Errorf("a mistake ends with %v after %v, want it at once", err, time.Since(began))
		}

		away := status.Error(codes.Unavailable, "away")
		err = retry(ctx, func(context.Context) error { return away })
		if !errors.Is(err, away) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when the patience ends: %v, want that and %v", err, away)
		}
	})
}

// TestRetryTellsTheCause: a request that its caller ends returns the cause and its own error, even
// if waiting would not cure that. A request that succeeds just then has succeeded.
func TestRetryTellsTheCause(t *testing.T) {
	cause, last := errors.New("cause"), status.Error(codes.Canceled, "canceled")
	for _, answer := range []error{last, errGone, nil} {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		err := retry(ctx, func(context.Context) error {
			calls++
			cancel(cause)
			return answer
		})
		if calls != 1 || errors.Is(err, cause) != (answer != nil) || !errors.Is(err, answer) {
			t.Errorf("a request that is given up, and ends with %v: got %v after %d calls, want both", answer, err, calls)
		}
	}
}
