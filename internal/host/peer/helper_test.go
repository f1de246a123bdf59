package peer

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	goleak.VerifyTestMain(m)
}

// quick is fast where tests wait and patient where a busy machine may be slow.
var quick = timing{
	handshake:  3 * time.Second,
	ping:       20 * time.Millisecond,
	silence:    3 * time.Second,
	backoffMin: time.Millisecond,
	backoffMax: 20 * time.Millisecond,
}

// member is a transport whose deliveries and events a test waits for.
type member struct {
	*Transport
	t    testing.TB
	addr string
	log  *syncBuffer

	mu     sync.Mutex
	cond   *sync.Cond
	got    map[machine.NodeID][]string
	events []string // "up 2", "down 2", "unreachable 2", "refused 2"
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// newMember starts a member; change, if not nil, edits its configuration.
func newMember(t testing.TB, id machine.NodeID, ln net.Listener, peers map[machine.NodeID]string, tm timing, change func(*Config)) *member {
	t.Helper()
	m := &member{t: t, addr: ln.Addr().String(), log: &syncBuffer{}, got: map[machine.NodeID][]string{}}
	m.cond = sync.NewCond(&m.mu)
	event := func(what string, id machine.NodeID) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.events = append(m.events, fmt.Sprintf("%s %d", what, id))
		m.cond.Broadcast()
	}
	cfg := Config{
		Self: id, ClusterID: 77, Listener: ln, Peers: peers,
		Logger: slog.New(slog.NewTextHandler(m.log, nil)),
		Deliver: func(from machine.NodeID, msgs [][]byte) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, msg := range msgs {
				m.got[from] = append(m.got[from], string(msg))
			}
			m.cond.Broadcast()
		},
		Up:          func(id machine.NodeID) { event("up", id) },
		Down:        func(id machine.NodeID, _ error) { event("down", id) },
		Unreachable: func(id machine.NodeID) { event("unreachable", id) },
		Refused:     func(id machine.NodeID, _ error) { event("refused", id) },
	}
	if change != nil {
		change(&cfg)
	}
	tr, err := start(cfg, tm)
	if err != nil {
		t.Fatal(err)
	}
	m.Transport = tr
	t.Cleanup(func() { m.Close() })
	return m
}

// Close closes the transport, which must not wait for what has no end.
func (m *member) Close() (err error) {
	m.t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		err = m.Transport.Close()
	}()
	late, stop := patience.Begin(m.t)
	defer stop()
	select {
	case <-closed:
		return err
	case <-late.Done():
		m.t.Error("long after it was to close, a transport waits for something that goes on")
		return errors.New("the transport does not close")
	}
}

// newCluster starts members 1 to n, which know each other and are connected.
func newCluster(t testing.TB, n int, tm timing, change func(id machine.NodeID, c *Config)) []*member {
	t.Helper()
	peers := map[machine.NodeID]string{}
	lns := make([]net.Listener, n)
	for i := range lns {
		lns[i] = listen(t, "127.0.0.1:0")
		peers[machine.NodeID(i+1)] = lns[i].Addr().String()
	}
	members := make([]*member, n)
	for i := range members {
		id := machine.NodeID(i + 1)
		members[i] = newMember(t, id, lns[i], peers, tm, func(c *Config) {
			if change != nil {
				change(id, c)
			}
		})
	}
	for i, m := range members {
		for id := range peers {
			if int(id) != i+1 {
				m.wait(fmt.Sprintf("up %d", id))
			}
		}
	}
	return members
}

// waitFor waits until done is true; m.mu is held when it is called.
func (m *member) waitFor(what string, done func() bool) {
	m.t.Helper()
	late, stop := patience.Begin(m.t)
	defer stop()
	go func() {
		<-late.Done()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.cond.Broadcast()
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	for !done() {
		select {
		case <-late.Done():
			m.t.Fatalf("waited in vain for %s; events %v, log:\n%s", what, m.events, m.log)
		default:
		}
		m.cond.Wait()
	}
}

// wait waits for an event.
func (m *member) wait(event string) { m.t.Helper(); m.waitCount(event, 1) }

func (m *member) waitCount(event string, n int) {
	m.t.Helper()
	m.waitFor(event, func() bool { return m.countLocked(event) >= n })
}

func (m *member) count(event string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.countLocked(event)
}

func (m *member) countLocked(event string) (n int) {
	for _, e := range m.events {
		if e == event {
			n++
		}
	}
	return n
}

// waitMessage waits until from has delivered msg.
func (m *member) waitMessage(from machine.NodeID, msg string) {
	m.t.Helper()
	m.waitFor(fmt.Sprintf("%q from %d", msg, from), func() bool {
		got := m.got[from]
		for i := len(got) - 1; i >= 0; i-- {
			if got[i] == msg {
				return true
			}
		}
		return false
	})
}

// poll waits for a condition that nobody signals.
func poll(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late, stop := patience.Begin(t)
	defer stop()
	for !done() {
		select {
		case <-late.Done():
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

func (m *member) waitLog(text string) {
	m.t.Helper()
	poll(m.t, fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(m.log.String(), text) })
}

// confirming listens in place of a member, and answers who asks whether a connection is
// its own. It answers nothing else.
func confirming(t testing.TB, answer func(hello) status) (addr string) {
	t.Helper()
	ln := listen(t, "127.0.0.1:0")
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(quick.handshake))
				if h, _, err := readHello(conn); err == nil && h.kind == kindConfirm {
					conn.Write(encodeWelcome(answer(h), "so it is"))
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); running.Wait() })
	return ln.Addr().String()
}
