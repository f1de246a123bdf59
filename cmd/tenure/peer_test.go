package main

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// peerFlags are the options that a peer's command line makes.
func peerFlags(t *testing.T, args ...string) (o peerOptions) {
	t.Helper()
	f := pflag.NewFlagSet("peer", pflag.ContinueOnError)
	o.register(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

// Each flag of a peer reaches its place.
func TestPeerFlagsReachTheirEnds(t *testing.T) {
	cfg, mode, err := peerFlags(t, "--self", "b:7000", "--peers", "a:7000,b:7000,c:7000,d:7000", "--bind", "0.0.0.0:7001", "--mode", "640",
		"--t-max", "8s", "--epsilon", "20ms", "--round", "70ms", "--cell", "2", "--cluster", "c1", "--state", "/s", "--clock", "kernel").complete()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ got, want any }{
		"self": {cfg.Self, "b:7000"}, "bind": {cfg.Listen, "0.0.0.0:7001"}, "mode": {int(mode), 0o640}, "t-max": {cfg.TMax, 8 * time.Second},
		"epsilon": {cfg.Epsilon, 20 * time.Millisecond}, "round": {cfg.RoundTimeout, 70 * time.Millisecond}, "cell": {cfg.Replicas, 2},
		"cluster": {cfg.Cluster, "c1"}, "state": {cfg.State, "/s"}, "clock": {cfg.CheckClock, true},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want what the flag says, %v", name, tt.got, tt.want)
		}
	}
	if cfg, _, err := peerFlags(t, "--self", "a:7000", "--peers", "a:7000,b:7000", "--cell", "1").complete(); err != nil || cfg.Replicas != 1 {
		t.Errorf("--cell 1: %d peers coordinate, %v; want one", cfg.Replicas, err)
	}
	cfg, mode, err = peerFlags(t, "--self", "a:7000", "--peers", "a:7000").complete()
	if err != nil || cfg.Replicas != 0 || cfg.RoundTimeout != 0 || cfg.CheckClock || mode != 0o660 || cfg.TMax != flease.DefaultTMax {
		t.Errorf("without flags: %+v, mode %o, %v; want the defaults", cfg, mode, err)
	}
}

// Certificates reach the peer, each from the flag that is named after it.
func TestPeerCertificates(t *testing.T) {
	ca, cert, key := certificates(t)
	complete := func(ca, cert, key string) (*tls.Config, error) {
		cfg, _, err := peerFlags(t, "--self", "a:7000", "--peers", "a:7000,b:7000", "--cacert", ca, "--cert", cert, "--key", key).complete()
		return cfg.TLS, err
	}
	if c, err := complete(ca, cert, key); err != nil || c == nil {
		t.Errorf("with certificates: TLS %v, %v", c != nil, err)
	}
	none := filepath.Join(t.TempDir(), "none")
	for what, files := range map[string][3]string{"no authority": {none, cert, key}, "no certificate": {ca, none, key}, "no key": {ca, cert, none}} {
		if _, err := complete(files[0], files[1], files[2]); err == nil || !strings.Contains(err.Error(), none) {
			t.Errorf("%s: got %v, want that %s cannot be read", what, err, none)
		}
	}
}

// A peer is refused if its flags do not name itself and the others.
func TestPeerRefusals(t *testing.T) {
	who := []string{"--self", "a:1", "--peers", "a:1"}
	for says, args := range map[string][]string{
		"write --self":         {"--peers", "a:1"},
		"write either --peers": {"--self", "a:1"},
		"or --members FILE":    slices.Concat(who, []string{"--members", "f"}),
		"leave --listen away":  slices.Concat(who, []string{"--listen", ""}),
		"where do commands":    slices.Concat(who, []string{"--listen", "", "--bind", "0.0.0.0:1"}),
		"--mode 1000":          slices.Concat(who, []string{"--mode", "1000"}),
	} {
		_, _, err := peerFlags(t, args...).complete()
		if wantRefused(t, err, says); err != nil && strings.Contains(err.Error(), "flease://") {
			t.Errorf("%q: %v tells of a URL that nobody wrote", args, err)
		}
	}
}

