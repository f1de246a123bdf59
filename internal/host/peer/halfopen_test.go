package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// nowhere is a listener that nobody dials.
type nowhere struct {
	closed chan struct{}
	once   sync.Once
}

func newNowhere() *nowhere { return &nowhere{closed: make(chan struct{})} }

func (l *nowhere) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }
func (l *nowhere) Close() error              { l.once.Do(func() { close(l.closed) }); return nil }
func (l *nowhere) Addr() net.Addr            { return fakeAddr("127.0.0.1:1") }

// runDialing runs a test in simulated time with a member 1 that reaches member 2 by a function.
func runDialing(t *testing.T, dial DialFunc, test func(m *member)) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(t, 1, newNowhere(), map[machine.NodeID]string{2: "127.0.0.1:2"}, defaultTiming, func(c *Config) { c.Dial = dial })
		test(m)
		m.Close()
	})
}

// A member that is not there is dialed again at once, and then more and more rarely, but at
// least once a second.
func TestPausesBetweenDials(t *testing.T) {
	var at []time.Time
	runDialing(t, func(context.Context, string) (net.Conn, error) {
		at = append(at, time.Now())
		return nil, errors.New("nobody is there")
	}, func(*member) { time.Sleep(10 * time.Minute) })
	if len(at) < 2 {
		t.Fatalf("it has dialed as it was told to %d times, want again and again", len(at))
	}
	var pauses []time.Duration
	for i := range at[1:] {
		pauses = append(pauses, at[i+1].Sub(at[i]))
	}
	if first := pauses[0]; first > 2*defaultTiming.backoffMin {
		t.Errorf("the pause before the second dial is %v, want about %v at most", first, defaultTiming.backoffMin)
	}
	if longest := slices.Max(pauses); longest > defaultTiming.backoffMax+time.Millisecond {
		t.Errorf("the longest pause between two dials is %v, want %v at most", longest, defaultTiming.backoffMax)
	}
	if len(at) < 900 { // as if there were no chance in it
		t.Errorf("ten minutes have %d dials, want about 1,200: members that were cut off together dial together", len(at))
	}
	if len(at) > 3000 { // each second has two, on average
		t.Errorf("ten minutes have %d dials, want about 1,200", len(at))
	}
}

// A process that accepts a connection and says nothing delays nobody for longer than a
// handshake.
func TestNoAnswerToAGreeting(t *testing.T) {
	var others []net.Conn
	silent := func(context.Context, string) (net.Conn, error) {
		ours, other := net.Pipe()
		others = append(others, other)
		return ours, nil
	}
	runDialing(t, silent, func(m *member) {
		time.Sleep(defaultTiming.handshake + time.Second)
		if m.Stats(2).LastError == nil {
			t.Errorf("%v after it was dialed a silent member is waited for", defaultTiming.handshake+time.Second)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan error, 1)
		go func() {
			_, err := Ask(context.Background(), "127.0.0.1:2", nil, silent, nil)
			asked <- err
		}()
		select {
		case err := <-asked:
			if err == nil {
				t.Error("silence is taken for an answer")
			}
		case <-time.After(time.Minute):
			t.Error("a minute after a question an answer is waited for")
			others[len(others)-1].Close()
			<-asked
		}
	})
}

// A member that takes what is sent and answers no ping may be at the other end of a way that
// goes in one direction only: its connection is given up.
func TestNoAnswerToPings(t *testing.T) {
	runDialing(t, func(context.Context, string) (net.Conn, error) {
		ours, other := net.Pipe()
		go func() {
			readHello(other)
			other.Write(encodeWelcome(statusWelcome, ""))
			io.Copy(io.Discard, other)
		}()
		return ours, nil
	}, func(m *member) {
		m.wait("up 2")
		time.Sleep(defaultTiming.silence + 20*time.Millisecond) // and before it is connected again
		m.waitLog("no connection to member")
		if n := m.count("down 2"); n != 0 {
			t.Error("silence was taken for a death")
		}
	})
}

