package peer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// withStream makes member 2 take streams with f.
func withStream(f func(from machine.NodeID, header []byte, r io.Reader) error) func(machine.NodeID, *Config) {
	return func(id machine.NodeID, c *Config) {
		if id == 2 {
			c.Stream = f
		}
	}
}

// TestLargeStreamBesideMessages sends 100 MB and wants messages, over the other
// connection, to stay fast meanwhile.
func TestLargeStreamBesideMessages(t *testing.T) {
	size := int64(100 << 20)
	if testing.Short() {
		size = 10 << 20
	}
	content := func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{7}), size) }
	want := sha256.New()
	io.Copy(want, content())
	got := sha256.New()
	c := newCluster(t, 2, quick, withStream(func(from machine.NodeID, header []byte, r io.Reader) error {
		if from != 1 || string(header) != "snapshot 42" {
			return fmt.Errorf("header %q from %d", header, from)
		}
		_, err := io.Copy(got, r)
		return err
	}))
	done := make(chan error, 1)
	go func() { done <- c[0].SendStream(context.Background(), 2, []byte("snapshot 42"), content()) }()
	var slowest time.Duration
	for i, running := 0, true; running; i++ {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
			msg, sent := fmt.Sprint(i), time.Now()
			c[0].Send(2, []byte(msg))
			c[1].waitMessage(1, msg)
			slowest = max(slowest, time.Since(sent))
		}
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Error("other bytes came out")
	}
	if s, r := c[0].Stats(2), c[1].Stats(1); int64(s.StreamBytesSent) != size || int64(r.StreamBytesReceived) != size {
		t.Errorf("counted %d and %d bytes, want %d", s.StreamBytesSent, r.StreamBytesReceived, size)
	}
	t.Logf("slowest message %v", slowest)
	if slowest > time.Second {
		t.Errorf("a message took %v beside the stream", slowest)
	}
}

