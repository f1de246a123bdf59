package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestMessagesArriveInOrderAndInBatches(t *testing.T) {
	c := newCluster(t, 2, quick, nil)
	const n = 20_000
	for i := range n {
		if !c[0].Send(2, fmt.Appendf(nil, "m%d", i)) {
			t.Fatalf("message %d was not taken", i)
		}
	}
	c[1].waitMessage(1, fmt.Sprintf("m%d", n-1))
	c[1].mu.Lock()
	defer c[1].mu.Unlock()
	if len(c[1].got[1]) != n {
		t.Fatalf("%d messages came, want %d", len(c[1].got[1]), n)
	}
	for i, got := range c[1].got[1] {
		if want := fmt.Sprintf("m%d", i); got != want {
			t.Fatalf("message %d is %q, want %q", i, got, want)
		}
	}
	// A frame may arrive before its sender has counted it.
	var s Stats
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if s = c[0].Stats(2); s.MessagesSent == n && s.QueueBytes == 0 {
			break
		}
	}
	r := c[1].Stats(1)
	if s.MessagesSent != n || r.MessagesReceived != n || s.FramesSent >= n/2 || s.FramesSent != r.FramesReceived || s.BytesSent != r.BytesReceived {
		t.Errorf("sent %+v\nreceived %+v; want %d messages in far fewer frames", s, r, n)
	}
	if s.MessagesDropped != 0 || s.QueueBytes != 0 || !s.Connected {
		t.Errorf("stats after all was sent: %+v", s)
	}
}

func TestEmptyAndLargeMessages(t *testing.T) {
	const limit = 300_000
	c := newCluster(t, 2, quick, func(_ machine.NodeID, c *Config) { c.FrameBytesMax = limit })
	large := strings.Repeat("x", limit-5)
	for _, msg := range []string{"", large, "last"} {
		if !c[0].Send(2, []byte(msg)) {
			t.Errorf("a message of %d bytes was not taken", len(msg))
		}
		c[1].waitMessage(1, msg)
	}
	if c[0].Send(2, []byte(large+"x")) {
		t.Error("a message that fits no frame was taken")
	}
	c[0].wait("unreachable 2")
	c[0].waitLog("larger than a frame")
	if c[0].Send(9, nil) {
		t.Error("a message for nobody was taken")
	}
}

func TestRoundTripTime(t *testing.T) {
	c := newCluster(t, 2, quick, nil)
	poll(t, "a round trip time", func() bool { return c[0].Stats(2).RTT > 0 })
	if rtt := c[0].Stats(2).RTT; rtt > quick.silence {
		t.Errorf("RTT %v on the loopback", rtt)
	}
}

func TestReconnectAfterRestart(t *testing.T) {
	c := newCluster(t, 2, quick, nil)
	c[1].Close()
	c[0].wait("down 2")
	poll(t, "the outgoing stream to end", func() bool { return !c[0].Stats(2).Connected })
	if c[0].Send(2, []byte("lost")) {
		t.Error("a message was taken without a connection")
	}
	c[0].wait("unreachable 2")
	again := newMember(t, 2, listen(t, c[1].addr), map[machine.NodeID]string{1: c[0].addr}, quick, nil)
	c[0].waitCount("up 2", 2)
	again.wait("up 1")
	c[0].Send(2, []byte("hello again"))
	again.waitMessage(1, "hello again")
	again.Send(1, []byte("I am back"))
	c[0].waitMessage(2, "I am back")
	if n := c[0].count("down 2"); n != 1 {
		t.Errorf("Down was called %d times, want 1", n)
	}
	if n := len(again.got[1]); n != 1 {
		t.Errorf("%d messages came, want only the one sent after the reconnection", n)
	}
}

// A connection that was confirmed when its sender ceased to be a peer is not let in.
func TestWhoIsNoPeerAnyMoreIsNotLetIn(t *testing.T) {
	c := newCluster(t, 2, quick, nil)
	r := c[0].remote(2)
	r.leave()
	poll(t, "its stream to end", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.in == nil
	})
	here, there := net.Pipe()
	defer there.Close()
	go io.Copy(io.Discard, there)
	if err := c[0].admit(here, r, &incoming{done: make(chan struct{})}); !errors.Is(err, ErrUnknownMember) {
		t.Errorf("a stream of one that is no peer any more: %v, want %v", err, ErrUnknownMember)
	}
}