// A dialer is alive: the member that it dials need not wait until it tries again itself.
func TestDialedBackAtOnce(t *testing.T) {
	later := quick
	later.backoffMin, later.backoffMax = 1000*time.Hour, 1000*time.Hour
	ln := listen(t, "127.0.0.1:0") // kept open, or another process might get its port
	go func() {
		if c, err := ln.Accept(); err == nil {
			c.Close()
		}
	}()
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: ln.Addr().String()}, later, nil)
	m.waitLog("no connection to member")
	newMember(t, 2, ln, map[machine.NodeID]string{1: m.addr}, quick, nil)
	m.wait("up 2")
}

// A member that has moved is dialed where it is, and not where it was.
func TestMovedMember(t *testing.T) {
	before, after := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	defer before.Close()
	defer after.Close()
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: before.Addr().String()}, quick, nil)
	old, err := before.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := m.SetPeers(map[machine.NodeID]string{2: after.Addr().String()}, nil); err != nil {
		t.Fatal(err)
	}
	after.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Second))
	conn, err := after.Accept()
	if err != nil {
		t.Fatalf("a member that has moved is not dialed where it is: %v", err)
	}
	conn.Close()
	wantHangUp(t, old)
}

// A listener may fail for a moment, for want of file descriptors for example.
func TestListenerThatFailsOnce(t *testing.T) {
	flaky := &failsOnce{Listener: listen(t, "127.0.0.1:0")}
	m := newMember(t, 1, flaky, nil, quick, func(c *Config) { c.Answer = func([]byte) []byte { return []byte("here") } })
	if said, err := Ask(t.Context(), m.addr, nil, nil, nil); string(said) != "here" {
		t.Errorf("behind a listener that has failed once: got %q, %v", said, err)
	}
}

type failsOnce struct {
	net.Listener
	once sync.Once
}

func (l *failsOnce) Accept() (conn net.Conn, err error) {
	l.once.Do(func() { err = errors.New("too many open files") })
	if err != nil {
		return nil, err
	}
	return l.Listener.Accept()
}

// A stream whose source has failed waits for the receiver's verdict, but not for ever.
func TestAStreamWhoseSourceFailsEnds(t *testing.T) {
	runDialing(t, func(context.Context, string) (net.Conn, error) {
		ours, other := net.Pipe()
		go func() {
			readHello(other)
			other.Write(encodeWelcome(statusWelcome, ""))
			io.Copy(io.Discard, other)
		}()
		return ours, nil
	}, func(m *member) {
		ctx, cancel := context.WithCancel(context.Background())
		broken, sent := errors.New("broken source"), make(chan error, 1)
		go func() { sent <- m.SendStream(ctx, 2, nil, errReader{broken}) }()
		select {
		case err := <-sent:
			if !errors.Is(err, broken) {
				t.Errorf("got %v, want what the source said", err)
			}
		case <-time.After(10 * time.Minute):
			t.Error("ten minutes after the source failed a verdict is waited for")
			cancel()
			<-sent
		}
		cancel()
	})
}

// Close does not wait for the next dial, however far off that is.
func TestCloseBetweenDials(t *testing.T) {
	tm := defaultTiming
	tm.backoffMin, tm.backoffMax = time.Hour, time.Hour
	synctest.Test(t, func(t *testing.T) {
		m := newMember(t, 1, newNowhere(), map[machine.NodeID]string{2: "127.0.0.1:2"}, tm, func(c *Config) {
			c.Dial = func(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody is there") }
		})
		synctest.Wait()
		start := time.Now()
		m.Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("Close takes %v between two dials", took)
		}
	})
}

// The log has each end of a connection, though they are all alike.
func TestEachEndIsLogged(t *testing.T) {
	runDialing(t, func(context.Context, string) (net.Conn, error) {
		ours, other := net.Pipe()
		go func() {
			defer other.Close()
			readHello(other)
			other.Write(encodeWelcome(statusWelcome, ""))
		}()
		return ours, nil
	}, func(m *member) {
		m.waitCount("up 2", 4)
		if n := strings.Count(m.log.String(), "no connection to member"); n < 3 {
			t.Errorf("three connections have ended and the log has %d ends", n)
		}
	})
}

// deadlines notes until when a connection may be written to.
type deadlines struct {
	net.Conn
	until time.Time
}

