package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A stranger knows all that a question or a list of members tells: the cluster's id, the
// members' ids and their addresses.
func TestAStrangerIsNoMember(t *testing.T) {
	streams := make(chan machine.NodeID, 10)
	c := newCluster(t, 2, quick, func(_ machine.NodeID, c *Config) {
		c.Stream = func(from machine.NodeID, _ []byte, _ io.Reader) error { streams <- from; return nil }
	})
	held, done := c[1].draw(c[1].remote(1)) // of a connection of 2 to 1 that is being made
	defer done()
	elsewhere, done := c[0].draw(c[0].remote(2)) // one that a stranger may have of 1's own
	defer done()
	for name, h := range map[string]hello{
		"a ticket that it has made up": {kindMessages, 77, 2, 1, c[1].instance, newTicket()},
		"no ticket":                    {kindMessages, 77, 2, 1, c[1].instance, ticket{}},
		"for a stream":                 {kindBulk, 77, 2, 1, c[1].instance, newTicket()},
		"the ticket of a member that dials another": {kindMessages, 77, 2, 1, c[1].instance, elsewhere},
		"the process's own ticket at another one":   {kindMessages, 77, 1, 2, c[0].instance, held},
	} {
		addr := c[h.to-1].addr
		conn, err := greetRaw(t, addr, h)
		if !errors.Is(err, ErrDuplicateID) {
			t.Errorf("%s: taken for member %d: %v", name, h.from, err)
		}
		conn.Write(appendFrame(nil, frameBatch, []byte("\x05false")))
		wantHangUp(t, conn)
	}
	if _, err := greetRaw(t, c[0].addr, hello{kindMessages, 77, 2, 1, c[1].instance, held}); err != nil {
		t.Errorf("with the ticket of the member itself: %v", err)
	}
	select {
	case from := <-streams:
		t.Errorf("a stranger's stream was read as member %d's", from)
	default:
	}
	for _, m := range c {
		m.mu.Lock()
		for from, got := range m.got {
			for _, msg := range got {
				if msg == "false" {
					t.Errorf("a stranger's message was delivered as member %d's", from)
				}
			}
		}
		m.mu.Unlock()
	}
}

// A member that nobody can reach at its address is told so, and is not let in: anybody
// could be there.
func TestNobodyAtTheAddress(t *testing.T) {
	nobody := listen(t, "127.0.0.1:0")
	nobody.Close()
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: nobody.Addr().String(), 3: confirming(t, func(hello) status { return statusWrongAddress })}, quick, nil)
	for _, from := range []machine.NodeID{2, 3} {
		if _, err := greetRaw(t, m.addr, hello{kindMessages, 77, from, 1, 5, ticket{9}}); !errors.Is(err, ErrUnconfirmed) {
			t.Errorf("member %d, which is not at its address: %v, want ErrUnconfirmed", from, err)
		}
	}
}

// The question names the dialer's ticket and who was dialed, and whoever is asked answers
// for the connections only that it is making at the time.
func TestWhatIsConfirmed(t *testing.T) {
	c := newCluster(t, 1, quick, nil)
	m := c[0]
	if err := m.SetPeers(map[machine.NodeID]string{2: "127.0.0.1:1", 3: "127.0.0.1:1"}, nil); err != nil {
		t.Fatal(err)
	}
	tk, done := m.draw(m.remote(2))
	ask := func(from machine.NodeID, tk ticket, cluster uint64) error {
		conn, err := greetRaw(t, m.addr, hello{kindConfirm, cluster, from, 1, 5, tk})
		wantHangUp(t, conn)
		return err
	}
	if err := ask(2, tk, 77); err != nil {
		t.Errorf("its own connection to the one that asks: %v", err)
	}
	if err := ask(3, tk, 77); !errors.Is(err, errNotMine) {
		t.Errorf("its connection to another: %v", err)
	}
	if err := ask(2, ticket{1}, 77); !errors.Is(err, errNotMine) {
		t.Errorf("somebody else's connection: %v", err)
	}
	if err := ask(0, ticket{1}, 77); !errors.Is(err, errNotMine) {
		t.Errorf("nobody's connection: %v", err)
	}
	if err := ask(2, tk, 78); !errors.Is(err, ErrWrongCluster) {
		t.Errorf("another cluster asks: %v", err)
	}
	done()
	if err := ask(2, tk, 77); !errors.Is(err, errNotMine) {
		t.Errorf("a connection that it makes no more: %v", err)
	}
}

