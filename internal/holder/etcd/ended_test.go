package etcd

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// late is a context whose deadline has passed and whose timer has not run yet.
type late struct {
	context.Context
	end time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.end, true }

// A server that listens and does not answer is told as one that does not answer, also where the time
// is over: a dial fails then, whatever the address.
func TestNoAnswerIsNoWrongAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cfg := Config{Endpoints: []string{listener.Addr().String()}}
	client, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.KV = &scripted{get: func(context.Context) error { return context.DeadlineExceeded }}
	err = reach(late{t.Context(), time.Now().Add(-time.Second)}, cfg, func(ctx context.Context) error { return ask(ctx, client) })
	if err == nil || !strings.Contains(err.Error(), "no answer from") || strings.Contains(err.Error(), "check the address") {
		t.Errorf("%v, want that there is no answer, and nothing about the address", err)
	}
}
