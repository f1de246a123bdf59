package k8s

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/etcd"
	"github.com/tenure-lease/tenure/engine/file"
	"github.com/tenure-lease/tenure/server"
)

// Over a server and over a directory one of two candidates leads, and the other follows it.
func TestEngines(t *testing.T) {
	ctx := t.Context()
	dir, state := t.TempDir(), t.TempDir()
	endpoint := member(t)
	for name, open := range map[string]func() (tenure.Leaser, error){
		"server":    func() (tenure.Leaser, error) { return etcd.Open(ctx, etcd.Config{Endpoints: []string{endpoint}}) },
		"directory": func() (tenure.Leaser, error) { return file.Open(ctx, file.Config{Paths: []string{dir}, State: state}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var both [2]tenure.Leaser
			for i := range both {
				l, err := open()
				if err != nil {
					t.Fatal(err)
				}
				both[i] = l
				t.Cleanup(func() { l.Close() })
			}
			h := &history{}
			quick := options{lease: leaseDuration, renew: renewDeadline, retry: 50 * time.Millisecond}
			first := elected(t, h, both[0], "a", quick)
			await(t, h, "a", "leads")
			second := elected(t, h, both[1], "b", quick)
			awaitTrue(t, func() bool { return second.elector.GetLeader() == "a" })
			end(first)
			await(t, h, "b", "leads")
			end(second)
			returned, leads := h.find(t, "a", "returns", 1), h.find(t, "b", "leads", 1)
			if !returned.at.Before(leads.at) || leads.token <= h.find(t, "a", "leads", 1).token {
				t.Errorf("b leads with token %d, %v after the work of a", leads.token, leads.at.Sub(returned.at))
			}
			left, err := both[0].Observe(ctx, "election")
			if err != nil || len(left.Holders) != 0 {
				t.Errorf("both have ended, and there is %+v, %v", left, err)
			}
		})
	}
}

func await(t *testing.T, h *history, by, what string) {
	t.Helper()
	awaitTrue(t, func() bool { return h.has(by, what) })
}

func awaitTrue(t *testing.T, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("it did not happen in a minute")
		}
	}
}

// member starts a member in this process.
func member(t *testing.T) (endpoint string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(server.Config{
		Name: "a", DataDir: t.TempDir(), InitialCluster: map[string]string{"a": "http://127.0.0.1:2380"},
		ClientListeners: []net.Listener{listener}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}
