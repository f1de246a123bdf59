package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// retry calls f until it succeeds or fails for a reason that will not go away.
// When ctx ends first it returns f's last error joined with that of ctx.
func retry(ctx context.Context, f func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, callTimeout)
		err := f(try)
		cancel()
		if err == nil || ctx.Err() == nil && !passing(err) {
			return err
		}
		if pause(ctx); ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// passing reports whether an error is trouble that waiting may cure, and no mistake.
func passing(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true // of one try
	}
	var answer interface{ GRPCStatus() *status.Status }
	var etcds interface{ Code() codes.Code } // rpctypes.EtcdError
	code := codes.Unknown
	switch {
	case errors.As(err, &answer):
		code = answer.GRPCStatus().Code()
	case errors.As(err, &etcds):
		code = etcds.Code()
	}
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.ResourceExhausted
}

// pause waits for a moment, or until ctx is done.
func pause(ctx context.Context) { pauseFor(ctx, aMoment()) }

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// aMoment is about 100 ms, which leaves a server in trouble time to recover.
func aMoment() time.Duration { return 50*time.Millisecond + rand.N(100*time.Millisecond) }
