package server

import (
	"context"
	"log/slog"
	"math"
	"net"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
)

// The state never has a larger quota than the memory has room for.
func TestQuota(t *testing.T) {
	for _, tt := range []struct{ configured, limit, want int64 }{
		{0, 0, 0}, {-1, 0, 0}, {500, 0, 500}, {0, 1000, 600}, {-1, 1000, 600}, {500, 1000, 500}, {601, 1000, 600},
	} {
		if got := quotaOf(tt.configured, tt.limit); got != tt.want {
			t.Errorf("quota %d in %d bytes of memory: got %d, want %d", tt.configured, tt.limit, got, tt.want)
		}
	}
	if quotaTenths >= shortTenths {
		t.Error("memory is short before the state has its quota")
	}
	cfg := Config{API: etcdapi.Config{QuotaBytes: 5000}}
	if api := cfg.api(newMemory(1000, slog.Default())); api.QuotaBytes != 600 {
		t.Errorf("the API has a quota of %d, want 600", api.QuotaBytes)
	}
}

// A state beyond its quota raises the alarm, and so does one that has most of the memory that is short. A
// shortage that others make does not.
func TestRoom(t *testing.T) {
	for _, tt := range []struct {
		name              string
		size, quota, live int64
		short, want       bool
	}{
		{"room", 100, 100, 0, false, false},
		{"beyond the quota", 101, 100, 0, false, true},
		{"no quota", 1000, 0, 2000, false, false},
		{"most of the memory", 501, 0, 1000, true, true},
		{"the smaller part of the memory", 500, 0, 1000, true, false},
	} {
		m := newMemory(math.MaxInt64, slog.Default())
		m.live.Store(tt.live)
		m.short.Store(tt.short)
		r := &room{size: func() int64 { return tt.size }, quota: tt.quota}
		if got := r.full(m); got != tt.want {
			t.Errorf("%s: full %v, want %v", tt.name, got, tt.want)
		}
	}
	m := newMemory(1000, slog.Default())
	if m.look(123); m.live.Load() != 123 {
		t.Errorf("%d bytes are alive, want 123", m.live.Load())
	}
}

// It looks again and again, and an attempt to raise the alarm ends.
func TestRoomIsWatched(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var attempts atomic.Int64
		r := &room{size: func() int64 { return 2 }, quota: 1, raise: func(ctx context.Context) {
			<-ctx.Done() // as without a leader
			attempts.Add(1)
		}}
		go r.run(ctx, newMemory(0, slog.Default()))
		time.Sleep(11 * time.Second)
		if attempts.Load() != 2 {
			t.Errorf("the alarm was tried %d times in 11 s, want 2", attempts.Load())
		}
	})
}

// Operators free a member that is full as they do with etcd: compact, defragment, disarm.
func TestAlarmRunbook(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(Config{
		Node:    node.Config{Name: "one", DataDir: t.TempDir(), Peers: map[string]string{"one": "http://127.0.0.1:1"}},
		API:     etcdapi.Config{QuotaBytes: 1 << 20},
		Clients: []net.Listener{l},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopInTime(t, s) })
	at := l.Addr().String()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{at}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	value := string(make([]byte, 100_000))
	var full error
	for n := 0; full == nil && n < 20; n++ {
		_, full = c.Put(t.Context(), "k", value)
	}
	if full == nil || full.Error() != rpctypes.ErrNoSpace.Error() {
		t.Fatalf("2 MB in a quota of 1 MiB: got %v, want no space", full)
	}
	list, err := c.AlarmList(t.Context())
	if err != nil || len(list.Alarms) != 1 || list.Alarms[0].MemberID != s.Node.ID() || list.Alarms[0].Alarm != pb.AlarmType_NOSPACE {
		t.Fatalf("alarms: got %v, %v; want NOSPACE of this member", list, err)
	}
	st, err := c.Status(t.Context(), at)
	if err != nil || st.DbSizeQuota != 1<<20 || len(st.Errors) != 1 || st.DbSize < st.DbSizeInUse || st.DowngradeInfo == nil || st.StorageVersion == "" {
		t.Fatalf("status: got %+v, %v", st, err)
	}
	if _, err := c.Compact(t.Context(), st.Header.Revision); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Defragment(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if after, err := c.Status(t.Context(), at); err != nil || after.DbSize > st.DbSize/2 {
		t.Errorf("the state has %d bytes behind that, %d before: %v", after.DbSize, st.DbSize, err)
	}
	if _, err := c.Put(t.Context(), "k", "v"); err == nil || err.Error() != rpctypes.ErrNoSpace.Error() {
		t.Errorf("a put while the alarm stands: got %v, want no space", err)
	}
	if _, err := c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Errorf("a put behind that: %v", err)
	}
}
