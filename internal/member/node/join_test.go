package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

// timed is a context whose deadline and end a test sets.
type timed struct {
	context.Context
	deadline time.Time
}

func (c *timed) Deadline() (time.Time, bool) { return c.deadline, true }

// The error of a failed join comes from the last round of questions that was not cut short.
func TestWhyAMemberCannotJoin(t *testing.T) {
	for _, tt := range []struct {
		name string
		last func(c *timed, cancel func()) // during the fourth round
		want string
	}{
		{"a round that ends in time", func(_ *timed, _ func()) {}, "round 4"},
		{"a round during which the context ends", func(_ *timed, cancel func()) { cancel() }, "round 3"},
		{"a round past the deadline of a context that does not say so yet", func(c *timed, _ func()) {
			c.deadline = time.Now().Add(-time.Nanosecond)
		}, "round 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			c := &timed{ctx, time.Now().Add(time.Hour)}
			dials := 0
			n := &Node{cfg: Config{HeartbeatInterval: time.Nanosecond, Dial: func(_ context.Context, addr string) (net.Conn, error) {
				dials++
				switch round := (dials + 1) / 2; {
				case round == 4:
					tt.last(c, cancel)
				case round == 5:
					cancel()
				}
				return nil, fmt.Errorf("%s does not answer in round %d", addr, (dials+1)/2)
			}}}
			_, err := n.askAll(c, map[machine.NodeID]string{1: "a:1", 2: "b:1"}, "http://c:1")
			if err == nil {
				t.Fatal("it gets its identity, and nobody answers")
			}
			for _, want := range []string{"join the cluster", "a:1 does not answer in " + tt.want, "b:1 does not answer in " + tt.want} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it is told %q, want %q", err, want)
				}
			}
			if strings.Count(err.Error(), "does not answer") != 2 {
				t.Errorf("it is told of more than one round: %v", err)
			}
		})
	}
	// Any part of a first round is better than nothing.
	ctx, cancel := context.WithCancel(t.Context())
	cut := errors.New("cut short")
	n := &Node{cfg: Config{HeartbeatInterval: time.Hour, Dial: func(context.Context, string) (net.Conn, error) { cancel(); return nil, cut }}}
	if _, err := n.askAll(ctx, map[machine.NodeID]string{1: "a:1"}, "http://c:1"); !errors.Is(err, cut) {
		t.Errorf("the only round was cut short, and it is told %v", err)
	}
}

// A member that waits for another that knows it ends when it is told to, and has made nothing.
func TestAJoinIsAborted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bubble.Test(t, func(t *testing.T) {
		abort := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(abort) })
		began := time.Now()
		_, err := Start(Config{
			Name: "b", DataDir: dir, Peers: map[string]string{"a": "http://a:1", "b": "http://b:1"}, Existing: true, Abort: abort, PeerListener: l,
			Logger: slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		if took := time.Since(began); !errors.Is(err, ErrAborted) || took != time.Second {
			t.Errorf("a member that joins is told to end after a second, and ends after %v with %v; want %v", took, err, ErrAborted)
		}
	})
	if found, err := os.ReadDir(dir); len(found) > 0 {
		t.Errorf("it has left %v, %v", found, err)
	}
}
