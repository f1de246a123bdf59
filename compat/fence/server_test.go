package fence

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/lib/pq"
)

const table = "CREATE TABLE fence (resource VARCHAR(512) PRIMARY KEY, token BIGINT NOT NULL)"

// find looks for a program on PATH and where Debian keeps it.
func find(t *testing.T, name, pkg, where string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return path
		}
	}
	if found, _ := filepath.Glob(where); len(found) > 0 {
		return found[len(found)-1]
	}
	t.Skipf("no %s on this machine: install Debian's package %s to run this test", name, pkg)
	return ""
}

// asNobody gives the process, and the directory that it needs, to another user than root,
// under whom database servers refuse to run.
func asNobody(t *testing.T, cmd *exec.Cmd, dir string) *exec.Cmd {
	t.Helper()
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(cmd.SysProcAttr)
	if os.Getuid() != 0 {
		return cmd
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("a database server does not run as root, and there is no user nobody")
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return cmd
}

// directory makes one that any user can reach.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fence")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// serve runs a server for as long as the test, and waits until it answers.
func serve(t *testing.T, cmd *exec.Cmd, driver, dsn string) *sql.DB {
	t.Helper()
	log := filepath.Join(cmd.Dir, "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if err = db.PingContext(context.Background()); err == nil {
			break
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log)
			t.Fatalf("the server does not answer: %v\n%s", err, said)
		}
	}
	if _, err := db.Exec(table); err != nil {
		t.Fatal(err)
	}
	return db
}

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func mariadb(t *testing.T) *sql.DB {
	server := find(t, "mariadbd", "mariadb-server", "/usr/sbin/mariadbd")
	install := find(t, "mariadb-install-db", "mariadb-server", "/usr/bin/mariadb-install-db")
	dir := directory(t)
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "socket")
	run(t, asNobody(t, exec.Command(install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db"), dir))
	cmd := asNobody(t, exec.Command(server, "--no-defaults", "--datadir="+data, "--socket="+socket, "--skip-networking", "--pid-file="+filepath.Join(dir, "pid"), "--innodb-lock-wait-timeout=20"), dir)
	return serve(t, cmd, "mysql", "root@unix("+socket+")/mysql")
}

func postgres(t *testing.T) *sql.DB {
	server := find(t, "postgres", "postgresql", "/usr/lib/postgresql/*/bin/postgres")
	initdb := find(t, "initdb", "postgresql", "/usr/lib/postgresql/*/bin/initdb")
	dir := directory(t)
	data, port := filepath.Join(dir, "data"), freePort(t)
	run(t, asNobody(t, exec.Command(initdb, "-D", data, "-U", "root", "-A", "trust", "-N"), dir))
	cmd := asNobody(t, exec.Command(server, "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", strconv.Itoa(port)), dir)
	return serve(t, cmd, "postgres", fmt.Sprintf("host=127.0.0.1 port=%d user=root dbname=postgres sslmode=disable", port))
}