// Nothing comes before a greeting, on any connection.
func TestTheGreetingIsFirst(t *testing.T) {
	lns := []net.Listener{listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")}
	peers := map[machine.NodeID]string{1: lns[0].Addr().String(), 2: lns[1].Addr().String()}
	to := newMember(t, 2, lns[1], peers, quick, nil)
	var from *member
	known, greetings := make(chan struct{}), 0
	from = newMember(t, 1, lns[0], peers, quick, func(c *Config) {
		c.Greeting = func(id machine.NodeID) []byte {
			<-known
			if from.Send(id, []byte("early")) {
				t.Error("a message is taken before the greeting")
			}
			greetings++
			return fmt.Appendf(nil, "greeting %d", greetings)
		}
		c.Up = func(id machine.NodeID) { from.Send(id, []byte("up")) }
	})
	close(known)
	for n := 1; n <= 3; n++ {
		var got []string
		to.waitFor("what is said on a connection", func() bool { got = to.got[1]; return len(got) >= 2*n })
		if got := fmt.Sprint(got[2*n-2:]); got != fmt.Sprintf("[greeting %d up]", n) {
			t.Errorf("on connection %d came %s", n, got)
		}
		from.Transport.mu.Lock()
		for conn := range from.conns {
			if conn.RemoteAddr().String() == to.addr { // from 1 to 2
				conn.Close()
			}
		}
		from.Transport.mu.Unlock()
	}
}

// A sender that gives up its stream, for a write that took too long, is alive.
func TestOneStreamGivenUpIsNotDown(t *testing.T) {
	c := newCluster(t, 2, quick, nil)
	for i := range 10 {
		c[1].Transport.mu.Lock()
		for conn := range c[1].conns {
			if conn.RemoteAddr().String() == c[0].addr { // from 2 to 1
				conn.Close()
			}
		}
		c[1].Transport.mu.Unlock()
		c[1].waitCount("up 1", i+2)
		msg := fmt.Sprintf("still here %d", i)
		c[1].Send(1, []byte(msg))
		c[0].waitMessage(2, msg)
	}
	told := make(chan struct{})
	c[0].Transport.events.add(func() { close(told) })
	<-told
	if n := c[0].count("down 2"); n != 0 {
		t.Errorf("Down was called %d times, want 0", n)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name   string
		self   machine.NodeID
		peer   machine.NodeID // whom we believe to be at addr
		change func(*Config)
		want   error
		log    string // at the refusing side
	}{
		{"wrong cluster", 2, 1, func(c *Config) { c.ClusterID = 78 }, ErrWrongCluster, "you are of 4e"},
		{"unknown member", 3, 1, nil, ErrUnknownMember, "3 is not known here"},
		{"wrong address", 2, 7, nil, ErrWrongAddress, "you want 7"},
		{"two processes with one id", 2, 1, nil, ErrDuplicateID, "does not know of this connection"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, 2, quick, nil) // whose log has had no line of the last second
			addr := c[0].addr
			refused := make(chan error, 10)
			m := newMember(t, tt.self, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{tt.peer: addr}, quick, func(c *Config) {
				c.Refused = func(_ machine.NodeID, err error) { refused <- err }
				if tt.change != nil {
					tt.change(c)
				}
			})
			err := <-refused
			var refusal *Refusal
			if !errors.Is(err, tt.want) || !errors.As(err, &refusal) || refusal.By != tt.peer {
				t.Errorf("got %v, want %v by %d", err, tt.want, tt.peer)
			}
			c[0].waitLog(tt.log)
			m.Close()
			c[1].Send(1, []byte("undisturbed"))
			c[0].waitMessage(2, "undisturbed")
			if n := c[0].count("down 2"); n != 0 {
				t.Error("the refused one made member 2 look dead")
			}
		})
	}
}

// A peer that dials before this member has started is known as soon as it is heard.
func TestPeersAreKnownAtTheStart(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	answered := make(chan error, 1)
	go func() {
		_, answer := greetRaw(t, ln.Addr().String(), hello{kindMessages, 77, 2, 1, 5, ticket{9}})
		answered <- answer
	}()
	newMember(t, 1, ln, map[machine.NodeID]string{2: confirming(t, func(hello) status { return statusWelcome })}, quick, nil)
	if err := <-answered; err != nil {
		t.Errorf("a peer that dialed before the start: %v", err)
	}
}

// Of two processes that share member 1's own id, 1 itself refuses the other.
func TestOwnIDIsRefused(t *testing.T) {
	c := newCluster(t, 1, quick, nil)
	_, answer := greetRaw(t, c[0].addr, hello{kindMessages, 77, 1, 1, 5, ticket{9}})
	if !errors.Is(answer, ErrDuplicateID) {
		t.Errorf("got %v, want ErrDuplicateID", answer)
	}
}

