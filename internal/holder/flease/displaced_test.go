package flease

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestWhoIsAtThePlaceOfAPeer: only another process of the peer's index and cluster displaces it.
func TestWhoIsAtThePlaceOfAPeer(t *testing.T) {
	var there atomic.Pointer[string] // the answer at the address of all
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		addr := there.Load()
		if addr == nil {
			return nil, errors.New("nobody answers")
		}
		return new(net.Dialer).DialContext(ctx, "tcp", *addr)
	}
	begin := func(cluster string, index machine.NodeID) *Peer {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Start(t.Context(), Config{
			Self: "h:1", Listener: l, Cluster: cluster, TMax: 4 * time.Second, Epsilon: 20 * time.Millisecond, Dial: dial, fresh: true,
			Membership: Fixed(Members{Epoch: 1, Addrs: map[machine.NodeID]string{index: "h:1"}}), Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		addr := l.Addr().String()
		there.Store(&addr)
		return p
	}
	p := begin("c", 1)
	if p.displaced() {
		t.Error("it is there itself, and takes itself for displaced")
	}
	for name, tt := range map[string]struct {
		cluster string
		index   machine.NodeID
		want    bool
	}{
		"another process":        {"c", 1, true},
		"another peer":           {"c", 2, false},
		"one of another cluster": {"d", 1, false},
	} {
		begin(tt.cluster, tt.index)
		if got := p.displaced(); got != tt.want {
			t.Errorf("%s answers at the peer's address, and it takes itself for displaced: %v", name, got)
		}
	}
	there.Store(nil)
	if p.displaced() {
		t.Error("nobody answers at the peer's address, and it takes itself for displaced")
	}
}
