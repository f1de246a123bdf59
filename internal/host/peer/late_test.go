package peer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// wantClosed wants that nobody holds the other end of a pipe.
func wantClosed(t *testing.T, what string, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%s stays open: %v", what, err)
	}
}

// lateListener has a connection when it is closed.
type lateListener struct {
	*nowhere
	conn net.Conn
}

func (l *lateListener) Accept() (net.Conn, error) { <-l.closed; return l.conn, nil }

// A connection that comes about after the transport was closed is closed, too, from either side.
func TestConnectionsThatComeTooLate(t *testing.T) {
	dialed, other := net.Pipe()
	accepted, stranger := net.Pipe()
	dialing := make(chan struct{})
	m := newMember(t, 1, &lateListener{newNowhere(), accepted}, map[machine.NodeID]string{2: "127.0.0.1:2"}, quick, func(c *Config) {
		c.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
			close(dialing)
			<-ctx.Done()
			return dialed, nil
		}
	})
	<-dialing
	m.Close()
	wantClosed(t, "a connection that was dialed", other)
	wantClosed(t, "a connection that was accepted", stranger)
}

// endsWithWelcome ends something when the last byte of a welcome was read.
type endsWithWelcome struct {
	net.Conn
	left int
	end  func()
}

func (c *endsWithWelcome) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.left -= n; c.left == 0 {
		c.end()
	}
	return n, err
}