// A peer that does not answer is no mistake in the command line.
func TestPeerStatusExitCodes(t *testing.T) {
	dir := t.TempDir()
	_, err := command(t, "peer", "status", "--at", "flease://"+filepath.Join(dir, "none"))
	wantExit(t, err, cli.ExitUnavailable)
	l, err := net.Listen("unix", filepath.Join(dir, "deaf"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	_, err = command(t, "peer", "status", "--at", "flease://"+l.Addr().String())
	wantExit(t, err, cli.ExitUnavailable)
}

// A peer that welcomes a client and then leaves does not answer, either.
func TestAPeerThatLeavesWhenItIsAsked(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "leaves"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan string, 1)
	go func() { asked <- welcome(l, false) }()
	out, err := command(t, "peer", "status", "--at", "flease://"+l.Addr().String())
	wantExit(t, err, cli.ExitUnavailable)
	if op := <-asked; op != "status" || out != "" {
		t.Errorf("a peer is asked for %q, leaves, and printed is %q; want its status, and nothing", op, out)
	}
}

// A peer reports on itself and on others in one line each.
func TestPeerTable(t *testing.T) {
	var b strings.Builder
	s := flease.Status{Self: 1, Addr: "b:1", Epoch: 2, Claims: 3, TMaxMS: 3000, EpsilonMS: 20, SilentMS: 1500, Clock: "the clock is odd"}
	s.Peers = []flease.MemberStatus{{Index: 0, Addr: "a:1", Connected: true, RTTMS: 1.5}, {Index: 2, Addr: "c:1", Error: "one\ntwo"}}
	peerTable(&b, s)
	if strings.Contains(b.String(), "incomplete") {
		t.Errorf("a peer that misses no record says otherwise:\n%s", &b)
	}
	s.Serving, s.Incomplete = true, true
	peerTable(&b, s)
	lines := map[string]bool{}
	for line := range strings.Lines(b.String()) {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"peer 1 at b:1: silent for another 1.5s; epoch 2, 3 claims, t_max 3s, ε 20ms", "peer 1 at b:1: serving; epoch 2, 3 claims, t_max 3s, ε 20ms",
		"0 a:1 true 1.50ms", "2 c:1 false - one; two", "the clock is odd",
		"the records of --every are incomplete until enough of the others have shown theirs",
	} {
		if !lines[want] {
			t.Errorf("no line %q in\n%s", want, &b)
		}
	}
}

// A peer that cannot start leaves no socket behind, at which commands would wait for it.
func TestAPeerThatCannotStartLeavesNoSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.sock")
	cfg := flease.Config{Self: "a:1", Membership: flease.Fixed(flease.Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "b:1"}})}
	var out strings.Builder
	err := runPeer(cfg, peerOptions{listen: path}, 0o600, &out)
	if !errors.Is(err, flease.ErrConfig) || out.Len() > 0 {
		t.Errorf("a peer that is no member ends with %v, and says %q; want %v", err, out.String(), flease.ErrConfig)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a peer that cannot start leaves its socket: %v", err)
	}
}

// A list of peers is found from wherever the command line was written, whatever its name is.
func TestPeersOfAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"peers", "a list,of?peers#50%25"} {
		if err := os.WriteFile(name, []byte("epoch 2\n1 a:7000\n2 b:7000\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := peerFlags(t, "--self", "a:7000", "--members", name).complete()
		if err != nil {
			t.Errorf("a list called %q: %v", name, err)
			continue
		}
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir("/")
		if list, err := cfg.Membership(t.Context(), flease.Members{}); err != nil || list.Epoch != 2 || len(list.Addrs) != 2 || list.Addrs[2] != "b:7000" {
			t.Errorf("a list called %q is read as %+v, %v", name, list, err)
		}
		t.Chdir(dir)
	}
}
