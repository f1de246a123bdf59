package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A stream may take longer than a handshake may, and its verdict is heard.
func TestAStreamThatTakesLongerThanAHandshake(t *testing.T) {
	tm := quick
	tm.handshake = time.Second
	two := confirming(t, func(hello) status { return statusWelcome })
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: two}, tm, func(c *Config) {
		c.Stream = func(machine.NodeID, []byte, io.Reader) error {
			time.Sleep(tm.handshake + 100*time.Millisecond)
			return nil
		}
	})
	var conn net.Conn
	poll(t, "a handshake that is quick enough", func() (ok bool) {
		var err error
		conn, err = greetRaw(t, m.addr, hello{kindBulk, 77, 2, 1, 5, ticket{9}})
		return err == nil
	})
	conn.Write(appendFrame(appendFrame(nil, frameHeader, nil), frameEnd, nil))
	if err := readVerdict(conn); err != nil {
		t.Errorf("the verdict on a stream that takes longer than a handshake: %v", err)
	}
}

// A member is down when both connections of the pair have ended as by a death.
func TestWhichEndsAreADeath(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil)
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	in := &incoming{instance: 5}
	for _, tt := range []struct {
		name    string
		in, out error // how they end; nil: not at all
		down    int   // was told by then
		again   bool  // that from it is not there again at first
	}{
		{"that to it, as by a death", nil, io.EOF, 0, false},
		{"that from it, as by a death, and that to it for silence", io.EOF, errTooQuiet, 0, false},
		{"that to it, as by a death, when that from it had ended so before", nil, io.EOF, 0, true},
		{"that from it for silence, and that to it as by a death", errTooQuiet, io.EOF, 0, false},
		{"both, as by a death", io.EOF, io.EOF, 1, false},
		{"both, when it was connected again", io.EOF, io.EOF, 2, false},
	} {
		if !tt.again {
			r.mu.Lock()
			r.admitted(in)
			r.mu.Unlock()
		}
		r.opened()
		if tt.in != nil {
			r.wentOut(in, tt.in)
		}
		r.closed(tt.out, 0)
		told := make(chan struct{})
		m.Transport.events.add(func() { close(told) })
		<-told
		if n := m.count("down 2"); n != tt.down {
			t.Errorf("connections ended: %s: Down was called %d times, want %d", tt.name, n, tt.down)
		}
	}
	// That from it ends as by a death, and is there again before that to it ends so.
	r.mu.Lock()
	r.admitted(in)
	r.mu.Unlock()
	r.opened()
	r.wentOut(in, io.EOF)
	r.mu.Lock()
	r.admitted(in)
	r.mu.Unlock()
	r.closed(io.EOF, 0)
	told := make(chan struct{})
	m.Transport.events.add(func() { close(told) })
	<-told
	if n := m.count("down 2"); n != 2 {
		t.Errorf("its process has dialed again: Down was called %d times, want 2", n)
	}
}

// Bytes that a Stream function leaves unread have to be good, too, or the sender would
// believe that lost bytes arrived.
func TestWhatAStreamLeavesUnread(t *testing.T) {
	two := confirming(t, func(hello) status { return statusWelcome })
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: two}, quick, func(c *Config) {
		c.Stream = func(machine.NodeID, []byte, io.Reader) error { return nil } // it has what it wants
	})
	damaged := appendFrame(nil, frameChunk, []byte("chunk"))
	damaged[len(damaged)-1]++
	for _, tt := range []struct {
		name   string
		frames []byte
		want   string
	}{
		{"all of it", appendFrame(appendFrame(nil, frameChunk, []byte("chunk")), frameEnd, nil), ""},
		{"the sender gives up", appendFrame(appendFrame(nil, frameChunk, []byte("chunk")), frameAbort, []byte("out of ink")), "out of ink"},
		{"damage", appendFrame(damaged, frameEnd, nil), "checksum"},
	} {
		conn, err := greetRaw(t, m.addr, hello{kindBulk, 77, 2, 1, 5, ticket{9}})
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(append(appendFrame(nil, frameHeader, nil), tt.frames...))
		err = readVerdict(conn)
		if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, errRejected) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("unread: %s: the verdict is %v, want one of %q", tt.name, err, tt.want)
		}
		conn.Close()
	}
}

