package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
)

// A served is a member in a process of its own.
type served struct {
	cmd *exec.Cmd
	log lockedBuffer
	url string // for clients
}

// serveProcess starts a member of one with more flags, and waits until it is ready.
func serveProcess(t *testing.T, environ []string, args ...string) *served {
	t.Helper()
	addr := freeAddresses(t, 2)
	s := &served{url: "http://" + addr[0]}
	s.cmd = exec.Command("tenure", append([]string{
		"serve", "--name", "one", "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen-client-urls", s.url,
		"--listen-peer-urls", "http://" + addr[1], "--initial-advertise-peer-urls", "http://" + addr[1],
	}, args...)...)
	s.cmd.Env, s.cmd.Stderr = append(os.Environ(), environ...), &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	s.await(t, "ready to serve client requests")
	return s
}

// await waits until the log has a text.
func (s *served) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(s.log.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %q in\n%s", text, s.log.String())
		}
	}
}

// end waits until the process has ended, and returns its exit code.
func (s *served) end(t *testing.T) int {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() })
	err := s.cmd.Wait()
	if !late.Stop() {
		t.Fatalf("it does not end:\n%s", s.log.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

// logged returns the first line of a JSON log with a message.
func (s *served) logged(msg string) (line map[string]any) {
	for text := range strings.Lines(s.log.String()) {
		var l map[string]any
		if json.Unmarshal([]byte(text), &l) == nil && l["msg"] == msg {
			return l
		}
	}
	return nil
}

// A member says when it is ready, and where; a signal that asks for the end ends it, with 0. Settings
// that it does not know, or that have no effect, are told.
func TestServeEndsBySignals(t *testing.T) {
	for level, sig := range map[string]syscall.Signal{"": syscall.SIGTERM, "info": syscall.SIGINT} {
		s := serveProcess(t, []string{"TENURE_NMAE=a", "GRPC_GO_LOG_SEVERITY_LEVEL=" + level}, "--snapshot-count", "5", "--logger", "zap")
		if err := s.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code := s.end(t); code != 0 {
			t.Errorf("%v ends it with %d, want 0", sig, code)
		}
		ready := s.logged("ready to serve client requests")
		if urls, ok := ready["clients"].([]any); !ok || len(urls) != 1 || urls[0] != s.url || ready["name"] != "one" || ready["member"] == "" || ready["cluster"] == "" {
			t.Errorf("ready is told as %v, want the name, the member, the cluster and where clients find it, %s", ready, s.url)
		}
		if stopping := s.logged("stopping"); stopping["signal"] != sig.String() || s.logged("stopped") == nil {
			t.Errorf("%v is told as %v, want the signal, and the end:\n%s", sig, stopping, s.log.String())
		}
		if got := strings.Contains(s.log.String(), "INFO: [core]"); got != (level != "") {
			t.Errorf("with the level %q of gRPC's own log this is there: %v\n%s", level, got, s.log.String())
		}
		if s.logged("systemd was not told") != nil {
			t.Errorf("systemd has not started it, and it says that it was not told:\n%s", s.log.String())
		}
		for _, says := range []string{
			"tenure: settings of etcd's that have no effect here: logger, snapshot-count\n", "tenure: variables that are no settings: TENURE_NMAE\n",
		} {
			if !strings.Contains(s.log.String(), says) {
				t.Errorf("it does not say %q:\n%s", says, s.log.String())
			}
		}
	}
}

// A member that ends before it has found a leader has never been ready.
func TestAMemberThatIsNotReadyDoesNotSaySo(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	o, err := parse(t, []string{
		"--name", "a", "--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0",
		"--initial-cluster", "a=http://localhost:2380,b=http://127.0.0.1:1", "--log-outputs", log,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := serve(ctx, o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "stopped") || strings.Contains(string(text), "ready to serve") {
		t.Errorf("a member without a leader says %s, %v; want its end, and not that it is ready", text, err)
	}
}

// That systemd cannot be told is logged; that there is none is no trouble.
func TestSystemdThatIsNotThere(t *testing.T) {
	for socket, want := range map[string]string{"": "", filepath.Join(t.TempDir(), "none"): `level=WARN msg="systemd was not told" state="READY=1" err=`} {
		t.Setenv("NOTIFY_SOCKET", socket)
		var log bytes.Buffer
		notify(slog.New(slog.NewTextHandler(&log, nil)), "READY=1")
		if got := log.String(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("with systemd at %q the log says %q, want %q", socket, got, want)
		}
	}
}

// A member that is told to end gives calls that are under way five seconds. A second signal, half a second after the
// first or later, stops it at once, with 1.
func TestServeGivesCallsTime(t *testing.T) {
	s := busyServe(t)
	begun := time.Now()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if code, took := s.end(t), time.Since(begun); code != 0 || took < 5*time.Second {
		t.Errorf("it ends with %d after %v, and a call was under way; want 0 after 5s", code, took)
	}
	s = busyServe(t)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	go func() { // more than one: on a busy machine the process may see the first late, and then the next as its echo
		for s.cmd.Process.Signal(syscall.SIGINT) == nil {
			<-time.After(echo / 5)
		}
	}()
	if code := s.end(t); code != 1 || !strings.Contains(s.log.String(), "tenure: stopped at once by a second signal\n") {
		t.Errorf("two signals end it with %d, want 1, and that it was stopped at once:\n%s", code, s.log.String())
	}
}

// busyServe is a member with a call that waits for a lock.
func busyServe(t *testing.T) *served {
	t.Helper()
	s := serveProcess(t, nil)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	session, err := concurrency.NewSession(client)
	if err != nil {
		t.Fatal(err)
	}
	mutex := concurrency.NewMutex(session, "l")
	if err := mutex.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = v3lockpb.NewLockClient(client.ActiveConnection()).Lock(context.Background(), &v3lockpb.LockRequest{Name: []byte("l")})
	}()
	for {
		got, err := client.Get(t.Context(), "l/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		if got.Count == 2 {
			break
		}
	}
	return s
}

// A member keeps below the memory that the machine has for it.
func TestServeRespectsMemory(t *testing.T) {
	limit := memoryLimit(os.DirFS("/"))
	if limit == 0 {
		t.Skip("nothing says how much memory this machine has")
	}
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "")
	o, err := parse(t, []string{"--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0", "--log-level", "error"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serve(ctx, o); err != nil {
		t.Fatal(err)
	}
	if got := debug.SetMemoryLimit(-1); got != limit/10*9 {
		t.Errorf("the collector keeps below %d bytes, want nine tenths of %d", got, limit)
	}
}

// A log has the level and the form that are asked for.
func TestServeLogs(t *testing.T) {
	for _, tt := range []struct {
		level, format string
		lines         int // of one at each level
		json          bool
	}{
		{"debug", "json", 4, true}, {"info", "json", 3, true}, {"warn", "console", 2, false}, {"error", "text", 1, false}, {"info", "auto", 3, true},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		o, err := parse(t, []string{"--log-level", tt.level, "--log-format", tt.format}, nil)
		if err != nil {
			t.Fatal(err)
		}
		logger, err := o.log.Logger(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			logger.Log(t.Context(), level, "said")
		}
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := bytes.Cut(text, []byte("\n"))
		if n := bytes.Count(text, []byte("\n")); n != tt.lines || json.Valid(first) != tt.json {
			t.Errorf("at level %s as %s the log of one line at each level is\n%s\nwant %d lines, JSON: %v", tt.level, tt.format, text, tt.lines, tt.json)
		}
	}
	for flag, value := range map[string]string{"--log-level": "loud", "--log-format": "xml"} {
		o, err := parse(t, []string{flag, value}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.log.Logger(os.Stderr); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s %s: %v, want it refused", flag, value, err)
		}
	}
}

// A word that belongs to no flag is refused: it may be the value of a switch, which would be taken as set.
func TestServeTakesNoWords(t *testing.T) {
	_, err := command(t, "serve", "--client-cert-auth", "false")
	wantRefused(t, err, `"false" is not a flag; a switch that has a value is written --NAME=false`)
}

// Fields that the configuration of a member leaves open follow from the rest of it.
func TestServeFillsIn(t *testing.T) {
	t.Chdir(t.TempDir())
	local := []string{"--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0,http://localhost:0"}
	with := func(more ...string) []string { return append(slices.Clone(local), more...) }
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	odd := errors.New("odd")
	var failed error
	o, err := parse(t, with("--name", "a", "--initial-advertise-peer-urls", "http://db1:7", "--auto-compaction-mode", "revision", "--auto-compaction-retention", "9"), nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := o.config(logger, func(err error) { failed = err })
	if err != nil {
		t.Fatal(err)
	}
	cfg.Node.PeerListener.Close()
	for _, l := range cfg.Clients {
		l.Close()
	}
	if n := cfg.Node; n.DataDir != "a.tenure" || len(n.Peers) != 1 || n.Peers["a"] != "http://db1:7" || !slices.Equal(n.ClientURLs, []string{"http://127.0.0.1:0", "http://localhost:0"}) {
		t.Errorf("directory %q, peers %v, URLs for clients %v; want a.tenure, itself alone, and where it listens", n.DataDir, n.Peers, n.ClientURLs)
	}
	if len(cfg.Clients) != 2 || cfg.History.Revisions != 9 || cfg.History.Period != 0 {
		t.Errorf("%d listeners for clients, history %+v; want two, and 9 revisions", len(cfg.Clients), cfg.History)
	}
	if cfg.Node.Logger != logger {
		t.Error("the member does not log where serve does")
	}
	if cfg.Node.Fail != nil {
		cfg.Node.Fail(odd)
	}
	if failed != odd {
		t.Errorf("a member that cannot go on says %v, want %v", failed, odd)
	}
	for says, args := range map[string][]string{
		"a member has one URL for the others": with("--initial-advertise-peer-urls", "http://a:1,http://b:1"),
		"no URL to listen on":                 {"--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "ftp://127.0.0.1:0"},
	} {
		o, err := parse(t, args, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.config(logger, func(error) {}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want it refused: %s", args, err, says)
		}
	}
}

// The list of members may have spaces behind its commas.
func TestServeListsOfMembers(t *testing.T) {
	got, err := parseCluster("a=http://a:1, b=http://b:1")
	if err != nil || len(got) != 2 || got["b"] != "http://b:1" {
		t.Errorf("got %v, %v, want a and b", got, err)
	}
}
