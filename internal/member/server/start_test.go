package server

import (
	"errors"
	stdlog "log"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lines are the logged lines.
type lines struct {
	mu   sync.Mutex
	told []string
}

func (l *lines) logger() *slog.Logger {
	return slog.New(hook{slog.DiscardHandler, func(line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.told = append(l.told, line)
	}})
}

func (l *lines) count(line string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, told := range l.told {
		if told == line {
			n++
		}
	}
	return n
}

// has reports whether a line was logged that begins so.
func (l *lines) has(begin string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.told, func(line string) bool { return strings.HasPrefix(line, begin) })
}

// brokenListener is a listener that accepts no connection.
type brokenListener struct{ net.Listener }

func (brokenListener) Accept() (net.Conn, error) { return nil, errors.New("out of order") }

// A listener that breaks is told in the log, which is Go's own if there is no other; that a server
// was stopped is not.
func TestAListenerThatBreaksIsTold(t *testing.T) {
	const told = "serving clients ended"
	for name, standard := range map[string]bool{"the member's log": false, "the log of Go": true} {
		var log lines
		before, out, flags := slog.Default(), stdlog.Writer(), stdlog.Flags()
		servers, _ := startWith(t, 1, func(c *Config) {
			if c.Node.Logger = log.logger(); standard {
				slog.SetDefault(c.Node.Logger)
				c.Node.Logger = nil
			}
			c.Clients = append(c.Clients, brokenListener{listen(t)})
		})
		slog.SetDefault(before)
		stdlog.SetOutput(out)
		stdlog.SetFlags(flags)
		until(t, name+" tells of a listener that is broken", func() bool { return log.count(told) > 0 })
		servers[0].Stop()
		if n := log.count(told); n != 1 {
			t.Errorf("%s tells of %d listeners that have ended, want the one that was broken", name, n)
		}
	}
}

// A member compacts the history that its configuration does not keep.
func TestAMemberCompactsByItself(t *testing.T) {
	_, endpoints := startWith(t, 1, func(c *Config) { c.History = Retention{Period: time.Millisecond} })
	cl := dial(t, endpoints[0])
	for range 3 {
		if _, err := cl.Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "history is compacted", func() bool {
		_, err := cl.Get(t.Context(), "k", clientv3.WithRev(2))
		return errors.Is(err, rpctypes.ErrCompacted)
	})
}

// A server that was stopped has nothing under way: whoever stops it may remove its directory, or
// end the process.
func TestStopWaitsForWhatIsUnderWay(t *testing.T) {
	servers, _ := start(t, 1)
	s := servers[0]
	s.Stop()
	var ended atomic.Bool
	s.done.Go(func() {
		time.Sleep(100 * time.Millisecond)
		ended.Store(true)
	})
	if s.Stop(); !ended.Load() {
		t.Error("the server is said to have stopped, and something of it goes on")
	}
}
