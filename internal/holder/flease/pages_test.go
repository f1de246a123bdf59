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
	"github.com/tenure-lease/tenure/internal/protocol/flease"
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

// TestPagesOfRecords: so are records. Pages of two lives make no list, and a list of which one page may lack records may.
func TestPagesOfRecords(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	var pages atomic.Pointer[map[string]recordAnswer]
	var asked atomic.Int64
	other, err := peer.New(peer.Config{
		Self: 2, ClusterID: 1, Listener: l, Peers: map[machine.NodeID]string{2: addr}, FrameBytesMax: 1 << 20, QueueBytes: 1 << 20,
		Deliver: func(machine.NodeID, [][]byte) {}, Logger: slog.New(slog.DiscardHandler),
		Answer: func(say []byte) []byte {
			var in inquiry
			if err := json.Unmarshal(say, &in); err != nil || in.Record == nil {
				t.Errorf("the peer asks %q, %v", say, err)
			}
			if asked.Add(1) > 10 {
				return []byte("enough")
			}
			said, err := json.Marshal((*pages.Load())[in.Record.After])
			if err != nil {
				t.Error(err)
			}
			return said
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	m := Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "a:1", 2: addr}}
	p := &Peer{self: 1, members: m, pure: flease.Config{Incarnation: 9}}
	page := func(life uint32, whole, more bool, names ...string) recordAnswer {
		a := recordAnswer{Keeper: life, Self: 2, Epoch: 1, List: p.list(m), Whole: whole, More: more}
		for _, name := range names {
			a.Records = append(a.Records, kept{Name: name, Token: 1})
		}
		return a
	}
	for what, tt := range map[string]struct {
		pages map[string]recordAnswer
		whole bool
		names []string
		says  string
	}{
		"two pages":                     {map[string]recordAnswer{"": page(5, true, true, "a", "b"), "b": page(5, true, false, "c")}, true, []string{"a", "b", "c"}, ""},
		"the first may lack records":    {map[string]recordAnswer{"": page(5, false, true, "a"), "a": page(5, true, false, "b")}, false, []string{"a", "b"}, ""},
		"the second may lack records":   {map[string]recordAnswer{"": page(5, true, true, "a"), "a": page(5, false, false, "b")}, false, []string{"a", "b"}, ""},
		"of two lives":                  {map[string]recordAnswer{"": page(5, true, true, "a"), "a": page(6, true, false, "b")}, false, nil, "it has restarted meanwhile"},
		"more, and nothing":             {map[string]recordAnswer{"": page(5, true, true)}, false, nil, "shows nothing new"},
		"more, and the same again":      {map[string]recordAnswer{"": page(5, true, true, "a"), "a": page(5, true, true, "a")}, false, nil, "shows nothing new"},
		"of another peer":               {map[string]recordAnswer{"": {Keeper: 5, Self: 3, Epoch: 1}}, false, nil, "it is another peer"},
		"another peer behind the first": {map[string]recordAnswer{"": page(5, true, true, "a"), "a": {Keeper: 5, Self: 3, Epoch: 1}}, false, nil, "it is another peer"},
	} {
		pages.Store(&tt.pages)
		asked.Store(0)
		got, err := p.ask(t.Context(), m, 2, recordQuestion{})
		var names []string
		for _, k := range got.Records {
			names = append(names, k.Name)
		}
		switch {
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, want %q", what, err, tt.says)
		case tt.says == "" && (err != nil || got.Whole != tt.whole || !slices.Equal(names, tt.names)):
			t.Errorf("%s: the records are %q, none is missing: %v, %v; want %q, %v", what, names, got.Whole, err, tt.names, tt.whole)
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
