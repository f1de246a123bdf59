package flease

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestPagesOfNames: the names that another peer knows are read page by page. A page that makes no
// sense is an error, and ends neither well nor in a loop.
func TestPagesOfNames(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	var answer atomic.Pointer[func(inquiry) string]
	var asked atomic.Int64
	other, err := peer.New(peer.Config{
		Self: 2, ClusterID: 1, Listener: l, Peers: map[machine.NodeID]string{2: addr}, FrameBytesMax: 1 << 20, QueueBytes: 1 << 20,
		Deliver: func(machine.NodeID, [][]byte) {}, Logger: slog.New(slog.DiscardHandler),
		Answer: func(say []byte) []byte {
			asked.Add(1)
			var in inquiry
			if err := json.Unmarshal(say, &in); err != nil || !in.Names || in.Prefix != "p/" {
				t.Errorf("the peer asks %q, %v", say, err)
			}
			return []byte((*answer.Load())(in))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	p := &Peer{self: 1, members: Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "a:1", 2: addr}}}
	for name, tt := range map[string]struct {
		pages map[string]string // by the name before the page
		names []string
		says  string
		asks  int64
	}{
		"one page":               {map[string]string{"": `{"names":["p/a","p/b"]}`}, []string{"p/a", "p/b"}, "", 1},
		"no names":               {map[string]string{"": `{"names":null}`}, nil, "", 1},
		"three pages":            {map[string]string{"": `{"names":["p/a","p/b"],"more":true}`, "p/b": `{"names":["p/c"],"more":true}`, "p/c": `{"names":["p/d"]}`}, []string{"p/a", "p/b", "p/c", "p/d"}, "", 3},
		"more, and nothing":      {map[string]string{"": `{"names":[],"more":true}`}, nil, "shows nothing new", 1},
		"the same page again":    {map[string]string{"": `{"names":["p/a"],"more":true}`, "p/a": `{"names":["p/a"],"more":true}`}, nil, "shows nothing new", 2},
		"silent behind a page":   {map[string]string{"": `{"names":["p/a"],"more":true}`, "p/a": `{"silent":true}`}, nil, errSilentPeer.Error(), 2},
		"no answer of this kind": {map[string]string{"": "junk"}, nil, "invalid character", 1},
	} {
		f := func(in inquiry) string {
			if asked.Load() > 10 {
				return "enough"
			}
			return tt.pages[in.After]
		}
		answer.Store(&f)
		asked.Store(0)
		names, err := p.namesOf(t.Context(), 2, "p/")
		if tt.says == "" && (err != nil || !slices.Equal(names, tt.names)) || tt.says != "" && (err == nil || names != nil || !strings.Contains(err.Error(), "peer 2: ") || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: the names are %q, %v; want %q, %q", name, names, err, tt.names, tt.says)
		}
		if n := asked.Load(); n != tt.asks {
			t.Errorf("%s: the peer is asked %d times, want %d", name, n, tt.asks)
		}
	}
}

// TestWhyThereIsNoConnection: the reason has words that people can use.
func TestWhyThereIsNoConnection(t *testing.T) {
	why := errors.New("no route")
	for _, tt := range []struct {
		last error
		want string
	}{{nil, "not yet tried"}, {io.EOF, "it ended, and there is no new one yet"}, {net.ErrClosed, "it ended, and there is no new one yet"}, {why, "no route"}} {
		if got := offline(tt.last).Error(); got != tt.want {
			t.Errorf("the last error is %v, and people read %q, want %q", tt.last, got, tt.want)
		}
	}
}
