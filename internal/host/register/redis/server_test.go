package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/registertest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// host is a stand-in for a Redis server. A test chooses its answers about itself.
type host struct {
	*miniredis.Miniredis

	mu     sync.Mutex
	info   map[string]string
	config map[string]string
	denied []string // commands that are not permitted
	fails  func(cmd string, args []string) bool
	calls  map[string]int
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{
		Miniredis: miniredis.NewMiniRedis(),
		info:      map[string]string{"run_id": "first", "role": "master", "aof_enabled": "1", "second_repl_offset": "-1", "maxmemory": "0"},
		config:    map[string]string{"appendfsync": "always", "no-appendfsync-on-rewrite": "no"},
		calls:     map[string]int{},
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after all that connect
		defer h.Close()
		if h.Server() != nil {
			registertest.LetsGo(t, h.CurrentConnectionCount)
		}
	})
	h.hook()
	return h
}

func (h *host) hook() {
	h.Server().SetPreHook(func(c *miniserver.Peer, cmd string, args ...string) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		cmd = strings.ToUpper(cmd)
		h.calls[cmd]++
		for _, d := range h.denied {
			if d == cmd {
				c.WriteError("NOPERM this user has no permissions to run the command")
				return true
			}
		}
		if h.fails != nil && h.fails(cmd, args) {
			c.WriteError("OOM command not allowed")
			return true
		}
		switch cmd {
		case "INFO":
			var b strings.Builder
			b.WriteString("# Everything\r\n")
			for k, v := range h.info {
				fmt.Fprintf(&b, "%s:%s\r\n", k, v)
			}
			c.WriteBulk(b.String())
			return true
		case "CONFIG":
			c.WriteLen(2)
			c.WriteBulk(args[1])
			c.WriteBulk(h.config[args[1]])
			return true
		}
		return false
	})
}

// set changes the server's answers about itself.
func (h *host) set(field, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.config[field]; ok {
		h.config[field] = value
	} else {
		h.info[field] = value
	}
}

func (h *host) deny(commands ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.denied = commands
}

// fail has the commands fail of which f says so; nil for none.
func (h *host) fail(f func(cmd string, args []string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = f
}

func (h *host) count(cmd string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[cmd]
}

// restart makes another process answer, with the same data; connections break.
func (h *host) restart(t *testing.T, run string) {
	t.Helper()
	h.set("run_id", run)
	h.Miniredis.Close()
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	h.hook()
}

// options are those of a client that waits for long, as this machine may be very busy.
func (h *host) options() Options { return Options{Addr: h.Addr(), patience: 10 * time.Second} }

func header(index, of int) register.Header {
	return register.Header{
		Set: machine.ID{0: 7, 15: 9}, Of: of, Index: index,
		Term: 40 * time.Second, Delay: time.Second, Drift: 200,
	}
}

// made is a store on a host of its own.
func made(t *testing.T, index, of int) (*host, *Store) {
	t.Helper()
	h := newHost(t)
	if err := Init(t.Context(), h.options(), header(index, of)); err != nil {
		t.Fatal(err)
	}
	return h, opened(t, h.options())
}

func opened(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