// A host that lost power leaves a connection that never ends. When its member is
// back, as another process, the old one has to go, and it is a death.
func TestRestartBehindAHalfOpenConnection(t *testing.T) {
	m := alone(t, quick)
	old, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 5, ticket{9}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 6, ticket{9}}); err != nil {
		t.Fatalf("the restarted process: %v", err)
	}
	m.wait("down 2")
	wantHangUp(t, old)
}

// So it is when the process had sent something before: only while that is delivered does its
// silence mean nothing.
func TestRestartBehindWhatWasDelivered(t *testing.T) {
	m := alone(t, quick)
	old, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 5, ticket{9}})
	if err != nil {
		t.Fatal(err)
	}
	old.Write(appendFrame(appendFrame(nil, frameBatch, []byte("\x05first")), framePing, make([]byte, 8)))
	if typ, _, err := readFrame(old, nil, 8); typ != framePong { // once the message was delivered
		t.Fatal(typ, err)
	}
	if _, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 6, ticket{9}}); err != nil {
		t.Errorf("the restarted process: %v", err)
	}
}

// Close may come twice, and after the listener's own.
func TestCloseAgain(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	m := newMember(t, 1, ln, nil, quick, nil)
	ln.Close()
	for range 2 {
		if err := m.Close(); err != nil {
			t.Errorf("Close of what is closed: %v", err)
		}
	}
}

// A process that dials again, for it saw its connection break, is let in at once.
func TestSecondConnectionReplacesTheFirst(t *testing.T) {
	m := alone(t, quick)
	first, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 5, ticket{9}})
	if err != nil {
		t.Fatal(err)
	}
	second, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 5, ticket{9}})
	if err != nil {
		t.Fatal(err)
	}
	wantHangUp(t, first)
	second.Write(appendFrame(nil, frameBatch, []byte("\x03new")))
	m.waitMessage(2, "new")
	if n := m.count("down 2"); n != 0 {
		t.Error("a new connection was taken for a death")
	}
	if said := m.log.String(); strings.Contains(said, "connection from member ended") {
		t.Errorf("the end of a connection that was replaced is told as one of the member's:\n%s", said)
	}
}

// The stream of a member that was let in is no guest: it takes no room from those that are, and is not put out for
// one of them.
func TestAMembersStreamIsNoGuest(t *testing.T) {
	for _, m := range newCluster(t, 3, quick, nil) {
		poll(t, "members that were let in to be no guests", func() bool {
			m.guests.mu.Lock()
			defer m.guests.mu.Unlock()
			return len(m.guests.inside) == 0
		})
	}
}

// A connection takes the place of another when nothing that came on that is being delivered
// any more: else messages of the two would come in any order.
func TestSecondConnectionWaitsForTheFirst(t *testing.T) {
	delivering, release := make(chan struct{}, 2), make(chan struct{})
	two := confirming(t, func(hello) status { return statusWelcome })
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: two}, quick, func(c *Config) {
		deliver := c.Deliver
		c.Deliver = func(from machine.NodeID, msgs [][]byte) {
			delivering <- struct{}{}
			<-release
			deliver(from, msgs)
		}
	})
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	first, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 5, ticket{9}})
	if err != nil {
		t.Fatal(err)
	}
	first.Write(appendFrame(nil, frameBatch, []byte("\x03old")))
	<-delivering
	second, err := net.Dial("tcp", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	second.Write(hello{kindMessages, 77, 2, 1, 5, ticket{9}}.encode())
	second.Write(appendFrame(nil, frameBatch, []byte("\x03new")))
	wantHangUp(t, first)
	second.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if err := readWelcome(second, 1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("while messages of the first connection are being delivered the second is answered: %v", err)
	}
	release <- struct{}{}
	<-delivering
	release <- struct{}{}
	m.waitMessage(2, "new")
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := m.got[2]; len(got) != 2 || got[0] != "old" {
		t.Errorf("got %q, want what came on the first connection first", got)
	}
}