// A peer that hears that its stream failed may still be sending: that is read and thrown away until
// it hangs up. Closed with bytes unread the connection would be reset, and the verdict lost.
func TestAVerdictWaitsForItsReader(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) {
		c.Stream = func(machine.NodeID, []byte, io.Reader) error { return errors.New("no room") }
	})
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	r.bulkIn <- struct{}{}
	ours, other := net.Pipe() // which has no room for what is not read
	var serving sync.WaitGroup
	serving.Go(func() {
		defer ours.Close()
		m.serveBulk(ours, r)
	})
	defer serving.Wait()
	defer other.Close()
	other.SetDeadline(time.Now().Add(20 * time.Second))
	other.Write(appendFrame(nil, frameHeader, nil))
	if err := readVerdict(other); !errors.Is(err, errRejected) || !strings.Contains(err.Error(), "no room") {
		t.Fatalf("the verdict is %v", err)
	}
	if _, err := other.Write(appendFrame(nil, frameChunk, make([]byte, 1000))); err != nil {
		t.Errorf("what the sender had on its way when it was told is not read: %v", err)
	}
}

// A stream whose welcome cannot be written lets in the one that takes its place.
func TestAStreamIsReplacedBeforeItsWelcome(t *testing.T) {
	tm := quick
	tm.handshake = 10 * time.Second
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, tm, nil)
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	stream := func() (*incoming, net.Conn, net.Conn) {
		ours, other := net.Pipe()
		t.Cleanup(func() { ours.Close(); other.Close() })
		in := &incoming{instance: 5, hangUp: func() { ours.Close() }, heard: make(chan struct{}, 1), done: make(chan struct{})}
		return in, ours, other
	}
	first, ours, _ := stream()
	var admitting sync.WaitGroup
	admitting.Go(func() { // until it is hung up, for nobody reads
		if m.admit(ours, r, first) == nil {
			t.Error("a stream is let in that was hung up")
		}
	})
	poll(t, "the first stream", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.in == first
	})
	second, ours, other := stream()
	go io.Copy(io.Discard, other)
	if err := m.admit(ours, r, second); err != nil {
		t.Errorf("a second stream, when the first is hung up before its welcome: %v", err)
	}
	admitting.Wait()
}

// The stream to one that is no peer any more is hung up at once, not for its silence.
func TestAStreamToOneThatGoesIsHungUp(t *testing.T) {
	tm := quick
	tm.silence = time.Hour
	ln := listen(t, "127.0.0.1:0")
	ended := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := ln.Accept()
		if err != nil {
			ended <- err
			return
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, _, err := readHello(conn); err == nil {
			conn.Write(encodeWelcome(statusWelcome, ""))
		}
		_, err = io.Copy(io.Discard, conn)
		ended <- err
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: ln.Addr().String()}, tm, nil)
	m.wait("up 2")
	if err := m.SetPeers(nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("20 s later the stream to one that is no peer any more is there")
	}
}

// A connection that did not come to stand is forgotten: a member dials for years one that is not
// there, or does not want it.
func TestDialsThatFailAreForgotten(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	t.Cleanup(func() { ln.Close() })
	var tries atomic.Int64
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			conn.Close()
		}
	}()
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: ln.Addr().String()}, quick, nil)
	poll(t, "twenty dials", func() bool { return tries.Load() > 20 })
	m.Transport.mu.Lock()
	defer m.Transport.mu.Unlock()
	if n, k := len(m.conns), len(m.dialing); n > 1 || k > 1 {
		t.Errorf("after twenty dials that failed %d connections and %d tickets are remembered, want those of one dial at most", n, k)
	}
}

// The memory of a large message is given back after its delivery.
func TestLargeMessagesAreNotKept(t *testing.T) {
	freed := make(chan struct{})
	c := newCluster(t, 2, quick, func(id machine.NodeID, c *Config) {
		deliver := c.Deliver
		c.Deliver = func(from machine.NodeID, msgs [][]byte) {
			for _, msg := range msgs {
				if id == 2 && len(msg) > 4*batchBytes {
					runtime.AddCleanup(&msg[0], func(freed chan struct{}) { close(freed) }, freed)
					return
				}
			}
			deliver(from, msgs)
		}
	})
	if !c[0].Send(2, make([]byte, 5*batchBytes)) || !c[0].Send(2, []byte("small")) {
		t.Fatal("the messages were not taken")
	}
	c[1].waitMessage(1, "small")
	poll(t, "the memory of a large message that was delivered to be given back", func() bool {
		runtime.GC()
		select {
		case <-freed:
			return true
		default:
			return false
		}
	})
}

