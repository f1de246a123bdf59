package peer

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Streams are counted at both ends, by how they end, and while they are on their way.
func TestStreamsAreCounted(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	c := newCluster(t, 2, quick, withStream(func(_ machine.NodeID, header []byte, r io.Reader) error {
		if string(header) == "refuse" {
			return errors.New("not this one")
		}
		if string(header) == "wait" {
			close(begun)
			<-goOn
		}
		_, err := io.Copy(io.Discard, r)
		return err
	}))
	send := func(header string) error {
		return c[0].SendStream(t.Context(), 2, []byte(header), strings.NewReader("all"))
	}
	for range 2 {
		if err := send("take"); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := send("refuse"); !errors.Is(err, errRejected) {
			t.Fatal(err)
		}
	}
	sent := make(chan error)
	go func() { sent <- send("wait") }()
	<-begun
	if out, in := c[0].Stats(2), c[1].Stats(1); out.StreamsSending != 1 || in.StreamsReceiving != 1 {
		t.Errorf("while a stream is on its way %d are being sent and %d received, want 1 and 1", out.StreamsSending, in.StreamsReceiving)
	}
	close(goOn)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	out, in := c[0].Stats(2), c[1].Stats(1)
	if out.StreamsSent != 3 || out.StreamsUnsent != 3 || out.StreamsSending != 0 {
		t.Errorf("%d streams are sent, %d are not and %d on their way, want 3, 3 and 0", out.StreamsSent, out.StreamsUnsent, out.StreamsSending)
	}
	if in.StreamsReceived != 3 || in.StreamsUnreceived != 3 || in.StreamsReceiving != 0 {
		t.Errorf("%d streams are received, %d are not and %d on their way, want 3, 3 and 0", in.StreamsReceived, in.StreamsUnreceived, in.StreamsReceiving)
	}
}

// Each end of a connection is counted.
func TestEndsOfConnectionsAreCounted(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil)
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	for i := range 3 {
		r.opened()
		if r.stats.Disconnects != uint64(i) {
			t.Errorf("%d connections ended, want %d", r.stats.Disconnects, i)
		}
		r.closed(io.EOF, 0)
	}
	if r.stats.Disconnects != 3 {
		t.Errorf("%d connections ended, want 3", r.stats.Disconnects)
	}
}