// A connection whose time is over when it is welcomed is none: its deadline has passed, or is about to.
func TestWelcomedWhenTheTimeIsOver(t *testing.T) {
	ours, other := net.Pipe()
	go func() {
		readHello(other)
		other.Write(encodeWelcome(statusWelcome, ""))
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := newMember(t, 1, newNowhere(), nil, quick, func(c *Config) {
		c.Dial = func(context.Context, string) (net.Conn, error) {
			return &endsWithWelcome{ours, welcomeBytes, cancel}, nil
		}
	})
	r := newRemote(m.Transport, 2, "127.0.0.1:2")
	if conn, _, err := m.dialWith(ctx, r, kindMessages, ticket{9}, quick.handshake); !errors.Is(err, context.Canceled) || conn != nil {
		t.Errorf("a connection was welcomed when its time was over: %v, want %v", err, context.Canceled)
	}
	wantClosed(t, "it", other)
	if n := len(m.conns); n != 0 {
		t.Errorf("%d connections are remembered, want none", n)
	}
}

// A stream that is slowed down ends with its context, however long it would wait.
func TestASlowStreamEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(t, 1, newNowhere(), map[machine.NodeID]string{2: "127.0.0.1:2"}, defaultTiming, func(c *Config) {
			c.StreamBytesPerSecond = 1
			c.Dial = func(context.Context, string) (net.Conn, error) {
				ours, other := net.Pipe()
				go func() {
					readHello(other)
					other.Write(encodeWelcome(statusWelcome, ""))
					io.Copy(io.Discard, other)
				}()
				return ours, nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := m.SendStream(ctx, 2, nil, endless{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("it ended after %v, want 1s", took)
		}
		if sent := m.Stats(2).StreamBytesSent; sent != chunkBytes {
			t.Errorf("%d bytes were sent in a second at a byte a second, want those before the first pause", sent)
		}
		m.Close()
	})
}

// After the end of a stream only a verdict counts; without one the stream was not taken.
func TestOtherFramesAreNoVerdicts(t *testing.T) {
	for typ := frameType(0); typ <= frameVerdict+1; typ++ {
		ours, other := net.Pipe()
		go func() { other.Write(appendFrame(nil, typ, nil)); other.Close() }()
		if err := readVerdict(ours); typ == frameVerdict && err != nil || typ != frameVerdict && !errors.Is(err, errProtocol) {
			t.Errorf("an empty frame of type %d as a verdict: %v", typ, err)
		}
		ours.Close()
	}
}

// A stream waits for the end of the one before it as long as for a handshake, and is never let in
// beside it.
func TestAStreamThatDeliversForLong(t *testing.T) {
	tm := quick
	tm.handshake = 20 * time.Millisecond
	m := newMember(t, 1, newNowhere(), nil, tm, nil)
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	first := &incoming{instance: 5, hangUp: func() {}, heard: make(chan struct{}, 1), done: make(chan struct{})}
	r.mu.Lock()
	r.admitted(first)
	r.mu.Unlock()
	ours, other := net.Pipe()
	defer other.Close()
	defer ours.Close()
	second := &incoming{instance: 5, done: make(chan struct{})}
	if err := m.admit(ours, r, second); err == nil || !strings.Contains(err.Error(), "still being delivered") {
		t.Errorf("a second stream while the first delivers: %v, want it refused", err)
	}
	if r.in != first {
		t.Error("it took the place of the first")
	}
}

// Strangers of one IPv4 address, and of one IPv6 network, are one source, in whatever way the
// address is written.
func TestSources(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"10.0.0.1:1", "10.0.0.1:2", true},
		{"10.0.0.1:1", "10.0.0.2:1", false},
		{"10.0.0.1:1", "[::ffff:10.0.0.1]:2", true},
		{"[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.2]:1", false},
		{"[2001:db8:0:1::1]:1", "[2001:db8:0:1:ffff::2]:2", true},
		{"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", false},
		{"[fe80::1%eth0]:1", "[fe80::2%eth0]:1", true},
		{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1", true},
		{"pipe", "pipe", true},
		{"pipe", "another", false},
	} {
		if a, b := source(fakeAddr(c.a)), source(fakeAddr(c.b)); (a == b) != c.same {
			t.Errorf("%s is of %s and %s of %s, want one source: %v", c.a, a, c.b, b, c.same)
		}
	}
}

// The sizes and times are those of the package comment and the fields' comments.
func TestDefaults(t *testing.T) {
	c := Config{}.withDefaults()
	if c.FrameBytesMax != 64<<20 || c.QueueBytes != 64<<20 || c.Logger != slog.Default() || c.Dial == nil || c.StreamBytesPerSecond != 0 {
		t.Errorf("the defaults are %+v", c)
	}
	c = Config{FrameBytesMax: 1, QueueBytes: 2, StreamBytesPerSecond: 3}.withDefaults()
	if c.FrameBytesMax != 1 || c.QueueBytes != 2 || c.StreamBytesPerSecond != 3 {
		t.Errorf("what was set is now %+v", c)
	}
	if want := (timing{5 * time.Second, 500 * time.Millisecond, 5 * time.Second, 10 * time.Millisecond, time.Second}); defaultTiming != want {
		t.Errorf("the times are %v, want %v", defaultTiming, want)
	}
	if got, want := [...]int{questionMax, answerMax, answersMax, guestsMin, guestsPerPeer}, [...]int{16 << 10, 1 << 20, 4, 64, 4}; got != want {
		t.Errorf("the limits for strangers are %d, want %d", got, want)
	}
}

// A process is alive if it is heard from within three of its pings; what was heard before says
// nothing. One that was not heard for that long, or whose connection has ended, is not.
func TestHowLongAProcessIsListenedFor(t *testing.T) {
	const ping = 500 * time.Millisecond
	for name, c := range map[string]struct {
		heard, ended time.Duration // when that comes; 0: never
		alive        bool
		after        time.Duration
	}{
		"its third ping is late":   {heard: 3*ping - time.Millisecond, alive: true, after: 3*ping - time.Millisecond},
		"it is silent":             {after: 3 * ping},
		"it pings too late":        {heard: 3*ping + time.Millisecond, after: 3 * ping},
		"its connection has ended": {ended: ping, after: ping},
	} {
		synctest.Test(t, func(t *testing.T) {
			old := &incoming{heard: make(chan struct{}, 1), done: make(chan struct{})}
			nudge(old.heard) // before anybody asked
			if c.heard > 0 {
				time.AfterFunc(c.heard, func() { nudge(old.heard) })
			}
			if c.ended > 0 {
				time.AfterFunc(c.ended, func() { close(old.done) })
			}
			began := time.Now()
			alive := (&Transport{timing: defaultTiming}).alive(old)
			if took := time.Since(began); alive != c.alive || took != c.after {
				t.Errorf("%s: it counts as alive: %v, after %v; want %v, after %v", name, alive, took, c.alive, c.after)
			}
		})
	}
}