// Two processes are at one address, one after the other, as a proxy may have it. As long
// as the first is heard from, the second is not let in.
func TestSecondProcessWhileTheFirstIsAlive(t *testing.T) {
	patient := quick
	patient.ping = 10 * time.Second // a busy machine may be slow to run the first
	m := alone(t, patient)
	first, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 5, ticket{9}})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	pinged := make(chan struct{})
	go func() {
		defer close(pinged)
		for {
			select {
			case <-stop:
				return
			case <-time.After(quick.ping / 4):
				first.Write(appendFrame(nil, framePing, make([]byte, 8)))
			}
		}
	}()
	go io.Copy(io.Discard, first)
	if _, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 6, ticket{9}}); !errors.Is(err, ErrDuplicateID) {
		t.Errorf("got %v, want ErrDuplicateID", err)
	}
	close(stop)
	<-pinged
}

// A process that delivers for long says nothing meanwhile, and is alive all the same.
func TestSecondProcessWhileTheFirstDelivers(t *testing.T) {
	delivering, release := make(chan struct{}), make(chan struct{})
	two := confirming(t, func(hello) status { return statusWelcome })
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: two}, quick, func(c *Config) {
		c.Deliver = func(machine.NodeID, [][]byte) { close(delivering); <-release }
	})
	t.Cleanup(sync.OnceFunc(func() { close(release) })) // before the member ends
	first, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 5, ticket{9}})
	if err != nil {
		t.Fatal(err)
	}
	batch, _ := appendBatch(nil, [][]byte{[]byte("x")}, 100)
	if _, err := first.Write(batch); err != nil {
		t.Fatal(err)
	}
	<-delivering
	if _, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 6, ticket{9}}); !errors.Is(err, ErrDuplicateID) {
		t.Errorf("a second process while what the first sent is delivered: %v, want ErrDuplicateID", err)
	}
}

// A missing answer to a ping ends the connection, and nothing else.
func TestPongsThatMakeNoSense(t *testing.T) {
	future := le.AppendUint64(nil, 1<<62)
	for name, frame := range map[string][]byte{
		"short":         appendFrame(nil, framePong, []byte("123")),
		"of the future": appendFrame(nil, framePong, future),
		"a batch":       appendFrame(nil, frameBatch, nil),
	} {
		ln := listen(t, "127.0.0.1:0")
		m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: ln.Addr().String()}, quick, nil)
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		ln.Close() // it is not let in again
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, _, err := readHello(conn); err != nil {
			t.Fatal(err)
		}
		conn.Write(encodeWelcome(statusWelcome, ""))
		conn.Write(frame)
		io.Copy(io.Discard, conn)
		m.waitLog("no connection to member")
		if ended, _, _ := strings.Cut(m.log.String()[strings.Index(m.log.String(), "no connection"):], "\n"); !strings.Contains(ended, errProtocol.Error()) {
			t.Errorf("an answer to a ping that is %s: the connection goes on, and ends with %q", name, ended)
		}
		conn.Close()
		m.Close()
	}
}

// fakeConn is a connection of somebody.
type fakeConn struct {
	net.Conn
	from string
}

func (c *fakeConn) Close() error { return nil }

func (c *fakeConn) RemoteAddr() net.Addr { return fakeAddr(c.from) }

type fakeAddr string

func (fakeAddr) Network() string  { return "tcp" }
func (a fakeAddr) String() string { return string(a) }

// A source that has more guests than any other loses its own oldest, and nobody else's.
func TestGuestsOfOneSource(t *testing.T) {
	var g Guests
	enter := func(from string) (out string) {
		if _, c := g.Enter(&fakeConn{from: from}, 8); c != nil {
			return c.conn.RemoteAddr().String()
		}
		return ""
	}
	for i := range 3 {
		enter(fmt.Sprintf("10.0.0.%d:1", i)) // members
	}
	for i := range 5 {
		enter(fmt.Sprintf("[2001:db8::%d]:9", i)) // a stranger with a network of its own
	}
	for i := range 20 {
		if out, want := enter(fmt.Sprintf("[2001:db8::f:%d]:9", i)), "2001:db8::"; !bytes.HasPrefix([]byte(out), []byte("["+want)) {
			t.Fatalf("for a stranger's guest %d the one that has to go is %q, want the stranger's oldest", i, out)
		}
	}
	if out := enter("10.0.0.3:1"); out != "[2001:db8::f:15]:9" {
		t.Errorf("for a member the one that has to go is %q, want the stranger's oldest", out)
	}
	if len(g.inside) != 8 {
		t.Errorf("%d are inside, 8 are the limit", len(g.inside))
	}
}

