package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-lease/tenure/internal/cli"
)

// A server is measured beside another, in each case and run, and the page of it says how.
func TestBenchServerBesideAnother(t *testing.T) {
	at, beside := startServer(t), startServer(t)
	others := keysOf(t, at, "kept")
	page := filepath.Join(t.TempDir(), "page.html")
	args := []string{"bench", "server", "--at", "etcd://" + at, "--beside", "http://" + beside, "--cases", "put-1,get-leader", "--clients", "2", "--runs", "2", "--duration", "30ms"}
	got := jsonOf[serverBenched](t, append(args, "--report", page)...)
	var order []string
	for _, r := range got.Runs {
		order = append(order, r.Case+" "+r.Target)
		if r.Rate <= 0 || r.P50 <= 0 {
			t.Errorf("a run is %+v, want a rate and latencies", r)
		}
	}
	if want := []string{
		"put-1 at", "put-1 beside", "get-leader at", "get-leader beside", "put-1 beside", "put-1 at", "get-leader beside", "get-leader at",
	}; !slices.Equal(order, want) {
		t.Errorf("the runs are %q, want %q", order, want)
	}
	if len(got.Medians) != 4 || got.Medians[0].Run != 2 || got.Clients != 2 || got.Seconds != 0.03 {
		t.Errorf("printed is %+v, want four medians of two runs of two clients for 0.03 s", got)
	}
	for name, addr := range map[string]string{"at": at, "beside": beside} {
		if !strings.HasPrefix(got.Servers[name], "etcd://"+addr+", 1 members, version 3.") {
			t.Errorf("server %q is %q, want its address, members and version", name, got.Servers[name])
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Medians of 2 runs", "than that of etcd://" + beside, "<svg", got.Servers["at"], got.Servers["beside"], got.Machine,
		"tenure bench server --at etcd://" + at + " --clients 2 --runs 2 --duration 30ms --beside etcd://" + beside + " --cases put-1,get-leader",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	out, err := command(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	if left := keysOf(t, at); !slices.Equal(left, others) {
		t.Errorf("the keys are %q afterwards, want those that were there before, %q", left, others)
	}
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 5 || !strings.Contains(lines[0], "ops/s") || !strings.Contains(lines[2], "beside") {
		t.Errorf("the table is\n%s\nwant a line for each case and server", out)
	}
}

// keysOf puts some keys, and returns all that a server has.
func keysOf(t *testing.T, addr string, put ...string) (keys []string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, key := range put {
		if _, err := client.Put(t.Context(), key, ""); err != nil {
			t.Fatal(err)
		}
	}
	all, err := client.Get(t.Context(), "", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// Alone a server is compared with nothing.
func TestBenchServerAlone(t *testing.T) {
	out, err := command(t, "bench", "server", "--at", "etcd://"+startServer(t), "--cases", "put-1", "--runs", "1", "--duration", "20ms")
	if fields := strings.Fields(out); err != nil || !slices.Contains(fields, "put-1") || slices.Contains(fields, benchedBeside) {
		t.Errorf("the table is\n%s, %v; want put-1 of one server", out, err)
	}
}

// A command line that makes no sense is refused before anything is measured.
func TestBenchServerRefuses(t *testing.T) {
	at := []string{"bench", "server", "--at", "etcd://127.0.0.1:1"}
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--cases", "puts"}, "--cases puts: want parts of put, put-1, get-leader"},
		{[]string{"--clients", "0"}, "want at least 1 of each"}, {[]string{"--runs", "0"}, "want at least 1 of each"},
		{[]string{"--duration", "0s"}, "--duration 0s: want some time"},
		{[]string{"--beside", "file:///tmp"}, "--beside file:///tmp is no server's URL: write http://host:port"},
		{[]string{"--report", filepath.Join(t.TempDir(), "none", "r.html")}, "--report: open "},
		{[]string{"--beside", "https://a:1?cacert=/none"}, "/none"},
	} {
		out, err := command(t, append(at, tt.args...)...)
		wantRefused(t, err, tt.says)
		if out != "" {
			t.Errorf("%q prints %q", tt.args, out)
		}
	}
}

// Servers that do not answer are an error with their address, and no page is left.
func TestBenchServerThatDoesNotAnswer(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	_, err := command(t, "bench", "server", "--at", "etcd://127.0.0.1:1", "--report", page)
	wantExit(t, err, cli.ExitUnavailable)
	if err == nil || !strings.Contains(err.Error(), "no answer from 127.0.0.1:1") {
		t.Errorf("the error is %v, want the address that does not answer", err)
	}
	if _, err := os.Stat(page); !os.IsNotExist(err) {
		t.Errorf("the page is there (%v), though nothing was measured", err)
	}
}
