package flease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// TestWhatEndsEachCallOfAClient: a call whose peer is silent ends at once when its caller gives up, with the caller's
// reason, or when the client is closed.
func TestWhatEndsEachCallOfAClient(t *testing.T) {
	why := errors.New("the caller's reason")
	claim := tenure.Claim{Name: "x", TTL: time.Minute}
	for name, call := range map[string]func(context.Context, *Client) error{
		"Acquire":    func(ctx context.Context, c *Client) error { _, err := c.Acquire(ctx, claim); return err },
		"TryAcquire": func(ctx context.Context, c *Client) error { _, err := c.TryAcquire(ctx, claim); return err },
		"Observe":    func(ctx context.Context, c *Client) error { _, err := c.Observe(ctx, "x"); return err },
		"Await": func(ctx context.Context, c *Client) error {
			_, err := c.Await(ctx, tenure.State{Name: "x"})
			return err
		},
		"List":   func(ctx context.Context, c *Client) error { _, err := c.List(ctx, "x"); return err },
		"Status": func(ctx context.Context, c *Client) error { _, err := c.Status(ctx); return err },
	} {
		for what, want := range map[string]error{"its caller": why, "the client": tenure.ErrClosed} {
			bubble.Test(t, func(t *testing.T) {
				c := promptClient(func(*clientConn, request) {})
				ctx, giveUp := context.WithCancelCause(context.Background())
				ended, closed := make(chan error, 1), make(chan struct{})
				go func() { ended <- call(ctx, c) }()
				time.Sleep(time.Second)
				began := time.Now()
				if want == why {
					giveUp(why)
				} else {
					go func() { defer close(closed); c.Close() }()
				}
				select {
				case err := <-ended:
					// A claim waits a moment to hear which holder was in its way.
					if took := time.Since(began); !errors.Is(err, want) || took > 2*farewell {
						t.Errorf("%s, which %s ends, returns %v after %v, want %v", name, what, err, took, want)
					}
				case <-time.After(2 * time.Second):
					t.Errorf("%s goes on though %s has ended it", name, what)
				}
				giveUp(nil)
				if want == why {
					c.Close()
				} else {
					<-closed
				}
			})
		}
	}
}
