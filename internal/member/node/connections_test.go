package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A member connects under its own ID, and as its operator has configured.
func TestHowAMemberIsConnected(t *testing.T) {
	n, _ := parted(t)
	var err error
	if n.directories, err = openDirectories("/data", 5, waltest.NewDisk().FS()); err != nil {
		t.Fatal(err)
	}
	n.storage = &storage{}
	n.admission.me = origin{Directory: 5, Boot: 1<<32 | 9}
	n.cfg.PeerListener, n.cfg.PeerTLS = listen(t), &tls.Config{}
	defer n.cfg.PeerListener.Close()
	errDial := errors.New("no dial")
	n.cfg.Dial = func(context.Context, string) (net.Conn, error) { return nil, errDial }
	var log strings.Builder
	n.logger = slog.New(slog.NewTextHandler(&log, nil))
	others := map[machine.NodeID]string{2: "b:1", 3: "c:1"}
	cfg := n.transport(others)
	if cfg.Self != 1 || cfg.ClusterID != 7 || cfg.Listener != n.cfg.PeerListener || cfg.TLS != n.cfg.PeerTLS || cfg.Logger != n.logger || !maps.Equal(cfg.Peers, others) {
		t.Errorf("it is connected as member %d of cluster %d, at %v, with %v", cfg.Self, cfg.ClusterID, cfg.Listener, cfg)
	}
	if cfg.Dial == nil {
		t.Error("it does not dial by Config.Dial")
	} else if _, err := cfg.Dial(t.Context(), "b:1"); !errors.Is(err, errDial) {
		t.Errorf("it does not dial by Config.Dial: %v", err)
	}
	if cfg.Answer == nil || string(cfg.Answer([]byte("what is said"))) != string(n.introduction()) {
		t.Error("a question is not answered by the list of members")
	}
	var g greeting
	if p := cfg.Greeting(2); p[0] != wireGreeting || json.Unmarshal(p[1:], &g) != nil || !g.Ask || g.Origin != n.admission.me {
		t.Errorf("the first message of a connection is %q, want a greeting that asks for one", p)
	}
	if cfg.Refused == nil {
		t.Error("nobody hears that another member refuses this one")
	} else {
		cfg.Refused(0x2b, peer.ErrDuplicateID)
	}
	for _, want := range []string{"level=ERROR", "refuses", "member=2b", "stop the other process"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("when another refuses this one the log says %q, want %q in it", log.String(), want)
		}
	}
}

// Events of connections that occur while a member is being put together reach its replica once all
// parts exist.
func TestConnectionsAreToldWhenAllPartsAreThere(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(peer.Config)
		want any
	}{
		{"a member that has died", func(c peer.Config) { c.Down(3, errors.New("dead")) }, replica.Down{Node: 3}},
		{"a member to which messages are lost", func(c peer.Config) { c.Unreachable(3) }, replica.Unreachable{Node: 3}},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l := parted(t)
			n.running = make(chan struct{})
			go tt.do(n.transport(nil))
			synctest.Wait()
			if got := l.heard(); len(got) > 0 {
				t.Errorf("%s: the replica is told %+v before all parts are there", tt.name, got)
			}
			close(n.running)
			synctest.Wait()
			if got := l.heard(); !reflect.DeepEqual(got, []any{tt.want}) {
				t.Errorf("%s: the replica is told %+v, want %+v", tt.name, got, tt.want)
			}
		})
	}
}

// heard is all that the replica was told.
func (l *listener) heard() []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.inputs)
}
