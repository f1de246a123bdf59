package peer

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Streams come and go with the peers, and one that was removed is told so.
func TestPeersComeAndGo(t *testing.T) {
	c := newCluster(t, 2, quick, nil)
	one, two := c[0], c[1]
	ln := listen(t, "127.0.0.1:0")
	all := map[machine.NodeID]string{1: one.addr, 2: two.addr, 3: ln.Addr().String()}
	three := newMember(t, 3, ln, all, quick, nil)
	three.wait("refused 1")
	for _, m := range c {
		if err := m.SetPeers(all, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range c {
		m.wait("up 3")
	}
	three.wait("up 1")
	three.wait("up 2")
	three.Send(1, []byte("hello"))
	one.waitMessage(3, "hello")

	less := maps.Clone(all)
	delete(less, 2)
	for _, m := range []*member{one, three} {
		if err := m.SetPeers(less, []machine.NodeID{2}); err != nil {
			t.Fatal(err)
		}
	}
	two.wait("refused 1")
	if err := two.Stats(1).LastError; !errors.Is(err, ErrRemoved) {
		t.Errorf("the one that was removed is told %v", err)
	}
	if one.Send(2, []byte("anybody?")) {
		t.Error("a message was taken for one that was removed")
	}
	if n := one.count("down 2"); n != 0 {
		t.Error("one that was removed looks dead")
	}
	three.Send(1, []byte("undisturbed"))
	one.waitMessage(3, "undisturbed")
}

func TestAsk(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) {
		c.Answer = func(said []byte) []byte { return append(said, ", we are three"...) }
	})
	if got, err := Ask(context.Background(), m.addr, nil, nil, []byte("hello")); string(got) != "hello, we are three" {
		t.Errorf("got %q, %v", got, err)
	}
	shy := newMember(t, 2, listen(t, "127.0.0.1:0"), nil, quick, nil)
	if got, err := Ask(context.Background(), shy.addr, nil, nil, nil); !errors.Is(err, errUnsupported) {
		t.Errorf("got %q, %v, want a refusal", got, err)
	}
}

// A question that was answered makes room for the next, and its connection is no guest any more.
func TestAnsweredQuestionsMakeRoom(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) {
		c.Answer = func([]byte) []byte { return []byte("here") }
	})
	for n := range answersMax + 1 {
		if said, err := Ask(t.Context(), m.addr, nil, nil, nil); string(said) != "here" {
			t.Errorf("question %d is not answered: %q, %v", n+1, said, err)
			m.guests.mu.Lock()
			defer m.guests.mu.Unlock()
			for _, in := range m.guests.inside {
				in.end() // Close would wait for it
			}
			return
		}
	}
	m.Close()
	if n := len(m.guests.inside); n != 0 {
		t.Errorf("%d guests are inside though all connections have ended", n)
	}
}

// A question and its answer are frames of one type, and no other is taken for one.
func TestOtherFramesAreNoQuestions(t *testing.T) {
	asked := make(chan []byte, 20)
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) {
		c.Answer = func(said []byte) []byte { asked <- said; return nil }
	})
	for typ := frameType(0); typ <= frameVerdict+1; typ++ {
		if typ == frameHeader {
			continue
		}
		conn, err := greetRaw(t, m.addr, hello{kind: kindInquiry})
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(appendFrame(nil, typ, []byte("hello")))
		if _, said, err := readFrame(conn, nil, answerMax); err == nil {
			t.Errorf("a frame of type %d is taken for a question: %q", typ, said)
		}

		said, err := Ask(t.Context(), "somewhere", nil, func(context.Context, string) (net.Conn, error) {
			ours, other := net.Pipe()
			go func() {
				defer other.Close()
				readHello(other)
				other.Write(encodeWelcome(statusWelcome, ""))
				readFrame(other, nil, questionMax)
				other.Write(appendFrame(nil, typ, []byte("hello")))
			}()
			return ours, nil
		}, nil)
		if !errors.Is(err, errProtocol) {
			t.Errorf("a frame of type %d is taken for an answer: %q, %v", typ, said, err)
		}
	}
	if len(asked) > 0 {
		t.Errorf("%d questions came that were none", len(asked))
	}
	m.waitLog("a question was not answered")
}

// Peers that cannot be are refused, and those of before stay; a closed transport takes none.
func TestSetPeersIsChecked(t *testing.T) {
	c := newCluster(t, 2, quick, nil)
	for name, peers := range map[string]map[machine.NodeID]string{
		"nobody":  {0: "127.0.0.1:1"},
		"no port": {2: "127.0.0.1"},
	} {
		if err := c[0].SetPeers(peers, []machine.NodeID{2}); err == nil || errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	c[0].Send(2, []byte("still here"))
	c[1].waitMessage(1, "still here")
	c[1].Send(1, []byte("not removed"))
	c[0].waitMessage(2, "not removed")
	c[0].Close()
	if err := c[0].SetPeers(map[machine.NodeID]string{3: "127.0.0.1:1"}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, want %v", err, ErrClosed)
	}
	if s := c[0].Stats(3); s != (Stats{}) || c[0].Send(3, nil) {
		t.Errorf("after Close there is a new peer: %+v", s)
	}
}

// Each peer makes room for four guests more, those that its own connections are at first.
func TestRoomForGuestsOfPeers(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) {
		c.Dial = func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	})
	for _, n := range []int{0, 1, 3, 20, 0} {
		peers := map[machine.NodeID]string{}
		for id := range n {
			peers[machine.NodeID(id+2)] = "127.0.0.1:1"
		}
		if err := m.SetPeers(peers, nil); err != nil {
			t.Fatal(err)
		}
		if got := m.guestsMax(); got != 64+4*n {
			t.Errorf("%d peers make room for %d guests, want %d", n, got, 64+4*n)
		}
	}
}

// A question to where nobody is, or whose answer is cut off, returns the network's error.
func TestQuestionsThatNobodyAnswers(t *testing.T) {
	gone := errors.New("nobody is there")
	for _, tt := range []struct {
		what string
		dial DialFunc
		want error
	}{
		{"nobody is there", func(context.Context, string) (net.Conn, error) { return nil, gone }, gone},
		{"the answer is cut off", func(context.Context, string) (net.Conn, error) {
			ours, other := net.Pipe()
			go func() {
				defer other.Close()
				readHello(other)
				other.Write(encodeWelcome(statusWelcome, ""))
				readFrame(other, nil, questionMax)
				other.Write(appendFrame(nil, frameHeader, []byte("hello"))[:frameHeaderBytes+2])
			}()
			return ours, nil
		}, io.ErrUnexpectedEOF},
	} {
		if said, err := Ask(t.Context(), "somewhere", nil, tt.dial, nil); !errors.Is(err, tt.want) {
			t.Errorf("%s: %q, %v, want %v", tt.what, said, err, tt.want)
		}
	}
}