func TestSlowReceiverHoldsNobodyElse(t *testing.T) {
	const queueBytes = 1 << 20
	patient := quick
	patient.silence = 30e9
	hold := make(chan struct{})
	c := newCluster(t, 3, patient, func(id machine.NodeID, c *Config) {
		c.QueueBytes = queueBytes
		if id == 2 {
			deliver := c.Deliver
			c.Deliver = func(from machine.NodeID, msgs [][]byte) {
				<-hold
				deliver(from, msgs)
			}
		}
	})
	msg := make([]byte, 10_000)
	taken := 0
	for c[0].Send(2, msg) { // ends once the kernel's buffers and the queue are full
		taken++
		if q := c[0].Stats(2).QueueBytes; q > queueBytes {
			t.Fatalf("queue holds %d bytes, the limit is %d", q, queueBytes)
		}
		if taken > 100_000 {
			t.Fatal("a gigabyte was taken for a receiver that takes nothing")
		}
	}
	c[0].Send(2, msg)
	c[0].wait("unreachable 2")
	c[0].Send(3, []byte("past the slow one"))
	c[2].waitMessage(1, "past the slow one")
	if n := c[0].count("unreachable 2"); n != 1 {
		t.Errorf("Unreachable was called %d times, want once an episode", n)
	}
	close(hold)
	c[1].waitFor("what was taken", func() bool { return len(c[1].got[1]) >= taken })
	poll(t, "room again", func() bool { return c[0].Send(2, []byte("go on")) })
	c[1].waitMessage(1, "go on")
}

func TestConfigIsChecked(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	defer ln.Close()
	good := Config{Self: 1, Listener: ln, Deliver: func(machine.NodeID, [][]byte) {}}
	tests := map[string]func(*Config){
		"Self":                        func(c *Config) { c.Self = 0 },
		"Listener":                    func(c *Config) { c.Listener = nil },
		"Deliver":                     func(c *Config) { c.Deliver = nil },
		"FrameBytesMax":               func(c *Config) { c.FrameBytesMax = -1 },
		"FrameBytesMax is 1073741825": func(c *Config) { c.FrameBytesMax = 1<<30 + 1 },
		"QueueBytes":                  func(c *Config) { c.QueueBytes = -1 },
		"StreamBytesPerSecond":        func(c *Config) { c.StreamBytesPerSecond = -1 },
		"host:port":                   func(c *Config) { c.Peers = map[machine.NodeID]string{2: "nowhere"} },
	}
	for want, change := range tests {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
	for what, change := range map[string]func(*Config){
		"the smallest frames": func(c *Config) { c.FrameBytesMax = 1 },
		"the largest frames":  func(c *Config) { c.FrameBytesMax = 1 << 30 },
		"the shortest queue":  func(c *Config) { c.QueueBytes = 1 },
	} {
		cfg := good
		change(&cfg)
		if err := cfg.withDefaults().validate(); err != nil {
			t.Errorf("%s are refused: %v", what, err)
		}
	}
}

// Two processes are told apart, though they have one id: each has drawn a number of its own.
func TestProcessesAreToldApart(t *testing.T) {
	one, two := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil), newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil)
	if one.instance == two.instance || one.instance == 0 || two.instance == 0 {
		t.Errorf("two processes are told apart by %x and %x", one.instance, two.instance)
	}
}

// Close returns when no callback is under way any more: what they use may be gone then.
func TestCloseWaitsForCallbacks(t *testing.T) {
	for name, set := range map[string]func(c *Config, callback func()){
		"Deliver": func(c *Config, callback func()) { c.Deliver = func(machine.NodeID, [][]byte) { callback() } },
		"Stream": func(c *Config, callback func()) {
			c.Stream = func(machine.NodeID, []byte, io.Reader) error { callback(); return nil }
		},
		"Answer": func(c *Config, callback func()) { c.Answer = func([]byte) []byte { callback(); return nil } },
		"Up":     func(c *Config, callback func()) { c.Up = func(machine.NodeID) { callback() } },
	} {
		t.Run(name, func(t *testing.T) {
			begun, returned := make(chan struct{}), atomic.Bool{}
			callback := sync.OnceFunc(func() {
				close(begun)
				time.Sleep(100 * time.Millisecond) // for as long Close would have to be slow, for nobody to notice
				returned.Store(true)
			})
			lns := []net.Listener{listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")}
			peers := map[machine.NodeID]string{1: lns[0].Addr().String(), 2: lns[1].Addr().String()}
			one := newMember(t, 1, lns[0], peers, quick, func(c *Config) { set(c, callback) })
			two := newMember(t, 2, lns[1], peers, quick, nil)
			two.wait("up 1")
			ctx, cancel := context.WithCancel(t.Context())
			var asking sync.WaitGroup
			defer asking.Wait()
			defer cancel()
			two.Send(1, []byte("hello"))
			asking.Go(func() { two.SendStream(ctx, 1, nil, strings.NewReader("all of it")) })
			asking.Go(func() { Ask(ctx, one.addr, nil, nil, nil) })
			<-begun
			one.Close()
			if !returned.Load() {
				t.Error("it is closed, and a callback is under way")
			}
		})
	}
}
