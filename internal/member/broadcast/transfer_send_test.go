package broadcast

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// A transfer holds back a Trim while it is written, and for a while after. Not for good: the
// receiver may have stopped before it answered.
func TestHeld(t *testing.T) {
	const nothing = ^Position(0)
	for name, tc := range map[string]struct {
		transfer transfer
		want     Position
	}{
		"it is being written":                    {transfer{busy: true, writing: true, from: 5}, 5},
		"the receiver is to answer":              {transfer{busy: true, from: 5, until: time.Now().Add(time.Hour)}, 5},
		"the receiver never answered":            {transfer{busy: true, from: 5, until: time.Now().Add(-time.Hour)}, nothing},
		"the receiver may ask for what follows":  {transfer{from: 5, until: time.Now().Add(time.Hour)}, 5},
		"the receiver has not asked for so long": {transfer{from: 5, until: time.Now().Add(-time.Hour)}, nothing},
	} {
		n := &Node{transfers: map[machine.NodeID]*transfer{2: &tc.transfer}}
		if got := n.heldFrom(); got != tc.want {
			t.Errorf("%s: held from %d on, want %d", name, got, tc.want)
		}
		if busy := n.transfers[2] != nil; busy != (tc.transfer.busy || tc.want == 5) {
			t.Errorf("%s: remembered: %v", name, busy)
		}
	}
}

// With several transfers, the messages that the receiver furthest behind needs are held.
func TestHeldForTheFurthestBehind(t *testing.T) {
	n := &Node{transfers: map[machine.NodeID]*transfer{}}
	for id := machine.NodeID(2); id <= 33; id++ {
		n.transfers[id] = &transfer{writing: true, from: Position(100 - id)}
	}
	if got := n.heldFrom(); got != 67 {
		t.Errorf("held from %d on, want 67, which member 33 needs", got)
	}
}

// arrival is a transfer as it arrived.
type arrival struct {
	from, at, size uint64
	body           int // bytes
	err            error
}

// refusedFrom is where a transfer begins that takesTransfers reads to its end and does not keep.
const refusedFrom = 3

