package main

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Under etcd's name the program is its server.
func TestUnderEtcdsName(t *testing.T) {
	for _, tt := range []struct{ args, want []string }{
		{nil, nil},
		{[]string{"tenure"}, nil},
		{[]string{"/usr/bin/tenure", "status", "-o", "json"}, []string{"status", "-o", "json"}},
		{[]string{"etcd"}, []string{"serve"}},
		{[]string{"/usr/bin/etcd", "--name", "a"}, []string{"serve", "--name", "a"}},
		{[]string{"/opt/etcd/tenure", "status"}, []string{"status"}},
		{[]string{"/usr/bin/etcdctl", "status"}, []string{"status"}},
		{[]string{"etcd.exe", "-version"}, []string{"serve", "-version"}},
	} {
		if got := commandLine(tt.args); !slices.Equal(got, tt.want) {
			t.Errorf("%q is the command line %q, want %q", tt.args, got, tt.want)
		}
	}
}

// Scripts read these lines of etcd's, in this order.
func TestVersionAsEtcdHasIt(t *testing.T) {
	for _, args := range [][]string{{"serve", "--version"}, {"serve", "-version"}} {
		code, out, errs := ran(t, args...)
		lines := strings.Split(out, "\n")
		begin := []string{"etcd Version: ", "Git SHA: ", "Go Version: go1.", "Go OS/Arch: ", "Tenure Version: "}
		if code != 0 || errs != "" || len(lines) != len(begin)+1 {
			t.Fatalf("tenure %q ends with %d, %q and %q", args, code, out, errs)
		}
		for i, want := range begin {
			if !strings.HasPrefix(lines[i], want) || lines[i] == want {
				t.Errorf("tenure %q: line %d is %q, want %q and a value", args, i, lines[i], want)
			}
		}
	}
	v := versions{Tenure: "v1.2.3", Commit: "0123456789abcdef", API: "etcd v3.7.3", Go: "go1.26.0", System: "linux/amd64"}
	want := "etcd Version: 3.7.3\nGit SHA: 012345678\nGo Version: go1.26.0\nGo OS/Arch: linux/amd64\nTenure Version: v1.2.3\n"
	if got := v.etcdLines(); got != want {
		t.Errorf("it prints\n%swant\n%s", got, want)
	}
}

// Etcd's proxies are told as what they are, whatever flags of theirs follow.
func TestNoProxies(t *testing.T) {
	for name, instead := range map[string]string{"gateway": "HAProxy", "grpc-proxy": "under a read lease"} {
		for _, line := range [][]string{{"start"}, {"start", "--endpoints=http://a:2379"}, {"start", "--endpoints", "a:2379", "--listen-addr", "b:1"}, {"--help"}, nil} {
			args := commandLine(append([]string{"/usr/bin/etcd", name}, line...))
			if code, _, errs := ran(t, args...); code != 64 || !strings.Contains(errs, "there is no "+name+" here: clients take a list of the members' URLs") || !strings.Contains(errs, instead) {
				t.Errorf("%s %q: %d, %q; want that it is not here, and %s instead", name, line, code, errs, instead)
			}
		}
	}
	if code, _, errs := ran(t, "serve", "--name", "gateway", "--nosuch"); code != 64 || !strings.Contains(errs, "--nosuch") {
		t.Errorf("a member of a proxy's name: %d, %q; want that there is no flag --nosuch", code, errs)
	}
}

// A unit of Type=notify is told when the server serves, and when it ends.
func TestSystemdIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	told := func(want string) {
		t.Helper()
		_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
		b := make([]byte, 100)
		n, err := socket.Read(b)
		if got := string(b[:n]); err != nil || got != want {
			t.Errorf("systemd is told %q, %v; want %q", got, err, want)
		}
	}
	s := serveProcess(t, []string{"NOTIFY_SOCKET=" + path})
	told("READY=1")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	told("STOPPING=1")
	if code := s.end(t); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	// A socket that is gone keeps no server from serving.
	s = serveProcess(t, []string{"NOTIFY_SOCKET=" + filepath.Join(t.TempDir(), "gone")})
	s.await(t, "systemd was not told")
}
