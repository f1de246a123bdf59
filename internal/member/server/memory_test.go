package server

import (
	"bytes"
	"log/slog"
	"math"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/member/node"
)

func TestMemoryIsShort(t *testing.T) {
	var log bytes.Buffer
	m := &memory{limit: 1000, logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, step := range []struct {
		live  int64
		short bool
		says  string
	}{{0, false, ""}, {799, false, ""}, {800, true, "memory is short"}, {700, true, ""}, {5000, true, ""}, {699, false, "no longer short"}, {750, false, ""}, {801, true, "memory is short"}} {
		log.Reset()
		m.look(step.live)
		if got := m.short.Load(); got != step.short {
			t.Errorf("%d of 1000 bytes alive: short %v, want %v", step.live, got, step.short)
		}
		if said := log.String(); step.says == "" && said != "" || !strings.Contains(said, step.says) {
			t.Errorf("%d of 1000 bytes alive: said %q, want %q", step.live, said, step.says)
		}
	}
}

func TestMemoryLimitOfGo(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	debug.SetMemoryLimit(math.MaxInt64)
	if m := newMemory(0, slog.Default()); m.limit != 0 {
		t.Errorf("nobody has said a limit: %d", m.limit)
	}
	debug.SetMemoryLimit(1 << 30)
	if m := newMemory(0, slog.Default()); m.limit != 1<<30 {
		t.Errorf("GOMEMLIMIT is 1 GiB: %d", m.limit)
	}
	if m := newMemory(5, slog.Default()); m.limit != 5 {
		t.Errorf("the configuration says 5: %d", m.limit)
	}
}

// A member whose memory is full refuses writes, says so, and serves reads; when there is
// room it takes them again.
func TestServerIsShortOfMemory(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	limit := int64(stats.HeapAlloc) + 200<<20
	var log lines
	s, err := Start(Config{
		Node: node.Config{
			Name: "one", DataDir: t.TempDir(), Peers: map[string]string{"one": "http://127.0.0.1:1"}, Logger: log.logger(),
		},
		Clients: []net.Listener{l}, MemoryLimit: limit,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopInTime(t, s) })
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Addr().String()}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	hog := make([]byte, limit)
	hog[0] = 1
	until := func(want bool) {
		t.Helper()
		for range 500 {
			runtime.GC()
			if s.memory.short.Load() == want {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("memory is short: still %v", !want)
	}
	until(true)
	if _, err := c.Put(t.Context(), "k", "w"); err == nil || err.Error() != rpctypes.ErrNoSpace.Error() {
		t.Errorf("a put: %v, want no space", err)
	}
	if _, err := c.Get(t.Context(), "k"); err != nil {
		t.Errorf("a get: %v", err)
	}
	runtime.KeepAlive(hog)
	hog = nil
	until(false)
	if _, err := c.Put(t.Context(), "k", "w"); err != nil {
		t.Errorf("a put: %v, want it taken again", err)
	}
	stopInTime(t, s) // then all of it is logged
	for _, says := range []string{"memory is short", "memory is no longer short"} {
		if !log.has(says) {
			t.Errorf("the member's log does not tell that %s", says)
		}
	}
}

// Garbage is not alive, however much of it waits for the collector; referenced memory is.
func TestGarbageIsNotAlive(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const size = 64 << 20
	runtime.GC()
	before := alive()
	hog := make([]byte, size)
	if grown := alive() - before; grown > size/2 {
		t.Errorf("memory that no collection has seen counts as %d bytes alive", grown)
	}
	runtime.GC()
	if grown := alive() - before; grown < size/2 {
		t.Errorf("%d bytes of %d that are referred to count as alive", grown, size)
	}
	runtime.KeepAlive(hog)
}
