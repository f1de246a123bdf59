package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// An answer may be far larger than a question.
func TestAnswersMayBeLargerThanQuestions(t *testing.T) {
	want := bytes.Repeat([]byte("member "), answerMax/8)
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, func(c *Config) {
		c.Answer = func([]byte) []byte { return want }
	})
	if got, err := Ask(t.Context(), m.addr, nil, nil, nil); err != nil || !bytes.Equal(got, want) {
		t.Errorf("an answer of %d bytes: %d bytes, %v", len(want), len(got), err)
	}
}

// A greeting is judged by all that it says, and the first thing that is wrong is told.
func TestGreetingsAreJudged(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: "127.0.0.1:1"}, quick, nil)
	if err := m.SetPeers(map[machine.NodeID]string{2: "127.0.0.1:1", 4: "127.0.0.1:2"}, []machine.NodeID{3, 4}); err != nil {
		t.Fatal(err)
	}
	tk, done := m.draw(m.remote(2))
	defer done()
	good := hello{kind: kindMessages, cluster: m.cfg.ClusterID, from: 2, to: 1, instance: 5}
	with := func(f func(*hello)) hello { h := good; f(&h); return h }
	confirm := func(f func(*hello)) hello {
		return with(func(h *hello) { h.kind, h.ticket = kindConfirm, tk; f(h) })
	}
	for name, tt := range map[string]struct {
		h    hello
		want status
		err  error
	}{
		"a peer":                                         {good, statusWelcome, nil},
		"of another cluster":                             {with(func(h *hello) { h.cluster++; h.to++ }), statusWrongCluster, ErrWrongCluster},
		"for another member":                             {with(func(h *hello) { h.to++; h.from = 9 }), statusWrongAddress, ErrWrongAddress},
		"of this member":                                 {with(func(h *hello) { h.from = 1 }), statusDuplicateID, ErrDuplicateID},
		"of one that was removed":                        {with(func(h *hello) { h.from = 3 }), statusRemoved, ErrRemoved},
		"of a peer that was removed":                     {with(func(h *hello) { h.from = 4 }), statusRemoved, ErrRemoved},
		"of nobody":                                      {with(func(h *hello) { h.from = 9 }), statusUnknownMember, ErrUnknownMember},
		"a stream, which nobody takes":                   {with(func(h *hello) { h.kind = kindBulk }), statusUnsupported, errUnsupported},
		"a question, which nobody answers":               {hello{kind: kindInquiry}, statusUnsupported, errUnsupported},
		"a confirmation":                                 {confirm(func(*hello) {}), statusWelcome, nil},
		"a confirmation of another cluster":              {confirm(func(h *hello) { h.cluster++ }), statusWrongCluster, ErrWrongCluster},
		"a confirmation for another member":              {confirm(func(h *hello) { h.to = 2 }), statusWrongAddress, ErrWrongAddress},
		"a confirmation by a member that was not dialed": {confirm(func(h *hello) { h.from = 4 }), statusNotMine, errNotMine},
		"a confirmation of no connection":                {confirm(func(h *hello) { h.ticket[0]++ }), statusNotMine, errNotMine},
	} {
		r, s, err := m.judge(tt.h)
		peer := tt.want == statusWelcome && tt.h.kind == kindMessages
		if s != tt.want || !errors.Is(err, tt.err) || (r != nil) != peer || peer && r.id != 2 {
			t.Errorf("%s: judged with status %d, %v; want %d, %v", name, s, err, tt.want, tt.err)
		}
	}
}

// Which members were removed is as SetPeers says last: one that comes back is removed no more.
func TestTheRemovedAreThoseOfTheLastCall(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil)
	from := hello{kind: kindMessages, cluster: m.cfg.ClusterID, from: 3, to: 1}
	for i, tt := range []struct {
		peers   map[machine.NodeID]string
		removed []machine.NodeID
		want    status
	}{
		{nil, []machine.NodeID{3}, statusRemoved},
		{nil, []machine.NodeID{4}, statusUnknownMember},
		{nil, []machine.NodeID{3}, statusRemoved},
		{map[machine.NodeID]string{3: "127.0.0.1:1"}, nil, statusWelcome},
		{nil, nil, statusUnknownMember},
	} {
		if err := m.SetPeers(tt.peers, tt.removed); err != nil {
			t.Fatal(err)
		}
		if _, s, err := m.judge(from); s != tt.want {
			t.Errorf("call %d: member 3 is judged with status %d, %v; want %d", i, s, err, tt.want)
		}
	}
}

