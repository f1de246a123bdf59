package peer

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/tenure-lease/tenure/machine"
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
	if got, err := Ask(context.Background(), shy.addr, nil, nil, nil); !errors.Is(err, ErrUnsupported) {
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
