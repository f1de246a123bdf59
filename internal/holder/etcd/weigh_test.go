package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// A TTL has to leave time for three renewals. A first call that was slow gets a second
// chance, by a renewal; an error of that is the answer. A lease that ended meanwhile is no mistake
// of the caller's if the second trip was quick.
func TestWeigh(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		trip, renewal time.Duration // of the first call, and of the renewal
		fails         error         // the error of the renewal
		renewed       bool
		want          error
	}{
		"a quick server":                  {trip: 3 * time.Second},
		"a slow grant, a quick renewal":   {trip: 4 * time.Second, renewal: time.Second, renewed: true},
		"slow both times":                 {trip: 4 * time.Second, renewal: 4 * time.Second, renewed: true, want: tenure.ErrTTLTooShort},
		"the lease ended, and still slow": {trip: 10 * time.Second, renewal: 4 * time.Second, fails: errUnknownLease, renewed: true, want: tenure.ErrTTLTooShort},
		"the lease ended in a partition":  {trip: 10 * time.Second, fails: errUnknownLease, renewed: true, want: errGone},
		"the renewal cannot be performed": {trip: 4 * time.Second, fails: broken, renewed: true, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				renewed := false
				err := (&Leaser{clock: clock.NewSimulated(1)}).weigh(t.Context(), 9*time.Second, tt.trip, func(context.Context) (time.Duration, error) {
					renewed = true
					time.Sleep(tt.renewal)
					return 9 * time.Second, tt.fails
				})
				if !errors.Is(err, tt.want) || renewed != tt.renewed {
					t.Errorf("weighed: %v, want %v; renewed %v, want %v", err, tt.want, renewed, tt.renewed)
				}
			})
		})
	}
}