// newReceiver is a member 2 that takes a transfer from member 1 when the test lets it, and
// reports it.
func newReceiver(t *testing.T, change ...func(*Config)) (n *Node, begun chan struct{}, goOn chan struct{}, got chan arrival) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n = minorityOf(t, map[machine.NodeID]string{2: ln.Addr().String()}, slog.New(slog.DiscardHandler), change...)
	begun, goOn, got = make(chan struct{}, 9), make(chan struct{}, 9), make(chan arrival, 9)
	two, err := peer.New(peer.Config{
		Self: 2, ClusterID: n.cfg.cluster(), Listener: ln, Peers: map[machine.NodeID]string{1: n.cfg.Members[1]}, Logger: slog.New(slog.DiscardHandler),
		Deliver: func(machine.NodeID, [][]byte) {},
		Stream: func(_ machine.NodeID, header []byte, r io.Reader) error {
			begun <- struct{}{}
			<-goOn
			if life := binary.LittleEndian.Uint64(header); life != n.self {
				t.Errorf("a transfer is of life %x, and the member's is %x", life, n.self)
			}
			h := wire.Reader{Rest: header[lifeBytes:]}
			p := arrival{from: h.Uvarint(), at: h.Uvarint(), size: h.Uvarint()}
			b, err := io.ReadAll(r)
			p.body, p.err = len(b), err
			got <- p
			if p.from == refusedFrom {
				return errBroken // the disk of the member that takes it
			}
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { two.Close() })
	patience.Until(t, "members 1 and 2 are connected", func() bool { return n.peers.Stats(2).Connected })
	return n, begun, goOn, got
}

// deliverMadeUp has a node deliver messages that a test makes up, which its history keeps.
func (n *Node) deliverMadeUp(t *testing.T, from, to Position) {
	t.Helper()
	if err := n.appendToHistory(numbered(from, to)); err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	n.ram = to
	n.mu.Unlock()
}

// While another member is given messages, those that it needs next are held for it: behind a
// snapshot that it takes in, and, once it has all, behind the last one, for a while. If it asks
// for more meanwhile, that follows, and nothing is given twice.
func TestTransfers(t *testing.T) {
	n, begun, goOn, got := newReceiver(t)
	wants := func(from Position) (held Position) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.answerWant(2, want{from})
		return n.transfers[2].from
	}
	holds := func(when string, want Position) {
		t.Helper()
		if held := n.heldFrom(); held != want {
			t.Errorf("%s: held from %d on, want %d", when, held, want)
		}
	}
	is := func(ok func(g transfer) bool) func() bool {
		return func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			g := n.transfers[2]
			return g != nil && ok(*g)
		}
	}
	begins := func(orElse string) {
		t.Helper()
		ended := is(func(g transfer) bool { return !g.busy })
		patience.Until(t, "a transfer begins, or all that is asked for has ended", func() bool { return len(begun) > 0 || ended() })
		select {
		case <-begun:
		default:
			t.Fatal(orElse)
		}
	}
	n.keeping.Lock()
	if err := n.history.restart(10); err != nil {
		t.Fatal(err)
	}
	n.keeping.Unlock()
	n.deliverMadeUp(t, 11, 20)
	if err := n.Snapshot(10, func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}

	if held := wants(5); held != 5 {
		t.Errorf("when it asks for what follows 4: held from %d on, want 5", held)
	}
	patience.Within(t, begun, "a transfer begins")
	holds("while it takes in a snapshot of 10", 11)
	patience.Until(t, "all is written", is(func(g transfer) bool { return !g.writing }))
	holds("while it is to say that it has it", 11)
	n.deliverMadeUp(t, 21, 25)
	wants(21)
	goOn <- struct{}{}
	if p := patience.Within(t, got, "the transfer is taken in"); p.from != 5 || p.at != 10 || p.size == 0 || p.body <= int(p.size) {
		t.Errorf("the receiver got %+v, want a snapshot of 10 and the messages after it", p)
	}

	begins("the messages that it asked for meanwhile are not sent")
	wants(25) // it is on its way, as the last
	goOn <- struct{}{}
	if p := patience.Within(t, got, "the transfer is taken in"); p.from != 21 || p.size != 0 || p.body == 0 {
		t.Errorf("the receiver got %+v, want the messages after 20", p)
	}
	goOn <- struct{}{} // for one too many
	patience.Until(t, "the receiver has all", is(func(g transfer) bool { return !g.busy }))
	holds("when it has all", 26)
	if !is(func(g transfer) bool { return time.Until(g.until) > (holdFactor-1)*n.cfg.timeout() })() {
		t.Errorf("messages after a transfer are not held for %d times Timeout", holdFactor)
	}
	if k := len(begun); k > 0 {
		t.Errorf("%d transfers more have messages that were sent already", k)
	}

	n.deliverMadeUp(t, 26, 30)
	wants(26) // later, while the messages that it needs next are still held
	begins("the messages that it asks for later are not sent")
	goOn <- struct{}{}
	if p := patience.Within(t, got, "the transfer is taken in"); p.from != 26 || p.body == 0 {
		t.Errorf("the receiver got %+v, want the messages after 25", p)
	}
	patience.Until(t, "the receiver has all again", is(func(g transfer) bool { return !g.busy }))
	holds("when it has all again", 31)

	wants(31) // which is not ordered yet: the receiver is as far as this member
	patience.Until(t, "nothing is sent", is(func(g transfer) bool { return !g.busy }))
	holds("when it asked for what is not ordered yet", 31)
	if k := len(begun); k > 0 {
		t.Errorf("%d transfers have nothing in them", k)
	}
	wants(30) // the last one alone
	begins("the last message is not sent")
	goOn <- struct{}{}
	if p := patience.Within(t, got, "the transfer is taken in"); p.from != 30 || p.body == 0 {
		t.Errorf("the receiver got %+v, want message 30", p)
	}
}

// A member has the messages of its history and of its memory, wherever the one and the other
// begin.
func TestHas(t *testing.T) {
	n, _ := aloneOn(t, 1)
	for _, tt := range []struct {
		base, ram Position
		first     Position
	}{
		{10, 5, 6}, {20, 20, 21}, {30, 35, 31},
	} {
		n.keeping.Lock()
		err := n.history.restart(tt.base)
		n.keeping.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		n.mu.Lock()
		n.ram = tt.ram
		n.mu.Unlock()
		if n.has(tt.first-1) || !n.has(tt.first) {
			t.Errorf("with a history from %d on and memory from %d on: it has %d %v, and %d %v; want only the latter", tt.base+1, tt.ram+1, tt.first-1, n.has(tt.first-1), tt.first, n.has(tt.first))
		}
	}
}

