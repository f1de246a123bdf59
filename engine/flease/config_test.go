package flease

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestOptionsReachThePeer: each field of a Config is passed on, and to the right place.
func TestOptionsReachThePeer(t *testing.T) {
	l, secure, logger := &net.TCPListener{}, &tls.Config{}, slog.New(slog.DiscardHandler)
	cfg := Config{
		Cluster: "c", Self: "a:1", Members: []string{"a:1"}, MembersFile: "file",
		TMax: 1, Epsilon: 2, RoundTimeout: 3, Guard: 4, Replicas: 5, MaxClaims: 6, TLS: secure, Listen: "b:1", Listener: l,
		State: "dir", CheckClock: true, Logger: logger,
	}
	want := flease.Config{
		Cluster: "c", Self: "a:1", TMax: 1, Epsilon: 2, RoundTimeout: 3, Guard: 4, Replicas: 5, MaxClaims: 6, TLS: secure,
		Listen: "b:1", Listener: l, State: "dir", CheckClock: true, Logger: logger,
	}
	for v, i := reflect.ValueOf(cfg), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the test says nothing of Config.%s", v.Type().Field(i).Name)
		}
	}
	cfg.Members, cfg.MembersFile = nil, "" // see TestMembers
	if got, err := cfg.peer(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the peer is configured as %+v, %v; want %+v", got, err, want)
	}
	if got, err := (Config{}).peer(); err != nil || !reflect.DeepEqual(got, flease.Config{}) {
		t.Errorf("an empty Config configures %+v, %v; want the defaults", got, err)
	}
}

// TestMembers: a peer gets its members from the list or from the file, with the index that each has there.
func TestMembers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "members")
	if err := os.WriteFile(file, []byte("epoch 2\n4 c:1\n1 a:1\nwas 1 a:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cfg  Config
		want flease.Members
		err  string
	}{
		{cfg: Config{Members: []string{"b:1", "a:1"}}, want: flease.Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "a:1", 2: "b:1"}}},
		{cfg: Config{Members: []string{"7=b:1", "3=a:1"}}, want: flease.Members{Epoch: 1, Addrs: map[machine.NodeID]string{3: "a:1", 7: "b:1"}}},
		{cfg: Config{MembersFile: file}, want: flease.Members{Epoch: 2, Addrs: map[machine.NodeID]string{1: "a:1", 4: "c:1"}, Was: map[machine.NodeID]string{1: "a:1"}}},
		{cfg: Config{Members: []string{"b:1", "1=a:1"}}, err: "give an index with every peer or with none"},
		{cfg: Config{Members: []string{"a:1"}, MembersFile: file}, err: "give one of them"},
	} {
		cfg, err := tt.cfg.peer()
		if tt.err != "" {
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v: %v, want %v that has %q", tt.cfg, err, ErrConfig, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", tt.cfg, err)
			continue
		}
		got, err := cfg.Membership(t.Context(), flease.Members{})
		if err != nil || got.Epoch != tt.want.Epoch || !maps.Equal(got.Addrs, tt.want.Addrs) || !maps.Equal(got.Was, tt.want.Was) {
			t.Errorf("the members of %+v are %+v, %v; want %+v", tt.cfg, got, err, tt.want)
		}
	}
}
