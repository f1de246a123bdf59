package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// greetRaw dials and says h, and returns what the answer means.
func greetRaw(t testing.TB, addr string, h hello) (net.Conn, error) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write(h.encode()); err != nil {
		t.Fatal(err)
	}
	return conn, readWelcome(conn, h.to)
}

// wantHangUp wants the other side to close the connection.
func wantHangUp(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	// The end may be a reset, for bytes that were not read.
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("20 s later the other side has not hung up")
	} else if errors.Is(err, net.ErrClosed) {
		t.Errorf("connection: %v", err)
	}
}

// alone starts member 1, which knows a member 2 that owns to any connection, and else
// keeps silent.
func alone(t *testing.T, tm timing) *member {
	two := confirming(t, func(hello) status { return statusWelcome })
	return newMember(t, 1, listen(t, "127.0.0.1:0"), map[machine.NodeID]string{2: two}, tm, func(c *Config) {
		c.FrameBytesMax = 1000
		c.Stream = func(_ machine.NodeID, _ []byte, r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		}
	})
}

func TestGarbageInsteadOfAGreeting(t *testing.T) {
	good := hello{kindMessages, 77, 2, 1, 5, ticket{9}}.encode()
	badSum, kind0, kind9 := bytes.Clone(good), hello{0, 77, 2, 1, 5, ticket{9}}.encode(), hello{9, 77, 2, 1, 5, ticket{9}}.encode()
	badSum[30] ^= 1
	tests := map[string][]byte{
		"HTTP":                      []byte("GET / HTTP/1.1\r\nHost: somewhere.example\r\nAccept: */*\r\n\r\n"),
		"zeros":                     make([]byte, 1000),
		"a damaged greeting":        badSum,
		"an unknown kind of stream": kind9,
		"no kind of stream":         kind0,
		"half a greeting":           good[:20],
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			m := alone(t, quick)
			conn, err := net.Dial("tcp", m.addr)
			if err != nil {
				t.Fatal(err)
			}
			conn.Write(data)
			if name == "half a greeting" {
				conn.(*net.TCPConn).CloseWrite()
			}
			if said, _ := io.ReadAll(conn); len(said) > 0 { // a stranger learns nothing of the members here
				t.Errorf("a process that does not speak the protocol is told %q", said)
			}
			wantHangUp(t, conn)
			m.waitLog("connection refused")
		})
	}
}

