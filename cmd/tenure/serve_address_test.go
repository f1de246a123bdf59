package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Listening everywhere says nothing about where others find this member.
func TestServeAdvertisesWhatOthersCanDial(t *testing.T) {
	for _, tt := range []struct {
		args []string
		flag string // that is missing; "" if all is well
	}{
		{[]string{"--listen-client-urls=http://0.0.0.0:0"}, "--advertise-client-urls"},
		{[]string{"--listen-client-urls=http://[::]:0"}, "--advertise-client-urls"},
		{[]string{"--listen-client-urls=http://:0"}, "--advertise-client-urls"},
		{[]string{"--listen-client-urls=http://0.0.0.0:0", "--advertise-client-urls=http://db1:2379"}, ""},
		{[]string{"--listen-client-urls=http://127.0.0.1:0", "--initial-advertise-peer-urls=http://0.0.0.0:2380", "--initial-cluster=default=http://0.0.0.0:2380,b=http://b:2380"}, "--initial-advertise-peer-urls"},
		{[]string{"--listen-client-urls=http://127.0.0.1:0", "--initial-advertise-peer-urls=http://0.0.0.0:2380", "--discovery-srv=example.com"}, "--initial-advertise-peer-urls"},
	} {
		o, err := parse(t, append(tt.args, "--listen-peer-urls=http://127.0.0.1:0", "--data-dir="+t.TempDir()), nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := o.config(slog.New(slog.DiscardHandler), nil)
		if err == nil {
			cfg.Node.PeerListener.Close()
			for _, l := range cfg.Clients {
				l.Close()
			}
		}
		if (err == nil) != (tt.flag == "") || err != nil && !strings.Contains(err.Error(), "say in "+tt.flag) {
			t.Errorf("%v: %v, want that it asks for %q", tt.args, err, tt.flag)
		}
	}
}

// A member that was told to advertise an address that others cannot dial starts, as etcd's does, and warns. Among
// others it would look for itself, and does not start.
func TestServeAdvertisesWhatItIsTold(t *testing.T) {
	for _, tt := range []struct {
		args []string
		warn string // of what it warns; "" if of nothing
	}{
		{[]string{"--advertise-client-urls=http://0.0.0.0:2379"}, "say in --advertise-client-urls"},
		{[]string{"--advertise-client-urls=http://db1:2379"}, ""},
		{[]string{"--initial-advertise-peer-urls=http://0.0.0.0:2380"}, "say in --initial-advertise-peer-urls"},
		{[]string{"--initial-advertise-peer-urls=http://0.0.0.0:2380", "--initial-cluster=default=http://0.0.0.0:2380"}, "say in --initial-advertise-peer-urls"},
		{[]string{"--initial-advertise-peer-urls=http://db1:2380"}, ""},
	} {
		o, err := parse(t, append(tt.args, "--listen-client-urls=http://127.0.0.1:0", "--listen-peer-urls=http://127.0.0.1:0", "--data-dir="+t.TempDir()), nil)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		cfg, err := o.config(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), nil)
		if err != nil {
			t.Errorf("%v: a member that was told what to advertise does not start: %v", tt.args, err)
			continue
		}
		cfg.Node.PeerListener.Close()
		for _, l := range cfg.Clients {
			l.Close()
		}
		if text := log.String(); (text == "") != (tt.warn == "") || !strings.Contains(text, tt.warn) {
			t.Errorf("%v: a member warns %q; want that it warns of %q", tt.args, text, tt.warn)
		}
	}
}

// At the first start two flags that contradict each other are a mistake. Later the list of
// members is history, and the member may have moved.
func TestServeWhereAMemberHasMoved(t *testing.T) {
	dir := t.TempDir()
	config := func() error {
		o, err := parse(t, []string{"--name=a", "--listen-client-urls=http://127.0.0.1:0", "--listen-peer-urls=http://127.0.0.1:0", "--data-dir=" + dir,
			"--initial-cluster=a=http://10.0.0.1:2380,b=http://10.0.0.2:2380", "--initial-advertise-peer-urls=http://10.0.0.9:2380"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := o.config(slog.New(slog.DiscardHandler), nil)
		if err != nil {
			return err
		}
		cfg.Node.PeerListener.Close()
		for _, l := range cfg.Clients {
			l.Close()
		}
		if got := cfg.Node.Peers["a"]; got != "http://10.0.0.9:2380" {
			t.Errorf("it starts at %s", got)
		}
		return nil
	}
	if err := config(); err == nil || !strings.Contains(err.Error(), "they must agree") {
		t.Errorf("at the first start: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := config(); err != nil {
		t.Errorf("later: %v", err)
	}
}

// A member that has joined starts again by the flags of its first start, though it is alone in them: it asks no
// other for its ID.
func TestServeWhereAMemberHasJoined(t *testing.T) {
	dir := t.TempDir()
	config := func() error {
		o, err := parse(t, []string{"--name=a", "--listen-client-urls=http://127.0.0.1:0", "--listen-peer-urls=http://127.0.0.1:0", "--data-dir=" + dir, "--initial-cluster-state=existing"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := o.config(slog.New(slog.DiscardHandler), nil)
		if err != nil {
			return err
		}
		cfg.Node.PeerListener.Close()
		for _, l := range cfg.Clients {
			l.Close()
		}
		return nil
	}
	if err := config(); err == nil || !strings.Contains(err.Error(), "must name other members") {
		t.Errorf("at the first start: %v, want that it needs others to be asked", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := config(); err != nil {
		t.Errorf("later: %v", err)
	}
}

// A slash at the end of a member's URL makes no other URL of it: the IDs of the first members follow from their URLs.
func TestServeWhereAMembersURLEndsInASlash(t *testing.T) {
	for _, tt := range [][2]string{
		{"http://10.0.0.1:2380/", "a=http://10.0.0.1:2380,b=http://10.0.0.2:2380/"},
		{"http://10.0.0.1:2380", "a=http://10.0.0.1:2380/,b=http://10.0.0.2:2380"},
		{"http://10.0.0.1:2380", "a=http://10.0.0.1:2380,b=http://10.0.0.2:2380"},
	} {
		o, err := parse(t, []string{"--name=a", "--listen-client-urls=http://127.0.0.1:0", "--listen-peer-urls=http://127.0.0.1:0", "--data-dir=" + t.TempDir(),
			"--initial-advertise-peer-urls=" + tt[0], "--initial-cluster=" + tt[1]}, nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := o.config(slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Errorf("%q do not start: %v", tt, err)
			continue
		}
		cfg.Node.PeerListener.Close()
		for _, l := range cfg.Clients {
			l.Close()
		}
		if got := cfg.Node.Peers; got["a"] != "http://10.0.0.1:2380" || got["b"] != "http://10.0.0.2:2380" {
			t.Errorf("%q start among %v", tt, got)
		}
	}
}