// A transfer consists of a snapshot's file and all messages that there are. The last position is known,
// even if it is not far.
func TestWriteTransfer(t *testing.T) {
	n, _ := aloneOn(t, 5)
	for _, tt := range []struct {
		what string
		file io.Reader
		to   io.Writer
		from Position
		sent Position
		err  error
	}{
		{"a file and messages", strings.NewReader("file"), io.Discard, 3, 5, nil},
		{"the last message", nil, io.Discard, 5, 5, nil},
		{"nothing behind the last", nil, io.Discard, 6, 5, nil},
		{"a file that cannot be read", iotest.ErrReader(errBroken), io.Discard, 3, 0, errBroken},
		{"to nobody", nil, brokenWriter{}, 5, 4, errBroken},
		{"to nobody, as it turns out at the end", nil, bufio.NewWriterSize(brokenWriter{}, 1<<10), 5, 5, errBroken},
		{"a history that is trimmed", nil, io.Discard, 2, 1, ErrTrimmed},
	} {
		if tt.err == ErrTrimmed {
			if err := errors.Join(n.saveState(4), n.Trim(4)); err != nil {
				t.Fatal(err)
			}
		}
		sent, err := n.writeTransfer(patience.Soon(t), bufio.NewWriterSize(tt.to, 1), tt.file, tt.from)
		if !errors.Is(err, tt.err) || sent != tt.sent {
			t.Errorf("%s, from %d on: %d is the last that was sent, %v; want %d, %v", tt.what, tt.from, sent, err, tt.sent, tt.err)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// A transfer that fails, because there is no snapshot of the trimmed messages, is held for a while
// only. One that cannot be asked for is not held at all.
func TestTransfersThatCannotBe(t *testing.T) {
	n := minority(t)
	n.keeping.Lock()
	if err := n.history.restart(10); err != nil {
		t.Fatal(err)
	}
	n.keeping.Unlock()
	gives := func(from Position) *transfer {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.answerWant(2, want{from})
		return n.transfers[2]
	}
	if g := gives(0); g != nil || n.heldFrom() != ^Position(0) {
		t.Errorf("position 0 is none: held from %d on", n.heldFrom())
	}
	g := gives(5)
	patience.Until(t, "the transfer has failed", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !g.busy
	})
	n.mu.Lock()
	if left := time.Until(g.until); g.writing || left <= 0 || left > holdFactor*n.cfg.timeout() {
		t.Errorf("a transfer that failed: it is being written %v, and held for %v; want that for %d times Timeout at most", g.writing, left, holdFactor)
	}
	delete(n.transfers, 2)
	// A request that came meanwhile is answered once, too.
	n.answerWant(2, want{5})
	n.answerWant(2, want{6})
	g = n.transfers[2]
	n.mu.Unlock()
	patience.Until(t, "both transfers have failed", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !g.busy
	})
	n.mu.Lock()
	if g.from != 6 || g.next != (want{}) {
		t.Errorf("of two transfers that failed the last was from %d on, and %+v is still to be answered; want 6, and nothing", g.from, g.next)
	}
	delete(n.transfers, 2)
	n.mu.Unlock()
	n.fail(ErrClosed)
	if g := gives(5); g != nil {
		t.Error("a member that has ended starts a transfer")
	}
}

// Messages that are held for another member are in the history before memory forgets them.
func TestTrimKeepsWhatIsHeld(t *testing.T) {
	n, err := Start(Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for range 6 {
		if _, err := n.Barrier(patience.Soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	n.mu.Lock()
	n.transfers[2] = &transfer{busy: true, writing: true, from: 3}
	n.mu.Unlock()
	if err := n.Snapshot(5, func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := n.Trim(5); err != nil {
		t.Fatal(err)
	}
	next := Position(3)
	for m, err := range n.Deliver(patience.Soon(t), next) {
		if err != nil || m.Position != next {
			t.Fatalf("what is held from 3 on: at %d got %d, %v", next, m.Position, err)
		}
		if next++; next > 6 {
			break
		}
	}
}

// A receiver that was sent everything and does not answer, as when its host has lost its power,
// is not waited for for good: it asks again when it is back.
func TestTransfersThatNobodyAnswers(t *testing.T) {
	n, begun, goOn, _ := newReceiver(t, func(cfg *Config) { cfg.Timeout = 10 * time.Millisecond })
	n.deliverMadeUp(t, 1, 5)
	asked := time.Now()
	n.mu.Lock()
	n.answerWant(2, want{1})
	n.mu.Unlock()
	patience.Within(t, begun, "a transfer begins")
	defer func() { goOn <- struct{}{} }()
	patience.Until(t, "member 2 is no longer waited for", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !n.transfers[2].busy
	})
	if patience := time.Since(asked); patience < holdFactor*n.cfg.timeout() {
		t.Errorf("an answer is waited for %v, want %d times Timeout", patience, holdFactor)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if from := n.transfers[2].from; from != 1 {
		t.Errorf("member 2 has not said that it has anything, and messages are held for it from %d on, want 1", from)
	}
}

// A member that has ended waits for no answer to a transfer.
func TestTransfersEndWithTheMember(t *testing.T) {
	n, begun, goOn, _ := newReceiver(t, func(cfg *Config) { cfg.Timeout = time.Hour })
	n.deliverMadeUp(t, 1, 5)
	n.mu.Lock()
	n.answerWant(2, want{1})
	n.mu.Unlock()
	patience.Within(t, begun, "a transfer begins")
	defer func() { goOn <- struct{}{} }()
	n.fail(ErrRemoved)
	patience.Until(t, "a member that has ended waits for no answer to its transfer", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !n.transfers[2].busy
	})
}

// A transfer that is still being written is waited for, however long the member that takes it needs: the
// patience is with an answer alone.
func TestATransferIsWrittenForAsLongAsItTakes(t *testing.T) {
	n, begun, goOn, got := newReceiver(t, func(cfg *Config) { cfg.Timeout = 20 * time.Millisecond })
	const messages = 24 // more than sockets hold
	var list []Message
	for p := Position(1); p <= messages; p++ {
		list = append(list, Message{Position: p, Client: machine.ID{1}, Seq: uint64(p), Payload: make([]byte, MessageBytesMax)})
	}
	if err := n.appendToHistory(list); err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	n.ram = messages
	n.answerWant(2, want{1})
	n.mu.Unlock()
	select {
	case <-begun:
	case <-patience.Soon(t).Done():
		t.Fatal("a transfer that is taken slowly is given up before it begins")
	}
	time.Sleep(3 * holdFactor * n.cfg.timeout())
	n.mu.Lock()
	if g := n.transfers[2]; !g.busy || !g.writing {
		t.Errorf("a transfer that is taken slowly is given up: under way %v, being written %v", g.busy, g.writing)
	}
	n.mu.Unlock()
	goOn <- struct{}{}
	if p := patience.Within(t, got, "the transfer is taken in"); p.err != nil || p.body < messages*MessageBytesMax {
		t.Errorf("a transfer that is taken slowly ends after %d bytes, %v; want %d messages of %d", p.body, p.err, messages, MessageBytesMax)
	}
}

// A receiver gets an error when its transfer cannot be read to the end: otherwise it would take a part
// for the whole.
func TestATransferThatBreaksOff(t *testing.T) {
	n, begun, goOn, got := newReceiver(t)
	n.deliverMadeUp(t, 1, 5)
	n.mu.Lock()
	n.ram = 9 // as if the history had lost its end
	n.answerWant(2, want{1})
	n.mu.Unlock()
	patience.Within(t, begun, "a transfer begins")
	goOn <- struct{}{}
	if p := patience.Within(t, got, "the transfer is taken in"); p.err == nil {
		t.Errorf("a transfer of 5 messages, where 9 should be, ends after %d bytes without an error", p.body)
	}
	patience.Until(t, "the transfer has failed", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !n.transfers[2].busy
	})
}

// A receiver may ask again for messages that it could not keep, before it has said so: then it gets
// them once more.
func TestATransferThatWasNotKept(t *testing.T) {
	n, begun, goOn, got := newReceiver(t)
	n.deliverMadeUp(t, 1, 9)
	gives := func(from Position) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.answerWant(2, want{from})
	}
	gives(refusedFrom)
	patience.Within(t, begun, "a transfer begins")
	gives(refusedFrom + 1)
	goOn <- struct{}{}
	goOn <- struct{}{}
	if p := patience.Within(t, got, "the transfer is taken in"); p.from != refusedFrom {
		t.Errorf("a transfer begins at %d, want %d", p.from, refusedFrom)
	}
	select {
	case p := <-got:
		if p.from != refusedFrom+1 || p.body == 0 {
			t.Errorf("the next transfer begins at %d with %d bytes, want it to begin at %d", p.from, p.body, refusedFrom+1)
		}
	case <-patience.Soon(t).Done():
		t.Error("messages that it did not keep, and asks for again, are not sent")
	}
}

// Messages are held from the position of the last request on, or from the one after the snapshot that
// goes with it, wherever the transfer before had come to.
func TestATransferHoldsWhatIsAskedFor(t *testing.T) {
	n := minority(t)
	n.keeping.Lock()
	if err := n.history.restart(10); err != nil {
		t.Fatal(err)
	}
	n.keeping.Unlock()
	n.deliverMadeUp(t, 11, 20)
	if err := n.saveState(10); err != nil {
		t.Fatal(err)
	}
	for _, before := range []Position{1, 99} {
		for from, want := range map[Position]Position{5: 11, 12: 12, 25: 11} {
			if from == 25 { // not ordered yet, so that a snapshot is no answer either
				want = 25
			}
			g := &transfer{from: before}
			if _, err := n.sendTransfer(99, g, from); from <= 20 && err == nil {
				t.Fatal("a transfer for nobody was sent")
			}
			if g.from != want {
				t.Errorf("asked for what follows from %d on, and before that for what follows from %d on: held from %d on, want %d", from, before, g.from, want)
			}
		}
	}
}
