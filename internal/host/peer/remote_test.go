package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// The bytes that are being written count like those that wait, and that messages are lost is
// told once until there is room again, or another connection.
func TestQueue(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) { c.QueueBytes = 1000 })
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	told := func(want int) {
		t.Helper()
		all := make(chan struct{})
		m.Transport.events.add(func() { close(all) })
		<-all
		if n := m.count("unreachable 2"); n != want {
			t.Errorf("that messages are lost was told %d times, want %d", n, want)
		}
	}
	if r.send(nil) {
		t.Error("a message was taken without a connection")
	}
	told(1)
	r.opened()
	msg := make([]byte, 600)
	if !r.send(msg) {
		t.Error("no room for 600 bytes of 1000")
	}
	writing := r.take(nil)
	if r.send(msg) {
		t.Error("1200 bytes are queued or being written, 1000 are the limit")
	}
	told(2)
	r.send(msg)
	told(2)
	r.wrote(writing, 600)
	if !r.send(msg) {
		t.Error("no room for 600 bytes when others were written")
	}
	r.send(msg)
	told(3)
}

// A queue of any size leaves in frames that the other side takes.
func TestFramesOfManyMessages(t *testing.T) {
	const limit, many = 1000, 50
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) { c.FrameBytesMax = limit })
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	r.opened()
	for range many {
		if !r.send(make([]byte, 100)) {
			t.Fatal("no room")
		}
	}
	here, there := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { r.write(ctx, here) })
	defer writing.Wait()
	defer there.Close()
	defer cancel()
	for left := many; left > 0; {
		typ, body, err := readFrame(there, nil, limit)
		if err != nil {
			t.Fatalf("%d messages of 100 bytes gathered; when %d were still to come: %v", many, left, err)
		}
		if typ == frameBatch {
			msgs, err := splitBatch(nil, body)
			if err != nil {
				t.Fatal(err)
			}
			left -= len(msgs)
		}
	}
}

// Of messages that leave in several frames, those count as lost that were in none that was written.
func TestMessagesOfFramesThatWereWrittenAreNotLost(t *testing.T) {
	const limit, many = 1000, 50
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) { c.FrameBytesMax = limit })
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	r.opened()
	for range many {
		r.send(make([]byte, 100))
	}
	here, there := net.Pipe()
	unwritten := make(chan int)
	go func() {
		n, _ := r.write(t.Context(), here)
		unwritten <- n
	}()
	read := 0
	for batches := 0; batches < 2; {
		typ, body, err := readFrame(there, nil, limit)
		if err != nil {
			t.Fatal(err)
		}
		if typ == frameBatch {
			msgs, err := splitBatch(nil, body)
			if err != nil {
				t.Fatal(err)
			}
			read, batches = read+len(msgs), batches+1
		}
	}
	there.Close()
	r.closed(io.ErrClosedPipe, <-unwritten)
	if s := r.stats; s.MessagesSent != uint64(read) || s.MessagesDropped != uint64(many-read) {
		t.Errorf("two frames with %d of %d messages were read: %d messages count as sent and %d as lost", read, many, s.MessagesSent, s.MessagesDropped)
	}
}

// Callbacks come in the order of what they tell, and none while another runs.
func TestEventsComeInOrder(t *testing.T) {
	e := newEvents()
	done := make(chan struct{})
	go func() { defer close(done); e.run() }()
	hold, all := make(chan struct{}), make(chan struct{})
	var got []int
	e.add(func() { <-hold })
	for i := range 5 {
		e.add(func() { got = append(got, i) })
	}
	e.add(func() { close(all) })
	close(hold)
	<-all
	for i, n := range got {
		if n != i {
			t.Errorf("callbacks came in the order %v", got)
			break
		}
	}
	e.close()
	<-done
}

// However often it dials, a member is told once that another one refuses it.
func TestRefusedOnceForEachReason(t *testing.T) {
	c := newCluster(t, 1, quick, nil)
	var tries atomic.Int64
	m := newMember(t, 2, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{1: c[0].addr}, quick, func(cfg *Config) {
		dial := cfg.Dial.orTCP()
		cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			tries.Add(1)
			return dial(ctx, addr)
		}
	})
	poll(t, "five dials", func() bool { return tries.Load() > 5 })
	all := make(chan struct{})
	m.Transport.events.add(func() { close(all) })
	<-all
	if n := m.count("refused 1"); n != 1 {
		t.Errorf("%d dials were refused for one reason, which was told %d times", tries.Load()-1, n)
	}
	if err := m.Stats(1).LastError; !errors.Is(err, ErrUnknownMember) {
		t.Errorf("refused because of %v, want ErrUnknownMember", err)
	}
}