func TestNewerProtocolIsToldSo(t *testing.T) {
	m := alone(t, quick)
	b := hello{kindMessages, 77, 2, 1, 5, ticket{9}}.encode()
	le.PutUint16(b[8:], protocolVersion+1)
	conn, err := net.Dial("tcp", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.Write(b)
	if err := readWelcome(conn, 1); !errors.Is(err, ErrVersion) {
		t.Errorf("got %v, want ErrVersion", err)
	}
	wantHangUp(t, conn)
}

// A process that connects and says nothing is put out, and others get in meanwhile.
func TestSilentConnections(t *testing.T) {
	tm := quick
	tm.handshake = 200e6
	m := alone(t, tm)
	conns := make([]net.Conn, guestsMin+guestsPerPeer+10)
	for i := range conns {
		conn, err := net.Dial("tcp", m.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	for _, conn := range conns {
		wantHangUp(t, conn)
	}
	_, err := greetRaw(t, m.addr, hello{kindMessages, 77, 2, 1, 5, ticket{9}})
	if err != nil {
		t.Errorf("after the silent ones: %v", err)
	}
}

func TestBadFramesEndTheStream(t *testing.T) {
	batch := func(body string) []byte { return appendFrame(nil, frameBatch, []byte(body)) }
	badSum := batch("\x03abc")
	badSum[len(badSum)-1] ^= 1
	huge := appendFrame(nil, frameBatch, nil)
	le.PutUint32(huge[4:], 1<<31)
	newer := batch("\x03abc")
	newer[0]++
	tests := []struct {
		name  string
		kind  streamKind
		frame []byte
		log   string
	}{
		{"checksum", kindMessages, badSum, "checksum is wrong"},
		{"larger than allowed", kindMessages, batch(string(make([]byte, 1001))), "1000 are the limit"},
		{"absurd length", kindMessages, huge, "2147483648 bytes"},
		{"unknown version", kindMessages, newer, "frame header 02"},
		{"unknown type", kindMessages, appendFrame(nil, 200, nil), "type 200"},
		{"a message longer than the batch", kindMessages, batch("\x04abc"), "longer than its batch"},
		{"an endless length", kindMessages, batch("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "longer than its batch"},
		{"no stream header", kindBulk, batch("\x03abc"), "a stream starts with a frame of type 1"},
		{"a long stream header", kindBulk, appendFrame(appendFrame(nil, frameHeader, make([]byte, streamHeaderMax+1)), frameEnd, nil), "65537 bytes, 65536 are the limit"},
		{"a large part of a stream", kindBulk, appendFrame(appendFrame(appendFrame(nil, frameHeader, nil), frameChunk, make([]byte, chunkBytes+1)), frameEnd, nil), "262145 bytes, 262144 are the limit"},
		{"messages in bulk", kindBulk, append(appendFrame(nil, frameHeader, nil), batch("\x03abc")...), "type 1 in a bulk stream"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := alone(t, quick)
			conn, err := greetRaw(t, m.addr, hello{tt.kind, 77, 2, 1, 5, ticket{9}})
			if err != nil {
				t.Fatal(err)
			}
			before := batch("\x05first\x06second")
			if tt.kind == kindMessages {
				conn.Write(before)
			}
			conn.Write(tt.frame)
			if tt.kind == kindBulk {
				if err := readVerdict(conn); !errors.Is(err, errRejected) {
					t.Errorf("verdict %v, want ErrRejected", err)
				}
				conn.(*net.TCPConn).CloseWrite()
			}
			wantHangUp(t, conn)
			m.waitLog(tt.log)
			if tt.kind == kindMessages {
				m.waitMessage(2, "second")
			}
			if n := m.count("down 2"); n != 0 {
				t.Error("a bad frame was taken for a death")
			}
		})
	}
}

func TestBadAnswers(t *testing.T) {
	tests := map[string][]byte{
		"garbage":           []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"a damaged answer":  func() []byte { b := encodeWelcome(statusBusy, "x"); b[len(b)-1]++; return b }(),
		"an endless reason": func() []byte { b := encodeWelcome(0, ""); le.PutUint32(b[12:], 1<<30); return b }(),
		"a long reason": func() []byte {
			b, reason := encodeWelcome(0, ""), make([]byte, reasonBytesMax+1)
			le.PutUint32(b[12:], uint32(len(reason)))
			le.PutUint32(b[16:], frameSum(b[:16], reason))
			return append(b, reason...)
		}(),
		"no answer":          nil,
		"an unknown status":  encodeWelcome(99, "because"),
		"half of the reason": encodeWelcome(statusBusy, "because")[:22],
	}
	for name, answer := range tests {
		if err := readWelcome(bytes.NewReader(answer), 2); err == nil {
			t.Errorf("%s: taken for a welcome", name)
		}
	}
}

// The text of a refusal is clipped.
func TestLongReasons(t *testing.T) {
	reason := bytes.Repeat([]byte("x"), reasonBytesMax+1)
	if err := readWelcome(bytes.NewReader(encodeWelcome(statusBusy, string(reason))), 2); !errors.Is(err, errBusy) {
		t.Errorf("a refusal for a long reason: got %v, want ErrBusy", err)
	}
}

// A verdict has a few words.
func TestLongVerdicts(t *testing.T) {
	for size, want := range map[int]error{verdictBytesMax: errRejected, verdictBytesMax + 1: errProtocol} {
		ours, other := net.Pipe()
		go func() { other.Write(appendFrame(nil, frameVerdict, make([]byte, size))); other.Close() }()
		if err := readVerdict(ours); !errors.Is(err, want) {
			t.Errorf("a verdict of %d bytes: got %v, want %v", size, err, want)
		}
		ours.Close()
	}
}

func TestBatches(t *testing.T) {
	msgs := [][]byte{[]byte("a"), nil, bytes.Repeat([]byte("b"), 300), []byte("c")}
	for limit, want := range map[int]int{1: 1, 6: 1, 7: 2, 12: 2, 1 << 20: 4} {
		b, n := appendBatch([]byte("before"), msgs, limit)
		if n != want {
			t.Errorf("limit %d: took %d messages, want %d", limit, n, want)
		}
		typ, body, err := readFrame(bytes.NewReader(b[len("before"):]), nil, 1<<20)
		if err != nil || typ != frameBatch {
			t.Fatalf("limit %d: type %d, %v", limit, typ, err)
		}
		got, err := splitBatch(nil, body)
		if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", msgs[:n]) {
			t.Errorf("limit %d: got %q, %v", limit, got, err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	b, _ := appendBatch(nil, [][]byte{[]byte("a"), nil, bytes.Repeat([]byte("b"), 300)}, 1<<20)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add(appendFrame(nil, framePing, make([]byte, 8)))
	f.Fuzz(func(t *testing.T, data []byte) {
		typ, body, err := readFrame(bytes.NewReader(data), nil, 1000)
		if err != nil {
			return
		}
		if again := appendFrame(nil, typ, body); !bytes.HasPrefix(data, again) {
			t.Fatalf("read %x, wrote %x", data, again)
		}
		msgs, err := splitBatch(nil, body)
		if err != nil {
			return
		}
		size := 0
		for _, m := range msgs {
			size += len(m) + 1
		}
		if size > len(body) {
			t.Fatalf("%d bytes of messages in a body of %d", size, len(body))
		}
	})
}

func FuzzHandshake(f *testing.F) {
	f.Add(hello{kindMessages, 77, 2, 1, 5, ticket{9}}.encode())
	f.Add(hello{kindBulk, 77, 2, 1, 5, ticket{9}}.encode())
	f.Add(encodeWelcome(statusWelcome, ""))
	f.Add(encodeWelcome(statusBusy, "because"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, s, err := readHello(bytes.NewReader(data)); err == nil {
			if s != statusWelcome || len(h.encode()) != helloBytes {
				t.Fatalf("%+v with status %d", h, s)
			}
		} else if s == statusWelcome {
			t.Fatalf("%v, and welcome", err)
		}
		var refusal *Refusal
		if err := readWelcome(bytes.NewReader(data), 1); errors.As(err, &refusal) && len(refusal.Reason) > reasonBytesMax {
			t.Fatalf("a reason of %d bytes", len(refusal.Reason))
		}
	})
}

// Each reason to refuse a connection is told apart, also by those that dial.
func TestEachRefusalHasItsError(t *testing.T) {
	for s, want := range map[status]error{
		statusVersion: ErrVersion, statusWrongCluster: ErrWrongCluster, statusUnknownMember: ErrUnknownMember,
		statusWrongAddress: ErrWrongAddress, statusDuplicateID: ErrDuplicateID, statusBusy: errBusy,
		statusUnsupported: errUnsupported, statusRemoved: ErrRemoved, statusUnconfirmed: ErrUnconfirmed,
		statusNotMine: errNotMine, statusGarbage: errProtocol, 99: errProtocol,
	} {
		var refusal *Refusal
		err := readWelcome(bytes.NewReader(encodeWelcome(s, "because")), 2)
		if !errors.Is(err, want) || !errors.As(err, &refusal) || refusal.Reason != "because" || refusal.By != 2 {
			t.Errorf("status %d: %v, want %v", s, err, want)
		}
	}
}

// A greeting is read as it was written.
func TestGreetingsAreReadAsWritten(t *testing.T) {
	want := hello{kindBulk, 1<<63 + 2, 3, 1<<63 + 4, 5, ticket{0: 6, 15: 7}}
	if got, s, err := readHello(bytes.NewReader(want.encode())); got != want || s != statusWelcome || err != nil {
		t.Errorf("read %+v, %d, %v, want %+v", got, s, err, want)
	}
}

// Whichever byte of a greeting, of its answer or of a frame is damaged on its way, it is taken for
// nothing.
func TestDamagedBytesAreNoticed(t *testing.T) {
	for what, c := range map[string]struct {
		raw  []byte
		read func(io.Reader) error
	}{
		"greeting": {hello{kindMessages, 77, 2, 1, 5, ticket{9}}.encode(), func(r io.Reader) error { _, _, err := readHello(r); return err }},
		"answer":   {encodeWelcome(statusWelcome, "yes"), func(r io.Reader) error { return readWelcome(r, 2) }},
		"frame":    {appendFrame(nil, frameBatch, []byte("\x03abc")), func(r io.Reader) error { _, _, err := readFrame(r, nil, 100); return err }},
	} {
		if err := c.read(bytes.NewReader(c.raw)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for i := range c.raw {
			for bit := range 8 {
				damaged := bytes.Clone(c.raw)
				damaged[i] ^= 1 << bit
				if err := c.read(bytes.NewReader(damaged)); err == nil {
					t.Errorf("%s: bit %d of byte %d is damaged, and nobody notices", what, bit, i)
				}
			}
		}
	}
}

// Free fields of a greeting, its answer or a frame are for later versions. A reader that
// does not know them ignores them.
func TestWhatIsLeftFreeIsRefused(t *testing.T) {
	h := hello{kindMessages, 77, 2, 1, 5, ticket{9}}.encode()
	h[11] = 1
	le.PutUint32(h[60:], wire.Checksum(h[:60]))
	if _, _, err := readHello(bytes.NewReader(h)); !errors.Is(err, errProtocol) {
		t.Errorf("a greeting that says more: %v, want %v", err, errProtocol)
	}
	w := encodeWelcome(statusWelcome, "")
	w[11] = 1
	le.PutUint32(w[16:], frameSum(w[:16], nil))
	if err := readWelcome(bytes.NewReader(w), 2); !errors.Is(err, errProtocol) {
		t.Errorf("an answer that says more: %v, want %v", err, errProtocol)
	}
	for _, at := range []int{2, 3} {
		f := beginFrame(nil, framePing)
		f[at] = 1
		if _, _, err := readFrame(bytes.NewReader(endFrame(f, 0)), nil, 100); !errors.Is(err, errProtocol) {
			t.Errorf("a frame that says more in byte %d: %v, want %v", at, err, errProtocol)
		}
	}
}

// A batch that ends within a length is refused, and no message of it is made up.
func TestBatchesThatEndWithinALength(t *testing.T) {
	for _, body := range []string{"\x80", "\x03abc\x80", "\x03abc\xff\xff"} {
		if msgs, err := splitBatch(nil, []byte(body)); !errors.Is(err, errProtocol) || len(msgs) > 1 {
			t.Errorf("a batch of % x: %d messages, %v, want %v", body, len(msgs), err, errProtocol)
		}
	}
}

// A greeting and its answer begin alike in all versions, so that each can tell what the other is;
// a dialer that gets another answer is told what may be the matter.
func TestHowGreetingsBegin(t *testing.T) {
	for what, b := range map[string][]byte{"greeting": hello{}.encode(), "answer": encodeWelcome(statusVersion, "")} {
		if !bytes.HasPrefix(b, []byte("TENUREPR\x02\x00")) {
			t.Errorf("the %s begins with %q, want the magic and version 2", what, b[:prefixBytes])
		}
	}
	if err := readWelcome(bytes.NewReader(make([]byte, welcomeBytes)), 2); err == nil || !strings.Contains(err.Error(), "no Tenure peer, or one with TLS") {
		t.Errorf("an answer that is none: %v, want what it may be", err)
	}
}

// These bytes are what other versions send.
func TestBytesOfFrames(t *testing.T) {
	batch, _ := appendBatch([]byte("before"), [][]byte{[]byte("abc"), nil, bytes.Repeat([]byte{7}, 200)}, 1000)
	for name, c := range map[string]struct{ got, want string }{
		"a batch":    {fmt.Sprintf("%x", batch), "6265666f726501010000cf0000004af6ffc10361626300c8010707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707"},
		"a greeting": {fmt.Sprintf("%x", hello{kindBulk, 1<<63 | 77, 2, 1 << 40, 5, ticket{9}}.encode()), "54454e5552455052020002004d0000000000008002000000000000000000000000010000050000000000000009000000000000000000000000000000c2a19162"},
		"a welcome":  {fmt.Sprintf("%x", encodeWelcome(statusBusy, "a reason")), "54454e555245505202000700080000001165fd596120726561736f6e"},
	} {
		if c.got != c.want {
			t.Errorf("%s is\n%s, want\n%s", name, c.got, c.want)
		}
	}
}
