package patroni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// site is what the nodes of a test have in common.
type site struct {
	dir     string
	program string // patroni
	bin     string // PostgreSQL's directory of programs
	owner   *syscall.Credential
	hosts   []string // the members' addresses
}

// newSite finds the programs, or skips the test.
func newSite(t *testing.T, hosts []string) *site {
	t.Helper()
	s := &site{hosts: hosts}
	var err error
	if s.program, err = exec.LookPath("patroni"); err != nil {
		t.Skip("there is no patroni")
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Skip("there is no PostgreSQL")
	}
	s.bin = filepath.Dir(slices.Max(found))
	u, err := user.Lookup("postgres")
	if err != nil || os.Getuid() != 0 {
		t.Skip("the test cannot become the user postgres, and PostgreSQL does not run as root")
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	s.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	// Not t.TempDir: its parents are root's alone, and paths of sockets have to be short.
	if s.dir, err = os.MkdirTemp("", "patroni"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(s.dir) })
	if err := os.Chmod(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// node is a Patroni with its PostgreSQL.
type node struct {
	*site
	name, config, rest string
	cmd                *exec.Cmd
}

// port returns one that is free now.
func port(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (s *site) node(t *testing.T, name string) *node {
	t.Helper()
	home := filepath.Join(s.dir, name)
	n := &node{site: s, name: name, config: filepath.Join(s.dir, name+".yml"), rest: fmt.Sprintf("127.0.0.1:%d", port(t))}
	text := strings.NewReplacer("NAME", name, "REST", n.rest, "HOSTS", strings.Join(s.hosts, ", "), "BIN", s.bin,
		"DATABASE", fmt.Sprintf("127.0.0.1:%d", port(t)), "HOME", home).Replace(`
scope: demo
name: NAME
restapi: {listen: "REST", connect_address: "REST"}
etcd3: {hosts: [HOSTS]}
bootstrap:
  dcs: {ttl: 20, loop_wait: 2, retry_timeout: 3}
  initdb: [{encoding: UTF8}, {auth: trust}]
postgresql:
  listen: DATABASE
  connect_address: DATABASE
  data_dir: HOME/data
  bin_dir: BIN
  pgpass: HOME/pgpass
  authentication: {replication: {username: replicator, password: x}, superuser: {username: postgres, password: x}}
  parameters: {unix_socket_directories: HOME, fsync: "off"}
  pg_hba: [local all all trust, host all all 127.0.0.1/32 trust, host replication replicator 127.0.0.1/32 trust]
`)
	if err := errors.Join(os.Mkdir(home, 0o700), os.Chown(home, int(s.owner.Uid), int(s.owner.Gid)), os.WriteFile(n.config, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	return n
}

func (n *node) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(n.config+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has its own
	n.cmd = exec.Command(n.program, n.config)
	n.cmd.Dir, n.cmd.Stdout, n.cmd.Stderr = n.dir, log, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: n.owner, Setsid: true}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill ends Patroni and its PostgreSQL as a machine that fails does.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	n.cmd = nil
	// PostgreSQL has a session of its own, whose leader is in the file.
	b, _ := os.ReadFile(filepath.Join(n.dir, n.name, "data", "postmaster.pid"))
	if first, _, ok := strings.Cut(string(b), "\n"); ok {
		if pid, err := strconv.Atoi(first); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (n *node) get(ctx context.Context, path string) (status int, body map[string]any) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.rest+path, nil)
	if err != nil {
		return 0, nil
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	_ = json.NewDecoder(resp.Body).Decode(&body)
	return resp.StatusCode, body
}

// primary reports whether the node says that it is the primary.
func (n *node) primary(ctx context.Context) bool {
	status, _ := n.get(ctx, "/primary")
	return status == http.StatusOK
}

// replica reports whether the node says that it is a replica that streams.
func (n *node) replica(ctx context.Context) bool {
	status, _ := n.get(ctx, "/replica")
	return status == http.StatusOK
}

func (n *node) tail() string {
	b, _ := os.ReadFile(n.config + ".log")
	return string(b[max(0, len(b)-3000):])
}