func TestStreamVerdicts(t *testing.T) {
	broken := errors.New("broken source")
	takeAll := func(_ machine.NodeID, _ []byte, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	big := strings.Repeat("x", 20<<20)
	tests := []struct {
		name string
		take func(machine.NodeID, []byte, io.Reader) error
		src  io.Reader
		want error
		text string
	}{
		{"empty", takeAll, strings.NewReader(""), nil, ""},
		{"taken", takeAll, strings.NewReader(big), nil, ""},
		{"not read to the end", func(machine.NodeID, []byte, io.Reader) error { return nil }, strings.NewReader(big), nil, ""},
		{"rejected at once", func(machine.NodeID, []byte, io.Reader) error { return errors.New("too old") }, strings.NewReader(big), errRejected, "too old"},
		{"rejected on the way", func(_ machine.NodeID, _ []byte, r io.Reader) error {
			io.CopyN(io.Discard, r, 1<<20)
			return errors.New("disk full")
		}, strings.NewReader(big), errRejected, "disk full"},
		{"rejected at length", func(machine.NodeID, []byte, io.Reader) error { return errors.New(big[:3*verdictBytesMax]) }, strings.NewReader(big), errRejected, "xxx"},
		{"the source fails", takeAll, io.MultiReader(strings.NewReader(big), errReader{broken}), broken, "broken source"},
		{"the source is cut off", takeAll, io.MultiReader(strings.NewReader("half"), errReader{io.ErrUnexpectedEOF}), io.ErrUnexpectedEOF, "unexpected EOF"},
		{"the source is cut off behind much", takeAll, io.MultiReader(strings.NewReader(big), errReader{io.ErrUnexpectedEOF}), io.ErrUnexpectedEOF, "unexpected EOF"},
		{"streams are not taken", nil, strings.NewReader(big), errUnsupported, "takes no streams"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			taken := make(chan error, 1)
			var take func(machine.NodeID, []byte, io.Reader) error
			if tt.take != nil {
				take = func(from machine.NodeID, header []byte, r io.Reader) error {
					err := tt.take(from, header, r)
					taken <- err
					return err
				}
			}
			c := newCluster(t, 2, quick, withStream(take))
			err := c[0].SendStream(context.Background(), 2, nil, tt.src)
			if !errors.Is(err, tt.want) || tt.want != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
			if tt.want == broken || tt.want == io.ErrUnexpectedEOF {
				if err := <-taken; err == nil || !strings.Contains(err.Error(), "gave up: "+tt.text) {
					t.Errorf("the receiver got %v, want what the sender's source said", err)
				}
			}
		})
	}
	c := newCluster(t, 2, quick, withStream(takeAll))
	if err := c[0].SendStream(context.Background(), 3, nil, nil); !errors.Is(err, ErrUnknownMember) {
		t.Errorf("got %v, want ErrUnknownMember", err)
	}
	long := make([]byte, streamHeaderMax+1)
	if err := c[0].SendStream(context.Background(), 2, long, strings.NewReader("")); err == nil || errors.Is(err, errRejected) {
		t.Errorf("a header of %d bytes: got %v, want that it is not sent", len(long), err)
	}
	if err := c[0].SendStream(context.Background(), 2, long[1:], strings.NewReader("")); err != nil {
		t.Errorf("a header of %d bytes: %v", len(long)-1, err)
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

// endless is a source that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestStreamCutOff ends a stream in three ways; both sides must notice.
func TestStreamCutOff(t *testing.T) {
	for _, how := range []string{"sender's context", "sender closes", "receiver closes"} {
		t.Run(how, func(t *testing.T) {
			started, taken := make(chan struct{}), make(chan error, 1)
			c := newCluster(t, 2, quick, withStream(func(_ machine.NodeID, _ []byte, r io.Reader) error {
				io.CopyN(io.Discard, r, 1<<20)
				close(started)
				_, err := io.Copy(io.Discard, r)
				taken <- err
				return err
			}))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			sent := make(chan error, 1)
			go func() { sent <- c[0].SendStream(ctx, 2, nil, endless{}) }()
			<-started
			var want error
			switch how {
			case "sender's context":
				cancel()
				want = context.Canceled
			case "sender closes":
				c[0].Close()
				want = ErrClosed
			case "receiver closes":
				c[1].Close()
			}
			if err := <-sent; err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("sender: %v, want %v", err, want)
			}
			if err := <-taken; err == nil {
				t.Error("the receiver took a cut-off stream for a whole one")
			}
		})
	}
}

func TestStreamsTakeTurns(t *testing.T) {
	release := make(chan struct{})
	started := make(chan struct{}, 10)
	c := newCluster(t, 2, quick, withStream(func(_ machine.NodeID, _ []byte, r io.Reader) error {
		started <- struct{}{}
		<-release
		_, err := io.Copy(io.Discard, r)
		return err
	}))
	first := make(chan error, 1)
	go func() { first <- c[0].SendStream(context.Background(), 2, nil, strings.NewReader("one")) }()
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := c[0].SendStream(ctx, 2, nil, strings.NewReader("two")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second stream: %v, want it to wait its turn", err)
	}
	// A sender that does not keep to it is told.
	tk, done := c[0].draw(c[0].remote(2))
	defer done()
	_, err := greetRaw(t, c[1].addr, hello{kindBulk, 77, 1, 2, 5, tk})
	if !errors.Is(err, errBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("first stream: %v", err)
	}
	if err := c[0].SendStream(context.Background(), 2, nil, strings.NewReader("three")); err != nil {
		t.Errorf("third stream: %v", err)
	}
}

// A sender that has the verdict may send the next stream, hung up or not.
func TestNextStreamAfterTheVerdict(t *testing.T) {
	m := alone(t, quick)
	for i := range 2 {
		conn, err := greetRaw(t, m.addr, hello{kindBulk, 77, 2, 1, 5, ticket{9}})
		if err != nil {
			t.Fatalf("stream %d is refused: %v", i, err)
		}
		conn.Write(appendFrame(appendFrame(nil, frameHeader, nil), frameEnd, nil))
		if err := readVerdict(conn); err != nil {
			t.Fatal(err)
		}
	}
}

// Streams to one that is no peer any more end.
func TestStreamToOneThatGoes(t *testing.T) {
	started := make(chan struct{})
	c := newCluster(t, 2, quick, withStream(func(_ machine.NodeID, _ []byte, r io.Reader) error {
		close(started)
		_, err := io.Copy(io.Discard, r)
		return err
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- c[0].SendStream(ctx, 2, nil, endless{}) }()
	<-started
	if err := c[0].SetPeers(nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; !errors.Is(err, ErrUnknownMember) {
		t.Errorf("a stream to one that is no peer any more: got %v, want ErrUnknownMember", err)
	}
}

// And so do streams from it, also if it goes on: one that is told nothing by the others does not
// end its streams by itself.
func TestStreamFromOneThatGoes(t *testing.T) {
	started, taken := make(chan struct{}), make(chan error, 1)
	two := confirming(t, func(hello) status { return statusWelcome })
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: two}, quick, func(c *Config) {
		c.Stream = func(_ machine.NodeID, _ []byte, r io.Reader) error {
			close(started)
			_, err := io.Copy(io.Discard, r)
			taken <- err
			return err
		}
	})
	conn, err := greetRaw(t, m.addr, hello{kindBulk, 77, 2, 1, 5, ticket{9}})
	if err != nil {
		t.Fatal(err)
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer conn.Close()
	sending.Go(func() {
		_, err := conn.Write(appendFrame(nil, frameHeader, nil))
		for chunk := appendFrame(nil, frameChunk, make([]byte, 1000)); err == nil; {
			_, err = conn.Write(chunk)
		}
	})
	<-started
	if err := m.SetPeers(nil, []machine.NodeID{2}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-taken:
		if err == nil {
			t.Error("a stream from one that was removed is taken for a whole one")
		}
	case <-time.After(20 * time.Second):
		t.Error("20 s later a stream from one that was removed still comes")
	}
}

func TestStreamRate(t *testing.T) {
	c := newCluster(t, 2, quick, func(id machine.NodeID, c *Config) {
		c.StreamBytesPerSecond = 10 << 20
		c.Stream = func(_ machine.NodeID, _ []byte, r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		}
	})
	start := time.Now()
	if err := c[0].SendStream(context.Background(), 2, nil, io.LimitReader(endless{}, 2<<20)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 190*time.Millisecond {
		t.Errorf("2 MiB at 10 MiB/s took %v, want 200 ms or more", took)
	}
}
