package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// An asker that does not read the answer keeps nobody else from being answered, and is put
// out in time.
func TestWhoReadsNoAnswer(t *testing.T) {
	answered := make(chan struct{}, answersMax+2)
	answers := func(handshake time.Duration) (ask func() (net.Conn, <-chan struct{})) {
		tm := quick
		tm.handshake = handshake
		m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, tm, func(c *Config) {
			c.Answer = func([]byte) []byte {
				answered <- struct{}{}
				return []byte("an answer")
			}
		})
		return func() (net.Conn, <-chan struct{}) {
			stranger, conn := net.Pipe() // which has no room for what is not read
			t.Cleanup(func() { stranger.Close() })
			done := make(chan struct{})
			go func() {
				defer close(done)
				m.answer(conn, &Guest{conn: conn, stay: context.Background()})
				conn.Close()
			}()
			if _, err := stranger.Write(appendFrame(nil, frameHeader, nil)); err != nil {
				t.Fatal(err)
			}
			return stranger, done
		}
	}
	ask := answers(8 * time.Second)
	for range answersMax {
		ask()
		<-answered
	}
	reader, _ := ask()
	reader.SetReadDeadline(time.Now().Add(7 * time.Second))
	if _, body, err := readFrame(reader, nil, 100); string(body) != "an answer" {
		t.Errorf("beside %d that do not read, one that does is told %q, %v", answersMax, body, err)
	}
	_, done := answers(50 * time.Millisecond)()
	select {
	case <-done:
	case <-time.After(8 * time.Second):
		t.Error("a process that does not read the answer stays for ever")
	}
}

// A stream whose connection ends while it is confirmed leaves room for the member's next one.
func TestAStreamThatEndsBeforeItsWelcome(t *testing.T) {
	come := make(chan net.Conn, 1)
	two := confirming(t, func(hello) status {
		select {
		case conn := <-come:
			conn.Close()
		default:
		}
		return statusWelcome
	})
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: two}, quick, func(c *Config) {
		c.Stream = func(machine.NodeID, []byte, io.Reader) error { return nil }
	})
	h := hello{kindBulk, 77, 2, 1, 5, ticket{9}}
	conn, err := net.Dial("tcp", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.(*net.TCPConn).SetLinger(0) // so that nothing can be written to it any more
	come <- conn
	if _, err := conn.Write(h.encode()); err != nil {
		t.Fatal(err)
	}
	poll(t, "the connection to end", func() bool { return len(come) == 0 })
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		_, err := greetRaw(t, m.addr, h)
		if err == nil {
			return
		}
		if !errors.Is(err, errBusy) || time.Now().After(end) {
			t.Fatalf("after a stream that ended before its welcome: %v", err)
		}
	}
}

// A frame's length alone claims no memory: the bytes have to come.
func TestLengthsClaimNoMemory(t *testing.T) {
	head := appendFrame(nil, frameBatch, nil)
	le.PutUint32(head[4:], 64<<20)
	_, body, err := readFrame(bytes.NewReader(append(head, make([]byte, 1000)...)), nil, 64<<20)
	if err == nil || cap(body) > 4*growBytes {
		t.Errorf("for a frame of 64 MiB, of which 1,000 bytes come, there are %d bytes, %v", cap(body), err)
	}
}

// A bulk stream that stands still ends, and so does one whose sender does not hang up.
func TestStreamsThatStandStill(t *testing.T) {
	tm := quick
	tm.silence = 20 * time.Millisecond
	m := alone(t, tm)
	conn, err := greetRaw(t, m.addr, hello{kindBulk, 77, 2, 1, 5, ticket{9}})
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(8 * time.Second))
	if typ, said, err := readFrame(conn, nil, verdictBytesMax); typ != frameVerdict || !strings.Contains(string(said), errTooQuiet.Error()) {
		t.Fatalf("a stream that stands still goes on: %q, %v", said, err)
	}
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a stream whose sender does not hang up keeps its connection")
	}
}