// A stream comes with its sender and its header, which stays as it is while the rest is read; both
// sides count each byte once.
func TestWhatAStreamComesWith(t *testing.T) {
	type taken struct {
		from   machine.NodeID
		header string
		size   int64
	}
	got := make(chan taken, 1)
	c := newCluster(t, 2, quick, withStream(func(from machine.NodeID, header []byte, r io.Reader) error {
		n, err := io.Copy(io.Discard, r)
		got <- taken{from, string(header), n}
		return err
	}))
	total := uint64(0)
	for _, size := range []int64{5, 3*chunkBytes + 7} { // less than the header has, and several chunks
		if err := c[0].SendStream(t.Context(), 2, []byte("a header"), io.LimitReader(endless{}, size)); err != nil {
			t.Fatal(err)
		}
		if s, want := <-got, (taken{1, "a header", size}); s != want {
			t.Errorf("the stream is %+v, want %+v", s, want)
		}
		total += uint64(size)
		if sent, received := c[0].Stats(2).StreamBytesSent, c[1].Stats(1).StreamBytesReceived; sent != total || received != total {
			t.Errorf("of %d bytes in streams %d are counted as sent and %d as received", total, sent, received)
		}
	}
}

// The queue for a peer is reported in bytes.
func TestTheQueueIsToldInBytes(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil)
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	r.connected = true
	m.Transport.mu.Lock()
	m.remotes[2] = r
	m.Transport.mu.Unlock()
	for _, msg := range []string{"four", "seven.."} {
		if !r.send([]byte(msg)) {
			t.Fatalf("%q is not queued", msg)
		}
	}
	if s := m.Stats(2); s.QueueBytes != 11 || !s.Connected {
		t.Errorf("with eleven bytes in two messages that wait: %+v", s)
	}
}

// Streams to a process that comes after one that died end, too, when the member is no peer any more.
func TestTheNextLifeEndsWithThePeer(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil)
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	first := r.life
	r.mu.Lock()
	r.tellDown(io.EOF)
	next := r.life
	r.mu.Unlock()
	if !errors.Is(context.Cause(first), io.EOF) || next.Err() != nil {
		t.Errorf("when a process dies its streams end with %v, and those of the next with %v; want %v, and that they go on", context.Cause(first), next.Err(), io.EOF)
	}
	r.leave()
	if next.Err() == nil {
		t.Error("the member is no peer any more, and streams to its process go on")
	}
}

// TLS needs a certificate for those who dial, given as it is or made on demand.
func TestTLSNeedsACertificateOfItsOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		tls  *tls.Config
		fits bool
	}{
		"none":      {&tls.Config{}, false},
		"given":     {&tls.Config{Certificates: make([]tls.Certificate, 1)}, true},
		"on demand": {&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }}, true},
		"for when it dials only": {&tls.Config{
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return nil, nil },
		}, false},
	} {
		ln := listen(t, "127.0.0.1:0")
		ln.Close()
		err := Config{Self: 1, Listener: ln, Deliver: func(machine.NodeID, [][]byte) {}, TLS: tt.tls}.withDefaults().validate()
		if (err == nil) != tt.fits {
			t.Errorf("a certificate %s: %v, fits must be %v", name, err, tt.fits)
		}
	}
}

// A member of another version is told which versions both speak.
func TestVersionsAreTold(t *testing.T) {
	b := hello{kind: kindMessages}.encode()
	le.PutUint16(b[8:], 9)
	_, s, err := readHello(bytes.NewReader(b))
	want := fmt.Sprintf("the other side speaks protocol 9 and this program %d", protocolVersion)
	if s != statusVersion || !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), want) {
		t.Errorf("status %d, %v; want %d, and that %s", s, err, statusVersion, want)
	}
}

// A frame that is cut off within its body has not ended where a frame ends.
func TestAFrameCutOffWithinItsBody(t *testing.T) {
	whole := appendFrame(nil, frameBatch, []byte("0123456789"))
	for n := 1; n < len(whole); n++ {
		if _, _, err := readFrame(bytes.NewReader(whole[:n]), nil, 100); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes of a frame: %v, want %v", n, len(whole), err, io.ErrUnexpectedEOF)
		}
	}
	if _, _, err := readFrame(bytes.NewReader(nil), nil, 100); err != io.EOF {
		t.Errorf("no byte of a frame: %v, want %v", err, io.EOF)
	}
}

// A connection that comes up as the transport closes is not kept.
func TestAConnectionThatComesTooLateIsNotKept(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil)
	m.Close()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	if err := m.track(ours); !errors.Is(err, ErrClosed) || len(m.conns) != 0 {
		t.Errorf("a connection after Close: %v, and %d are kept; want %v, and none", err, len(m.conns), ErrClosed)
	}
	if err := ours.SetDeadline(time.Now()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a connection after Close is still open: %v", err)
	}
}

// The end of an incoming stream whose place another has taken says nothing about the peer.
func TestTheEndOfAStreamThatWasReplaced(t *testing.T) {
	m := newMember(t, 1, listen(t, "127.0.0.1:0"), nil, quick, nil)
	r := newRemote(m.Transport, 2, "127.0.0.1:1")
	now := &incoming{instance: 5}
	r.in, r.instance = now, 5
	r.wentOut(&incoming{instance: 5}, io.EOF)
	if r.in != now || r.down || r.died {
		t.Errorf("a stream that was replaced has ended: the one in its place is there %v, the peer is down %v or died %v; want it there, and neither", r.in == now, r.down, r.died)
	}
}
