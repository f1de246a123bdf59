package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

const childEnv = "PEER_TEST_CHILD" // the address of member 1

// childMain is member 2 in a process of its own. It sends back what it gets and
// ends with its standard input.
func childMain() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	var t *Transport
	ready := make(chan struct{})
	t, err = start(Config{
		Self: 2, ClusterID: 77, Listener: ln,
		Peers:  map[machine.NodeID]string{1: os.Getenv(childEnv)},
		Logger: slog.New(slog.DiscardHandler),
		Deliver: func(from machine.NodeID, msgs [][]byte) {
			<-ready
			for _, m := range msgs {
				t.Send(from, append([]byte("echo "), m...))
			}
		},
	}, quick)
	if err != nil {
		panic(err)
	}
	close(ready)
	io.Copy(io.Discard, os.Stdin)
}

// startChild starts member 1 here and member 2 in a child process.
func startChild(t *testing.T, tm timing) (*member, *os.Process) {
	t.Helper()
	ln := listen(t, "127.0.0.1:0")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+ln.Addr().String())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		stdin.Close()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	m := newMember(t, 1, ln, map[machine.NodeID]string{2: strings.TrimSpace(line)}, tm, nil)
	m.wait("up 2")
	poll(t, "the child's connection", func() bool { return m.Send(2, []byte("hi")) && m.Stats(2).MessagesReceived > 0 })
	return m, cmd.Process
}

func TestKilledProcessIsDownAtOnce(t *testing.T) {
	tm := quick
	tm.silence = time.Hour // it must not take a timeout
	m, child := startChild(t, tm)
	killed := time.Now()
	if err := child.Kill(); err != nil {
		t.Fatal(err)
	}
	m.wait("down 2")
	t.Logf("Down after %v", time.Since(killed))
}

func TestStoppedProcessIsNotDown(t *testing.T) {
	tm := quick
	tm.silence = 300 * time.Millisecond
	m, child := startChild(t, tm)
	if err := child.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer child.Signal(syscall.SIGCONT)
	taken := m.Stats(2).MessagesSent
	for range 500 { // more than the kernel takes
		if m.Send(2, make([]byte, 100_000)) {
			taken++
		}
	}
	poll(t, "the silence to be noticed", func() bool { return !m.Stats(2).Connected })
	poll(t, "the reason", func() bool { return errors.Is(m.Stats(2).LastError, errTooQuiet) })
	m.waitLog("connection from member ended") // the incoming one too
	if q := m.Stats(2).QueueBytes; q != 0 {
		t.Errorf("%d bytes are kept for a peer that is not there", q)
	}
	m.wait("unreachable 2")
	if s := m.Stats(2); s.MessagesDropped == 0 || s.MessagesSent+s.MessagesDropped < taken {
		t.Errorf("%d messages sent and %d dropped of %d", s.MessagesSent, s.MessagesDropped, taken)
	}
	if n := m.count("down 2"); n != 0 {
		t.Error("a stopped process was taken for a dead one")
	}
	if err := child.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	m.waitCount("up 2", 2)
	poll(t, "an echo", func() bool {
		m.Send(2, []byte("awake"))
		m.mu.Lock()
		defer m.mu.Unlock()
		got := m.got[2]
		return len(got) > 0 && got[len(got)-1] == "echo awake"
	})
}
