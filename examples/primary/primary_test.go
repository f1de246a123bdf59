package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// argsVariable makes the test's program a process of the service.
const argsVariable = "PRIMARY_TEST_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(argsVariable); args != "" {
		a := strings.Fields(args)
		fmt.Println(run(context.Background(), options{
			peer: a[0], peers: a[1], listen: a[2], replicas: a[3], first: a[4] == "first",
			tmax: 2 * time.Second, epsilon: 20 * time.Millisecond,
		}))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// group is the service.
type group struct {
	t               *testing.T
	peers, replicas []string
	processes       []*exec.Cmd
	client          *http.Client
}

func (g *group) start(i int, first string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), argsVariable+"="+strings.Join([]string{
		g.peers[i], strings.Join(g.peers, ","), g.replicas[i], strings.Join(g.replicas, ","), first}, " "))
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	g.processes[i] = cmd
}

// stop stops process i. The signal does so only when each of its threads has had a turn.
func (g *group) stop(i int) {
	p := g.processes[i].Process
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		g.t.Fatal(err)
	}
	for {
		var s syscall.WaitStatus
		_, err := syscall.Wait4(p.Pid, &s, syscall.WUNTRACED, nil)
		if err == nil && s.Stopped() {
			return
		}
		if err != nil && err != syscall.EINTR {
			g.t.Fatal(err)
		}
	}
}

// count counts one more by way of process i, and returns the count and the primary. It
// tries until there is one.
func (g *group) count(i int) (n, primary int) {
	g.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		r, err := g.client.Post("http://"+g.replicas[i]+"/", "", nil)
		if err != nil {
			continue
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != http.StatusOK || err != nil {
			continue
		}
		if n, err = strconv.Atoi(strings.TrimSpace(string(body))); err != nil {
			g.t.Fatal(err)
		}
		for primary = range g.replicas {
			if g.replicas[primary] == r.Request.URL.Host {
				return n, primary
			}
		}
	}
	g.t.Fatal("nothing was counted for a minute")
	return 0, 0
}

// addresses finds free addresses that nobody takes by chance while a process is down: none
// is from the range of ports that the system gives to clients.
func addresses(t *testing.T, n int) (list []string) {
	t.Helper()
	for tries := 0; len(list) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000)))
		if err == nil {
			list = append(list, l.Addr().String())
			defer l.Close()
		} else if tries > 1000 {
			t.Fatal(err)
		}
	}
	return list
}

// TestPrimary kills one primary and stops another: the count goes on, and neither a process
// that wakes up nor one that was started anew takes it back.
func TestPrimary(t *testing.T) {
	g := &group{t: t, processes: make([]*exec.Cmd, 3), client: &http.Client{Timeout: time.Second}}
	t.Cleanup(g.client.CloseIdleConnections)
	all := addresses(t, 6)
	g.peers, g.replicas = all[:3], all[3:]
	for i := range 3 {
		g.start(i, "first")
	}
	last := 0
	count := func(i int) int {
		t.Helper()
		n, primary := g.count(i)
		// A request that failed may have counted.
		if n <= last {
			t.Errorf("%d after %d", n, last)
		}
		last = n
		return primary
	}
	first := count(0)
	count(1)
	if err := g.processes[first].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = g.processes[first].Wait()
	second := count((first + 1) % 3)
	if second == first {
		t.Errorf("process %d counts though it was killed", second)
	}
	g.start(first, "again")
	count(second) // which the one that was started anew may store, or not
	third := 3 - first - second
	var paused sync.WaitGroup
	defer paused.Wait()
	// A majority has to be there without the one that is stopped.
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if r, err := g.client.Get("http://" + g.replicas[first] + "/"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK { // its peer is not silent any more
				break
			}
		}
	}
	for range 20 { // one of them is stored there, once it has heard of the primary
		count(second)
		time.Sleep(50 * time.Millisecond)
	}
	g.stop(second)
	if p := count(third); p == second {
		t.Errorf("process %d counts though it was stopped", p)
	}
	if err := g.processes[second].Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	count(second)
}

// TestReplicaIsFenced: nothing of an older primary is stored once a newer one was here.
func TestReplicaIsFenced(t *testing.T) {
	var r Replica
	if !r.Store(Entry{Token: 5, Seq: 1, Count: 7}) {
		t.Error("the first is refused")
	}
	if e, ok := r.Promise(6); !ok || e.Count != 7 {
		t.Errorf("a newer primary is told %+v, %v", e, ok)
	}
	if r.Store(Entry{Token: 5, Seq: 2, Count: 8}) {
		t.Error("an older primary's write is stored")
	}
	if _, ok := r.Promise(5); ok {
		t.Error("an older primary is promised something")
	}
	if e, ok := r.Promise(6); !ok || e.Count != 7 {
		t.Errorf("the newer primary is told %+v, %v", e, ok)
	}
	blank := Replica{blank: true}
	if _, ok := blank.Promise(9); ok {
		t.Error("one that has forgotten vouches for nothing being there")
	}
	if blank.Store(Entry{Token: 3, Seq: 1}) {
		t.Error("one that has forgotten whom it promised itself to stores for anybody")
	}
	blank.Rejoin(4)
	if blank.Store(Entry{Token: 3, Seq: 1}) || !blank.Store(Entry{Token: 4, Seq: 1}) {
		t.Error("one that knows the primary stores for the one before, or not for the primary itself")
	}
	if _, ok := blank.Promise(5); !ok {
		t.Error("one that was told what there is vouches for nothing")
	}
}
