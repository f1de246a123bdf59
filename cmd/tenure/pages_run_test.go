package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unrun are the commands of the pages that no test runs. Each is marked in its page, with the reason.
var unrun = map[string][]string{
	"README.md": {
		"git clone https://github.com/tenure-lease/tenure && cd tenure",
		"go build -o bin/tenure ./cmd/tenure",
		"go test ./...",
	},
	"docs/cluster.md": {
		"tenure serve                                   # on localhost:2379; etcdctl put greeting hello works",
	},
	"docs/command.md": {
		"tenure elect db --listen             # the leaders of one election; (vacant) when nobody leads",
		"tenure lease break nightly",
		"tenure lease break nightly --token 1274 --yes",
		"tenure lease list --watch            # a line for each change of holders, until Ctrl-C",
		"tenure lease list --watch -o json    # each line an object: time, name, holders, waiting",
		"tenure lock nightly --at etcd://10.0.0.1 --user app --password-file /etc/tenure/password -- ./backup.sh",
		"tenure status --at etcds://10.0.0.1:2379?cacert=/etc/tenure/ca.pem --user root",
	},
	"docs/flease.md": {
		"tenure lock nightly --at flease:///run/tenure/peer.sock -- ./backup.sh",
		"tenure peer --self a:7000 --peers a:7000,b:7000,c:7000      # on a; likewise on b and c",
	},
	"docs/install.md": {
		"docker build -f dist/container/Dockerfile -t tenure .",
		"docker compose -f dist/container/compose.yaml up",
		"kubectl apply -f dist/kubernetes/statefulset.yaml",
		"make deb                                       # bin/tenure_VERSION_ARCH.deb",
		"make static                                    # bin/static/tenure; the same sources make the same bytes",
		"sudo dpkg -i bin/tenure_*.deb",
		"sudo install bin/static/tenure /usr/local/bin/",
		"sudo systemctl enable --now tenure             # returns when a majority of the members is there",
	},
	"docs/library.md": {
		"go get github.com/tenure-lease/tenure",
		"go mod edit -replace github.com/tenure-lease/tenure=../tenure",
		"go mod init example.com/lead",
		"go mod tidy && go run .",
	},
	"docs/performance.md": {
		"tenure bench server --at etcd://10.0.0.1:2379 --beside http://10.0.0.9:2379 --report server.html",
	},
	"docs/security.md": {
		"etcdctl auth enable",
		"etcdctl role add app",
		"etcdctl role grant-permission app --prefix=true readwrite /app/",
		"etcdctl user add app",
		"etcdctl user add root",
		"etcdctl user grant-role app app",
		"etcdctl user grant-role root root",
	},
	"docs/wide-area.md": {
		"tenure serve … --read-lease cost --read-lease-order key --read-lease-ttl 1s",
	},
}

// The commands of README.md and docs/*.md do what they say: each page is one session of a shell, in
// an empty directory, as its reader would type it. A block between fences of sh, or one that is
// indented, is for the shell.
func TestPagesRun(t *testing.T) {
	server := startServer(t)
	for _, page := range pagesOf(t) {
		all, mistakes := blocks(page, textOf(t, page))
		for _, mistake := range mistakes {
			t.Error(mistake)
		}
		var left []string
		script, any := "set -e\n", false
		for _, b := range all {
			if b.language != "sh" {
				continue
			}
			script += fmt.Sprintf("echo '%s:%d:' >&2\n", b.page, b.line)
			for _, line := range b.lines {
				if why, ok := b.unrun[line]; ok {
					t.Logf("%s: not run: %s: %s", page, line, why)
					left = append(left, line)
					continue
				}
				script, any = script+line+"\n", true
			}
		}
		slices.Sort(left)
		if !slices.Equal(left, unrun[page]) {
			t.Errorf("%s marks as not run %q, want %q", page, left, unrun[page])
		}
		if any {
			t.Run(page, func(t *testing.T) {
				t.Parallel()
				play(t, page, standIns(t, server).Replace(script), server)
			})
		}
	}
	for page := range maps.Keys(unrun) {
		if _, err := os.Stat(filepath.Join("../..", page)); err != nil {
			t.Error(err)
		}
	}
}

