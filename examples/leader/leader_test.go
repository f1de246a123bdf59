package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/file"
	"github.com/tenure-lease/tenure/leasetest"
)

var spec = func() (s file.Spec) {
	s.TTL, s.Delay, s.SingleHost = 500*time.Millisecond, 5*time.Millisecond, true
	return s
}()

// dirVariable makes the test's program a member of the service.
const dirVariable = "LEADER_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		fmt.Println(run(context.Background(), dir, "127.0.0.1:0", spec))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// member is a process of the service.
type member struct {
	address string
	process *os.Process
}

func start(t *testing.T, dir string) member {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dirVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening at ")
	if !ok {
		t.Fatalf("a member says %q, %v", line, err)
	}
	return member{address, cmd.Process}
}

// count counts one more by way of a member, and returns the count and the member that
// answered. It tries until somebody leads.
func (m member) count(t *testing.T) (n int, by string) {
	t.Helper()
	client := http.Client{Timeout: time.Second} // a stopped one takes requests, and does not answer
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		r, err := client.Post("http://"+m.address, "", nil)
		if err != nil {
			continue
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode == http.StatusOK && err == nil {
			if n, err = strconv.Atoi(strings.TrimSpace(string(body))); err != nil {
				t.Fatal(err)
			}
			return n, r.Request.URL.Host
		}
	}
	t.Fatalf("%s and whom it knows have not counted for a minute", m.address)
	return 0, ""
}

// stop stops a member while it is not within the fence, which keeps everybody out as long as
// anybody is in.
func (m member) stop(t *testing.T, dir string) {
	t.Helper()
	fence, err := os.OpenFile(filepath.Join(dir, "count.token.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fence.Close()
	if err := syscall.Flock(int(fence.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := m.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(m.process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it has not stopped: %v, %v", status, err)
	}
}

// TestLeader kills one leader and stops another: the count goes on where it was, and the
// leader that wakes up does not believe that it still leads.
func TestLeader(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	members := map[string]member{}
	for range 3 {
		m := start(t, dir)
		members[m.address] = m
	}
	others := func(address string) (m member) {
		for a := range members {
			if a != address {
				return members[a]
			}
		}
		t.Fatal("nobody is left")
		return m
	}
	counted := 0
	count := func(m member) (by string) {
		t.Helper()
		n, by := m.count(t)
		// A request that failed may have counted.
		if n <= counted {
			t.Errorf("%d after %d", n, counted)
		}
		counted = n
		return by
	}
	leader := ""
	for _, m := range members { // whomever one asks
		leader = count(m)
	}

	if err := members[leader].process.Kill(); err != nil {
		t.Fatal(err)
	}
	next := count(others(leader))
	if next == leader {
		t.Errorf("%s counts though it was killed", next)
	}
	delete(members, leader)

	stopped := members[next]
	stopped.stop(t, dir)
	if last := count(others(next)); last == next {
		t.Errorf("%s counts though it was stopped", last)
	}
	if err := stopped.process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if by := count(stopped); by == next {
		t.Logf("%s leads again", by) // it may, by a new lease
	}
	text, err := os.ReadFile(filepath.Join(dir, "count"))
	if got, want := strings.TrimSpace(string(text)), strconv.Itoa(counted); got != want || err != nil {
		t.Errorf("the file says %q, %v, want %s", got, err, want)
	}
}

// late is a lease that was checked just before the process was paused.
type late struct{ tenure.Lease }

func (late) Check() error { return nil }

// TestLateLeader has a deposed leader whose Check came just before: the fence refuses it.
func TestLateLeader(t *testing.T) {
	leaser := leasetest.NewMemory().Open()
	defer leaser.Close()
	path := filepath.Join(t.TempDir(), "count")
	service := func(address string) *Service {
		return &Service{Path: path, Election: tenure.Election{Leaser: leaser, Claim: tenure.Claim{Name: "counter", Holder: address}}}
	}
	do := func(s *Service, method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		return w
	}
	lease, err := leaser.Acquire(t.Context(), tenure.Claim{Name: "counter", Holder: "old"})
	if err != nil {
		t.Fatal(err)
	}
	paused, asleep := service("old"), tenure.Lease(late{lease})
	paused.leads.Store(&asleep)
	if w := do(paused, "POST"); w.Code != http.StatusOK || w.Body.String() != "1\n" {
		t.Errorf("the first: %d %s", w.Code, w.Body)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}

	next := service("new")
	if w := do(next, "GET"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("nobody leads: %d %s", w.Code, w.Body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- next.Run(ctx) }()
	for next.leads.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	if w := do(paused, "POST"); w.Code != http.StatusConflict {
		t.Errorf("a write of a deposed leader: %d %s, want it refused", w.Code, w.Body)
	}
	if w := do(service("third"), "POST"); w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != "http://new/" {
		t.Errorf("a process that does not lead: %d, to %q", w.Code, w.Header().Get("Location"))
	}
	if w := do(next, "POST"); w.Code != http.StatusOK || w.Body.String() != "2\n" {
		t.Errorf("the leader: %d %s, want 2", w.Code, w.Body)
	}
	if w := do(next, "GET"); w.Code != http.StatusOK || w.Body.String() != "2\n" {
		t.Errorf("the leader: %d %s, want 2", w.Code, w.Body)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
