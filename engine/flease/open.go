package flease

import (
	"context"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/flease"
)

// Why a call failed. Errors wrap these; compare them by errors.Is.
var (
	// ErrConfig says that no peer can work with a Config, and what to change.
	ErrConfig = flease.ErrConfig
	// ErrBusy says that there are too many claims, or that no new ones are taken because renewals
	// are late. Errors that wrap it wrap tenure.ErrUnavailable, too.
	ErrBusy = flease.ErrBusy
)

// Open starts a peer in this process. It does not wait for other peers, nor for the silence after
// the start to end: the calls of the Leaser do. The Leaser is a tenure.Awaiter as well. Its Close
// releases its leases and ends the peer.
func Open(ctx context.Context, cfg Config) (tenure.Leaser, error) {
	inner, err := cfg.peer()
	if err != nil {
		return nil, err
	}
	l, err := flease.Open(ctx, inner)
	if err != nil {
		return nil, err // not l: a nil *flease.Leaser is no nil Leaser
	}
	return l, nil
}

// Dial connects to the peer on this machine that listens at the path; `tenure peer`
// listens at /run/tenure/peer.sock by default. The
// Leaser is a tenure.Awaiter as well. Its leases end with this process, and are released by Close.
// While nobody listens there, Dial waits for a peer that is about to start: until ctx ends, and five
// seconds at most if ctx has no deadline. If no peer answers, the error wraps tenure.ErrUnavailable.
func Dial(ctx context.Context, path string) (tenure.Leaser, error) {
	c, err := flease.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	return c, nil
}