// standIns are what the readers of the pages have and a test has not: mounts, hosts, and ports that are
// free.
func standIns(t *testing.T, server string) *strings.Replacer {
	t.Helper()
	return strings.NewReplacer(
		"file:///mnt/", "file://$PWD/mnt/", ",/mnt/", ",$PWD/mnt/",
		"etcd://10.0.0.1,10.0.0.2", "etcd://"+server,
		"2379", prefix(t, 4, "1", "2", "3"), "2380", prefix(t, 4, "1", "2", "3"), // behind 1, 2 and 3
		"tokyo", "one", // the server's only member
		"localhost:700", "localhost:"+prefix(t, 0, "1", "2", "3", "4"),
		"127.0.0.1:710", "127.0.0.1:"+prefix(t, 0, "1", "2", "3"),
	)
}

// prefix returns digits with which each of the others makes a free port: behind them, or before if
// the digits are four.
func prefix(t *testing.T, digits int, others ...string) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		listener.Close()
		made := port[:len(port)-1]
		if digits > 0 {
			made = port[len(port)-digits:]
		}
		if !slices.ContainsFunc(others, func(other string) bool {
			port := made + other
			if digits > 0 {
				port = other + made
			}
			listener, err := net.Listen("tcp", "127.0.0.1:"+port)
			if err == nil {
				listener.Close()
			}
			return err != nil
		}) {
			return made
		}
	}
	t.Fatal("no ports are free")
	return ""
}

// play runs a page.
func play(t *testing.T, page, script, server string) {
	t.Helper()
	// Sockets are below it: its path has to be short.
	dir, err := os.MkdirTemp("", "page")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"backup.sh":      "#!/bin/sh\necho backup with token $TENURE_TOKEN\n",
		"bin/go":         "#!/bin/sh\ncd " + root + " && exec " + goCommand + ` "$@"` + "\n", // in the checkout
		"bin/tenure-lab": "#!/bin/sh\nexec go run ./cmd/tenure-lab \"$@\"\n",
		"home/.profile":  "", "mnt/a/x": "", "mnt/b/x": "", "mnt/c/x": "", "mnt/shared/leases/x": "",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(name) == "x" {
			os.Remove(path)
		}
	}
	variables, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOFLAGS").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Split(string(variables), "\n")
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh", "-c", script)
	shell.Dir, shell.Stdout, shell.Stderr = dir, out, out
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with what it leaves in the background
	shell.Env = append(os.Environ(), "HOME="+dir+"/home", "PATH="+dir+"/bin:"+os.Getenv("PATH"), "PWD="+dir, "XDG_STATE_HOME=",
		"GOCACHE="+caches[0], "GOMODCACHE="+caches[1], "GOFLAGS="+caches[2], "TENURE_AT=", "GORACE=atexit_sleep_ms=10")
	if page == "docs/read-leases.md" {
		shell.Env = append(shell.Env, "TENURE_AT=etcd://"+server)
	}
	failed := shell.Run()
	group := -shell.Process.Pid
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = syscall.Kill(group, sig)
		for end := time.Now().Add(10 * time.Second); syscall.Kill(group, 0) == nil && time.Now().Before(end); {
			<-time.After(20 * time.Millisecond)
		}
	}
	said, err := os.ReadFile(out.Name())
	if failed != nil || err != nil {
		t.Errorf("%v, %v: the last line with a page's name says which block failed:\n%s", failed, err, said)
	}
	for _, want := range says[page] {
		if !bytes.Contains(said, []byte(want)) {
			t.Errorf("%s does not say %q, but:\n%s", page, want, said)
		}
	}
	if testing.Verbose() {
		t.Logf("%s", said)
	}
}

// says are words of what the commands of a page print.
var says = map[string][]string{
	"README.md":              {"backup with token "},
	"docs/broadcast.md":      {"1\thello\n", "2\tworld\n", "order numbers 3000 to 3999 are ours", "4=localhost:"},
	"docs/flease.md":         {"token "},
	"docs/cluster.md":        {", leader ", "token "},
	"docs/periodic.md":       {"backup with token "},
	"docs/storage-leases.md": {"backup with token ", "(free)", "host-1\nhost-1\nhost-1\n"},
	"docs/read-leases.md":    {"prefix:/jp/"},
}