// A process that has left is no guest: a connection that was let in is not closed for a
// stranger's.
func TestGuestsLeave(t *testing.T) {
	var g Guests
	member, _ := g.Enter(&fakeConn{from: "10.0.0.1:1"}, 2)
	g.Leave(member)
	for i := range 4 {
		if _, out := g.Enter(&fakeConn{from: "10.0.0.1:9"}, 2); out == member {
			t.Errorf("for guest %d one is put out that is none any more", i)
		}
	}
	g.Leave(member) // again
	if len(g.inside) != 2 {
		t.Errorf("%d are inside, want 2", len(g.inside))
	}
}

// Questions are guests until they are answered, and have a limit of their own.
func TestQuestionsAreBounded(t *testing.T) {
	hold, thinking := make(chan struct{}), make(chan struct{}, 100)
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) {
		c.Answer = func([]byte) []byte { thinking <- struct{}{}; <-hold; return nil }
	})
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release) // before the member ends
	var conns []net.Conn
	for range guestsMin + 20 {
		conn, err := net.Dial("tcp", m.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.Write(appendFrame(hello{kind: kindInquiry}.encode(), frameHeader, nil))
		conns = append(conns, conn)
	}
	for _, conn := range conns[:20] { // put out for those behind
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("more than %d guests are inside", guestsMin)
		}
	}
	for range 4 { // as the documentation says
		<-thinking
	}
	poll(t, "the questions that were put out to go", func() bool {
		m.Transport.mu.Lock()
		defer m.Transport.mu.Unlock()
		return len(m.conns) <= guestsMin+answersMax
	})
	time.Sleep(50 * time.Millisecond) // for more, if they may
	if n := len(thinking); n > 0 {
		t.Errorf("%d questions more than %d are being answered at a time", n, 4)
	}
	release()

	long, err := net.Dial("tcp", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	long.Write(hello{kind: kindInquiry}.encode())
	if err := readWelcome(long, 0); err != nil {
		t.Fatal(err)
	}
	long.Write(appendFrame(nil, frameHeader, make([]byte, questionMax+1)))
	if _, body, err := readFrame(bufio.NewReader(long), nil, answerMax); err == nil {
		t.Errorf("a question of %d bytes was answered by %d", questionMax+1, len(body))
	}
}

// A member whose answer never ends is not listened to.
func TestAnswersAreBounded(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	defer ln.Close()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		readHello(conn)
		conn.Write(encodeWelcome(statusWelcome, ""))
		conn.Write(appendFrame(nil, frameHeader, make([]byte, answerMax+1)))
		io.Copy(io.Discard, conn)
	}()
	if said, err := Ask(context.Background(), ln.Addr().String(), nil, nil, nil); !errors.Is(err, errProtocol) {
		t.Errorf("an answer of %d bytes, %v; want ErrProtocol", len(said), err)
	}
}

// A ticket that could be foreseen would let a stranger in.
func TestTicketsAreDrawn(t *testing.T) {
	if a, b := newTicket(), newTicket(); a == b || a == (ticket{}) || b == (ticket{}) {
		t.Errorf("two connections have one ticket, or none: %x and %x", a, b)
	}
}

// A stranger that names a member at whose address nobody answers has no more connections made
// there than it may have itself: nothing is asked about one that was put out.
func TestConfirmationsEndWithTheirGuests(t *testing.T) {
	slow := quick
	slow.handshake = 14 * time.Second // a question waits for half of it
	limit := guestsMin + guestsPerPeer
	begun, ended := make(chan struct{}, 4*limit), make(chan error, 4*limit)
	var dials atomic.Int32
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: "nobody:1"}, slow, func(c *Config) {
		c.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
			// Its own connection to the member is the first. The member that is asked about has to hear why it is refused.
			patience := slow.handshake
			if dials.Add(1) > 1 {
				patience /= 2
			}
			begun <- struct{}{}
			if until, _ := ctx.Deadline(); time.Until(until) > patience {
				t.Errorf("somebody is asked about a connection until %v", until)
			}
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}
	})
	<-begun // its own connection to the member
	for range 3 * limit {
		conn, err := net.Dial("tcp", m.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.Write(hello{kindMessages, 77, 2, 1, 5, newTicket()}.encode())
		<-begun
	}
	for range 2 * limit {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("of %d connections that were put out one is asked about until %v", 2*limit, err)
		}
	}
}