// dialCount counts the connections that were dialed and not closed.
type dialCount struct{ open atomic.Int64 }

type dialed struct {
	net.Conn
	gone func()
}

func (d *dialCount) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := dialTCP(ctx, addr)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return &dialed{conn, sync.OnceFunc(func() { d.open.Add(-1) })}, nil
}

func (d *dialed) Close() error {
	d.gone()
	return d.Conn.Close()
}

// The dialer hangs up, however it ended: the garbage collector, which closes what is
// forgotten, may come after the process has no descriptors left.
func TestWhoDialsHangsUp(t *testing.T) {
	answers := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) {
		c.Answer = func(said []byte) []byte { return said }
	})
	refuses := newMember(t, 2, listen(t, "127.0.0.1:0"), nil, quick, nil)
	deaf := listen(t, "127.0.0.1:0")
	defer deaf.Close()
	for name, ask := range map[string]func(d *dialCount, ctx context.Context) ([]byte, error){
		"an answer": func(d *dialCount, ctx context.Context) ([]byte, error) {
			return Ask(ctx, answers.addr, nil, d.dial, nil)
		},
		"a refusal": func(d *dialCount, ctx context.Context) ([]byte, error) {
			return Ask(ctx, refuses.addr, nil, d.dial, nil)
		},
		"a question too long": func(d *dialCount, ctx context.Context) ([]byte, error) {
			return Ask(ctx, answers.addr, nil, d.dial, make([]byte, questionMax+1))
		},
		"no TLS there": func(d *dialCount, ctx context.Context) ([]byte, error) {
			return Ask(ctx, answers.addr, &tls.Config{}, d.dial, nil)
		},
		"no time left": func(d *dialCount, ctx context.Context) ([]byte, error) {
			ctx, cancel := context.WithCancel(ctx)
			return Ask(ctx, deaf.Addr().String(), nil, func(ctx context.Context, addr string) (net.Conn, error) {
				defer cancel()
				return d.dial(ctx, addr)
			}, nil)
		},
	} {
		var d dialCount
		if _, err := ask(&d, t.Context()); (err == nil) != (name == "an answer") {
			t.Errorf("%s: got error %v", name, err)
		}
		if n := d.open.Load(); n != 0 {
			t.Errorf("%s: %d connections of a question are open behind it", name, n)
		}
	}

	var d dialCount
	c := newCluster(t, 2, quick, func(id machine.NodeID, c *Config) {
		c.Dial = d.dial
		c.Stream = func(_ machine.NodeID, _ []byte, r io.Reader) error { return errors.New("no") }
	})
	if err := c[0].SendStream(t.Context(), 2, nil, strings.NewReader("stream")); !errors.Is(err, errRejected) {
		t.Error(err)
	}
	poll(t, "the connections to be those of messages alone, one each way", func() bool { return d.open.Load() == 2 })
	for _, m := range c {
		m.Close()
	}
	if n := d.open.Load(); n != 0 {
		t.Errorf("%d connections are open behind the members", n)
	}
}

// A connection has ended as by a death if the kernel of the other side ended it, whatever was under
// way, and not if somebody here did, or nobody.
func TestHowConnectionsOfTheDeadEnd(t *testing.T) {
	system := func(what string, err error) error {
		return fmt.Errorf("peer: %w", &net.OpError{Op: what, Net: "tcp", Err: os.NewSyscallError(what, err)})
	}
	for err, want := range map[error]bool{
		io.EOF: true, fmt.Errorf("peer: %w", io.ErrUnexpectedEOF): true,
		system("read", syscall.ECONNRESET): true, system("write", syscall.EPIPE): true,
		system("read", syscall.ETIMEDOUT): false, system("read", syscall.EHOSTUNREACH): false,
		net.ErrClosed: false, timeout(os.ErrDeadlineExceeded): false, context.Canceled: false, violation("nonsense"): false, error(nil): false,
	} {
		if got := isDeath(err); got != want {
			t.Errorf("a connection that ends with %v has ended as by a death: %v, want %v", err, got, want)
		}
	}
}