func (d *deadlines) SetWriteDeadline(until time.Time) error { d.until = until; return nil }
func (d *deadlines) Write(b []byte) (int, error)            { return len(b), nil }

// A frame may take a second more for each MiB, or large ones would never come through a slow network.
func TestLargeFramesMayTakeLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(t, 1, newNowhere(), nil, defaultTiming, nil)
		r := newRemote(m.Transport, 2, "127.0.0.1:2")
		for size, want := range map[int]time.Duration{0: 5 * time.Second, 1000: 5 * time.Second, 10 << 20: 15 * time.Second} {
			conn := &deadlines{}
			if err := r.put(conn, make([]byte, size)); err != nil || time.Until(conn.until) != want {
				t.Errorf("a frame of %d bytes may take %v, %v; want %v", size, time.Until(conn.until), err, want)
			}
		}
		m.Close()
	})
}

// A host that loses its power when it has taken all of a stream says nothing, and the connection
// stands. The stream ends when another process is there in its place.
func TestAStreamEndsWithTheProcessThatItGoesTo(t *testing.T) {
	taken := make(chan struct{}, 9)
	runDialing(t, func(context.Context, string) (net.Conn, error) {
		ours, other := net.Pipe()
		go func() {
			h, _, _ := readHello(other)
			other.Write(encodeWelcome(statusWelcome, ""))
			for h.kind == kindBulk {
				if typ, _, err := readFrame(other, nil, chunkBytes); err != nil || typ == frameEnd {
					taken <- struct{}{}
					break
				}
			}
			io.Copy(io.Discard, other)
		}()
		return ours, nil
	}, func(m *member) {
		r := m.remote(2)
		is := func(instance uint64) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.admitted(&incoming{instance: instance})
			r.in = nil
		}
		for life := range uint64(2) { // and then the same with the next process
			is(1 + life)
			sent := make(chan error, 1)
			go func() { sent <- m.SendStream(context.Background(), 2, nil, strings.NewReader("all")) }()
			<-taken
			is(1 + life) // another connection of the same
			synctest.Wait()
			select {
			case err := <-sent:
				t.Fatalf("a stream that nobody has answered yet has ended: %v", err)
			default:
			}
			is(2 + life)
			time.Sleep(time.Second)
			select {
			case err := <-sent:
				if !errors.Is(err, errRestarted) {
					t.Errorf("a stream to a process that has ended: %v, want that it was restarted", err)
				}
			default:
				t.Fatal("a stream to a process that has ended is waited for")
			}
		}
	})
}

// A round trip is that of the first ping, and then goes an eighth of the way to each new one.
func TestRoundTripsAreSmoothed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(t, 1, newNowhere(), nil, defaultTiming, nil)
		r := newRemote(m.Transport, 2, "127.0.0.1:2")
		ours, other := net.Pipe()
		go r.listen(ours)
		time.Sleep(time.Second)
		for _, c := range []struct{ took, want time.Duration }{
			{80 * time.Millisecond, 80 * time.Millisecond},
			{160 * time.Millisecond, 90 * time.Millisecond},
			{10 * time.Millisecond, 80 * time.Millisecond},
		} {
			sent := time.Since(m.start) - c.took
			other.Write(appendFrame(nil, framePong, le.AppendUint64(nil, uint64(sent))))
			synctest.Wait()
			if got := r.stats.RTT; got != c.want {
				t.Errorf("behind an answer that took %v the round trip is %v, want %v", c.took, got, c.want)
			}
		}
		other.Close()
		m.Close()
	})
}

// neverAccepts is a listener that fails.
type neverAccepts struct {
	*nowhere
	tries int
}

func (l *neverAccepts) Accept() (net.Conn, error) {
	if l.tries++; l.tries > 1000 {
		<-l.closed
	}
	return nil, errors.New("too many open files")
}

// A listener that fails for long is asked ten times a second, and does not keep a processor busy.
func TestListenerThatFailsForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := &neverAccepts{nowhere: newNowhere()}
		m := newMember(t, 1, ln, nil, defaultTiming, nil)
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
		}
		m.Close()
		if ln.tries < 50 || ln.tries > 110 {
			t.Errorf("a listener that fails was asked %d times in ten seconds, want about 100 times", ln.tries)
		}
	})
}
