package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/tracing"
)

// A start that fails leaves nothing, whatever it was that failed: no listener is open, nothing goes on, the program's
// registry has no more figures than before, and the next start from the same directory succeeds.
func TestAStartThatFailsLeavesNothing(t *testing.T) {
	taken := prometheus.NewRegistry() // by another member
	startWith(t, 1, func(c *Config) { c.Figures.Register = taken })
	names := func(r *prometheus.Registry) int {
		all, err := r.Gather()
		if err != nil {
			t.Error(err)
		}
		return len(all)
	}
	before := names(taken)
	for name, edit := range map[string]func(*Config){
		"no listener for clients":         func(c *Config) { c.Clients = nil },
		"tokens of an unknown kind":       func(c *Config) { c.Logins = login.Config{Tokens: "other"} },
		"a rate of traces below nothing":  func(c *Config) { c.Tracing.PerMillion = -1 },
		"no data directory":               func(c *Config) { c.Node.DataDir = "" },
		"data that the others contradict": func(c *Config) { c.InitialCheck, c.compares = true, new(differs) },
		"a registry with another member":  func(c *Config) { c.Figures.Register = taken },
	} {
		running, mine := goleak.IgnoreCurrent(), prometheus.NewRegistry()
		all := []net.Listener{listen(t), listen(t), listen(t), listen(t), listen(t), listen(t)}
		good := Config{
			Node: node.Config{
				Name: "a", DataDir: t.TempDir(), Peers: map[string]string{"a": "http://" + all[0].Addr().String()}, PeerListener: all[0],
				Logger: slog.New(slog.DiscardHandler),
			},
			Clients: all[1:3], HTTPOnly: all[3:4], Metrics: all[4:5], Plain: all[5:],
			Tracing: tracing.Config{Address: "127.0.0.1:1", Service: "s"},
		}
		good.Figures.Register = mine
		bad := good
		edit(&bad)
		if s, err := Start(bad); err == nil {
			t.Errorf("%s: it started", name)
			s.Stop()
		}
		if bad.Clients == nil { // they are the caller's
			all[1].Close()
			all[2].Close()
		}
		for i, l := range all {
			l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Millisecond))
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: listener %d: %v, want that it is closed", name, i, err)
				l.Close()
			}
		}
		if err := goleak.Find(running); err != nil {
			t.Errorf("%s: something goes on: %.600v", name, err)
		}
		if n := names(mine); n != 0 {
			t.Errorf("%s: the program's registry has %d figures of a member that did not start", name, n)
		}
		if n := names(taken); n != before {
			t.Errorf("%s: the registry of another member has %d figures, want %d as before", name, n, before)
		}
		good.Node.PeerListener, good.Clients, good.HTTPOnly, good.Metrics, good.Plain = listen(t), []net.Listener{listen(t)}, nil, nil, nil
		s, err := Start(good)
		if err != nil {
			t.Fatalf("%s: the next start: %v", name, err)
		}
		if n := names(mine); n != before {
			t.Errorf("%s: the program's registry has %d figures of the next start, want %d", name, n, before)
		}
		stopInTime(t, s)
		if n := names(mine); n != 0 {
			t.Errorf("%s: the program's registry has %d figures of a member that stopped", name, n)
		}
	}
}

// patient is a member that says how long it may take to compare.
type patient struct{ within time.Duration }

func (p *patient) CheckAgainstOthers(ctx context.Context) error {
	at, _ := ctx.Deadline()
	p.within = time.Until(at).Round(time.Second)
	return nil
}

// The comparison at the start waits for as long as a request waits.
func TestInitialCheckWaitsAsRequestsDo(t *testing.T) {
	for _, tt := range []struct{ said, want time.Duration }{{0, initialPatience}, {time.Minute, time.Minute}} {
		var p patient
		if (Config{InitialCheck: true, Node: node.Config{RequestTimeout: tt.said}}).compareAtStart(&p); p.within != tt.want {
			t.Errorf("with requests that wait for %v it waits for %v, want %v", tt.said, p.within, tt.want)
		}
	}
}
