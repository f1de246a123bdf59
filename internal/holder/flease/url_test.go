package flease

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/address"
)

// TestURLsOfSockets: which URLs mean the peer on this machine, and the path at which it listens.
func TestURLsOfSockets(t *testing.T) {
	for _, tt := range []struct {
		url, path string
		socket    bool
		err       string
	}{
		{url: "flease:///run/x.sock", path: "/run/x.sock", socket: true},
		{url: "flease:///run/x%3fy+z", path: "/run/x?y+z", socket: true},
		{url: "flease:///run/x?cell=1", socket: true, err: "has no options"},
		{url: "flease:///run/x#y", socket: true, err: "has no options"},
		{url: "flease:///run/%zz", socket: true, err: "invalid URL escape"},
		{url: "flease://a:1@a:1"},
		{url: "etcd:///run/x"},
	} {
		path, socket, err := SocketOfURL(tt.url)
		if path != tt.path || socket != tt.socket || (err != nil) != (tt.err != "") ||
			err != nil && (!errors.Is(err, address.ErrURL) || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: path %q, of a socket %v, %v; want %+v", tt.url, path, socket, err, tt)
		}
	}
}

// TestURLsOfPeers: what each part of a peer's URL says, and what each mistake is answered with.
func TestURLsOfPeers(t *testing.T) {
	list := filepath.Join(t.TempDir(), "members")
	if err := os.WriteFile(list, []byte("epoch 7\n3 127.0.0.1:1\n4 192.0.2.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		url  string
		want Config
		list string
		err  string
	}{
		{url: "flease://a:1@a:1,b:1/", want: Config{Self: "a:1"}, list: "epoch 1: 1=a:1 2=b:1"},
		{url: "flease://self@" + list, want: Config{Self: "127.0.0.1:1"}, list: "epoch 7: 3=127.0.0.1:1 4=192.0.2.1:1"},
		{url: "flease://self@127.0.0.1:2,192.0.2.1:1", want: Config{Self: "127.0.0.1:2"}, list: "epoch 1: 1=127.0.0.1:2 2=192.0.2.1:1"},
		{
			url:  "flease://a:1@a:1?t_max=10s&epsilon=5ms&round=20ms&cell=1&cluster=x&listen=:2&state=/s&clock=kernel",
			want: Config{Self: "a:1", TMax: 10 * time.Second, Epsilon: 5 * time.Millisecond, RoundTimeout: 20 * time.Millisecond, Replicas: 1, Cluster: "x", Listen: ":2", State: "/s", CheckClock: true},
			list: "epoch 1: 1=a:1",
		},
		{url: "flease://a:1@a:1?clock=trust", want: Config{Self: "a:1"}, list: "epoch 1: 1=a:1"},
		{url: "etcd://a:1@a:1", err: "this is not a flease URL"},
		{url: "flease://a:1,b:1", err: "which of them is this process?"},
		{url: "flease://a:1@" + list + ".none", err: "no such file"},
		{url: "flease://a:1@/%zz", err: "invalid URL escape"},
		{url: "flease://a:1@a:x", err: "is not a port"},
		{url: "flease://self@192.0.2.1:1", err: "0 of the addresses are this machine's"},
		{url: "flease://self@127.0.0.1:1,127.0.0.1:2", err: "2 of the addresses are this machine's (127.0.0.1:1, 127.0.0.1:2)"},
		{url: "flease://a:1@a:1?%zz", err: "invalid URL escape"},
		{url: "flease://a:1@a:1?x=1", err: `option "x" is unknown`},
		{url: "flease://a:1@a:1?t_max=1", err: "t_max=1 is no duration"},
		{url: "flease://a:1@a:1?epsilon=0s", err: "epsilon=0s is no duration"},
		{url: "flease://a:1@a:1?round=-1s", err: "round=-1s is no duration"},
		{url: "flease://a:1@a:1?cell=0", err: "cell=0: write how many peers"},
		{url: "flease://a:1@a:1?cell=x", err: "cell=x: write how many peers"},
		{url: "flease://a:1@a:1?clock=x", err: "clock=x: write kernel"},
		{url: "flease://a:1@a:1?cacert=x&cert=y", err: "key is missing"},
		{url: "flease://a:1@a:1?servername=x", err: "cacert is missing"},
		{url: "flease://a:1@a:1?cacert=/none/a&cert=/none/b&key=/none/c", err: "no such file"},
	} {
		cfg, err := ReadURL(tt.url)
		if tt.err != "" {
			if err == nil || !errors.Is(err, address.ErrURL) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s is read with %v, want an error about it that has %q", tt.url, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		members, err := cfg.Membership(t.Context(), Members{})
		if err != nil || members.String() != tt.list {
			t.Errorf("%s: the members are %v, %v; want %s", tt.url, members, err, tt.list)
		}
		w := tt.want
		if cfg.Self != w.Self || cfg.TMax != w.TMax || cfg.Epsilon != w.Epsilon || cfg.RoundTimeout != w.RoundTimeout || cfg.Replicas != w.Replicas ||
			cfg.Cluster != w.Cluster || cfg.Listen != w.Listen || cfg.State != w.State || cfg.CheckClock != w.CheckClock || cfg.TLS != nil {
			t.Errorf("%s is read as %+v, want %+v", tt.url, cfg, w)
		}
	}
}