// A greeting waits in the queue as messages do, and is counted like them.
func TestGreetingsAreCounted(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) {
		c.QueueBytes = 1000
		c.Greeting = func(machine.NodeID) []byte { return make([]byte, 600) }
	})
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	for connection := range 2 {
		r.opened()
		if r.queued != 600 || r.send(make([]byte, 600)) {
			t.Errorf("on connection %d there are %d bytes in the queue, want 600 of a greeting and no room for as many", connection, r.queued)
		}
		if msgs := r.take(nil); connection == 0 {
			r.wrote(msgs, 600)
		}
		if want := 600 * connection; r.queued != want {
			t.Errorf("on connection %d there are %d bytes in the queue once the greeting is on its way, want %d", connection, r.queued, want)
		}
		r.closed(io.EOF, connection)
	}
	if s := r.stats; s.MessagesSent != 1 || s.MessagesDropped != 3 || r.queued != 0 {
		t.Errorf("%d messages are sent and %d lost with %d bytes in the queue, want 1, 3 and none", s.MessagesSent, s.MessagesDropped, r.queued)
	}
}

// All messages count that were lost, and an error is that of a connection that is not there.
func TestLostMessagesAreCounted(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil)
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	r.send([]byte("to nobody"))
	r.opened()
	for range 3 {
		r.send([]byte("waits"))
	}
	r.closed(io.EOF, 2)
	if s := r.stats; s.MessagesDropped != 1+3+2 || s.LastError != io.EOF {
		t.Errorf("%d messages are lost, and the error is %v; want 6, and EOF", s.MessagesDropped, s.LastError)
	}
	r.opened()
	if err := r.stats.LastError; err != nil {
		t.Errorf("connected, and the error is %v", err)
	}
	if s := r.stats; s.MessagesDropped != 6 {
		t.Errorf("connected again, %d messages are lost, want 6", s.MessagesDropped)
	}
}

// A refusal is for people: it names the member as etcd's tools do, and gives its reason.
func TestRefusalsNameTheMember(t *testing.T) {
	err := readWelcome(bytes.NewReader(encodeWelcome(statusRemoved, "go away")), 0xabcd)
	if want := `peer: member abcd refuses this one: "go away": ` + ErrRemoved.Error(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for s, want := range []error{nil, errProtocol, ErrVersion, ErrWrongCluster, ErrUnknownMember, ErrWrongAddress, ErrDuplicateID,
		errBusy, errUnsupported, ErrRemoved, ErrUnconfirmed, errNotMine, errProtocol} {
		if err := readWelcome(bytes.NewReader(encodeWelcome(status(s), "")), 1); !errors.Is(err, want) {
			t.Errorf("status %d means %v, want %v", s, err, want)
		}
	}
}

// A queue takes messages to its last byte, and that it loses some is told again once half of it has
// drained, not before.
func TestAQueueAtItsBounds(t *testing.T) {
	for _, tt := range []struct{ written, told int }{{500, 2}, {499, 1}} {
		m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) { c.QueueBytes = 1000 })
		r := newRemote(m.Transport, 2, "127.0.0.1:1")
		r.opened()
		for _, size := range []int{tt.written, 1000 - tt.written} {
			if !r.send(make([]byte, size)) {
				t.Errorf("no room for the last %d bytes of a queue", size)
			}
		}
		if r.send(make([]byte, 1)) {
			t.Error("a byte more is taken than a queue may have")
		}
		r.wrote(r.take(nil)[:1], tt.written)
		r.send(make([]byte, 1000))
		all := make(chan struct{})
		m.Transport.events.add(func() { close(all) })
		<-all
		if n := m.count("unreachable 2"); n != tt.told {
			t.Errorf("with %d bytes of 1000 written in between, that messages are lost is told %d times, want %d", tt.written, n, tt.told)
		}
	}
}

// A connection that ends when all was sent has lost nothing, and what it had lost before was told.
func TestAConnectionThatLosesNothing(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil)
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	for lost, want := range []int{0, 1} {
		r.opened()
		r.closed(io.EOF, lost)
		all := make(chan struct{})
		m.Transport.events.add(func() { close(all) })
		<-all
		if n := m.count("unreachable 2"); n != want {
			t.Errorf("a connection has ended with %d messages lost, and that is told %d times, want %d", lost, n, want)
		}
	}
}
