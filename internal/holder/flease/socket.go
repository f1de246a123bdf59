package flease

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Limits of a socket.
const (
	socketVersion = 2
	// lineBytesMax bounds a request. It has room for a name and a holder with every byte escaped.
	lineBytesMax = 16 << 10
	// answerBytesMax bounds an event. A state may have many holders, and a status many peers, each
	// with an error.
	answerBytesMax = 16 << 20
	// sessionClaimsMax bounds the claims of a connection, and also its requests that only look.
	sessionClaimsMax = 4096
	// aliveMax bounds the claims in a line, which has room for 20 digits and a comma for each.
	aliveMax = 512
	// sessionsMax bounds the connections of a peer.
	sessionsMax = 4096
	// helloPatience bounds the time until a client's first line.
	helloPatience = 5 * time.Second
	// sendPatience bounds the time that a reader takes for a line.
	sendPatience = 5 * time.Second
)

// request is a line from a client, see the package comment.
type request struct {
	Op      string `json:"op"`
	Version int    `json:"version,omitempty"`
	ID      uint64 `json:"id,omitempty"`
	// At is the reading of CLOCK_BOOTTIME in nanoseconds when this was sent.
	At          machine.Mono `json:"at,omitempty"`
	Name        string       `json:"name,omitempty"`
	Holder      string       `json:"holder,omitempty"`
	TTLMS       int64        `json:"ttl_ms,omitempty"`
	LockDelayMS int64        `json:"lock_delay_ms,omitempty"`
	Slots       int          `json:"slots,omitempty"`
	Try         bool         `json:"try,omitempty"`
	Tokens      []string     `json:"tokens,omitempty"` // of the holders that the sender of await knows
	IDs         []uint64     `json:"ids,omitempty"`    // of the claims that alive names, or of the one whose record is set
	Record      []byte       `json:"record,omitempty"`
}

// event is a line from the peer.
type event struct {
	Event   string        `json:"event"`
	Version int           `json:"version,omitempty"`
	ID      uint64        `json:"id,omitempty"`
	At      machine.Mono  `json:"at,omitempty"` // of the peer's clock, in welcome
	TMaxMS  int64         `json:"t_max_ms,omitempty"`
	Token   uint64        `json:"token,omitempty,string"`
	TTLMS   int64         `json:"ttl_ms,omitempty"`
	Until   machine.Mono  `json:"deadline,omitempty"`
	Reason  string        `json:"reason,omitempty"` // of an error, see reasons
	Error   string        `json:"error,omitempty"`
	State   *tenure.State `json:"state,omitempty"`
	Status  *Status       `json:"status,omitempty"`
	Names   []string      `json:"names,omitempty"`
	More    bool          `json:"more,omitempty"` // names follow in another event
	Record  []byte        `json:"record,omitempty"`
	None    bool          `json:"none,omitempty"` // there is no record
}

// reasons are words for the errors that callers distinguish. The first that fits counts.
var reasons = []struct {
	word string
	err  error
}{
	{"busy", ErrBusy}, {"claim", tenure.ErrClaim}, {"ttl", tenure.ErrTTLTooShort}, {"closed", tenure.ErrClosed},
	{"lost", tenure.ErrLost}, {"unavailable", tenure.ErrUnavailable},
}

// fill puts an error into an event.
func (e event) fill(err error) event {
	var held tenure.HeldError
	switch e.Error = err.Error(); {
	case errors.As(err, &held):
		e.Reason = "held"
		e.State = &tenure.State{Name: held.Name, Holders: []tenure.Holding{{Holder: held.Holder, Until: held.Until}}}
		return e
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			e.Reason = r.word
			return e
		}
	}
	return e
}

// err returns the error in an event, nil if there is none.
func (e event) err() error {
	switch {
	case e.Error == "":
		return nil
	case e.Reason == "held" && e.State != nil && len(e.State.Holders) == 1:
		h := e.State.Holders[0]
		return told{e.Error, tenure.HeldError{Name: e.State.Name, Holder: h.Holder, Until: h.Until}}
	}
	for _, r := range reasons {
		if r.word == e.Reason {
			return told{e.Error, r.err}
		}
	}
	return errors.New(e.Error)
}

// told is an error with the peer's words.
type told struct {
	words string
	kind  error
}

func (t told) Error() string { return t.words }
func (t told) Unwrap() error { return t.kind }

// lines is a connection that carries JSON, a value a line.
type lines struct {
	conn net.Conn
	in   *bufio.Reader
	most int           // bytes of a line that is received
	turn chan struct{} // has a token while a line is written, for sendPatience at most
	out  []byte
}

func newLines(c net.Conn, most int) *lines {
	return &lines{conn: c, in: bufio.NewReaderSize(c, lineBytesMax), most: most, turn: make(chan struct{}, 1)}
}

// send writes a line. If it cannot, it closes the connection.
func (l *lines) send(v any) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.out = append(append(l.out[:0], b...), '\n')
	if err = l.conn.SetWriteDeadline(time.Now().Add(sendPatience)); err == nil {
		_, err = l.conn.Write(l.out)
	}
	if err != nil {
		l.conn.Close()
	}
	return err
}

// receive reads a line.
func (l *lines) receive(v any) error {
	b, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		b, err = l.longer(b)
	}
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("a line that is no JSON of the expected kind: %w", err)
	}
	return nil
}

// longer reads the rest of a line that is longer than the buffer.
func (l *lines) longer(part []byte) ([]byte, error) {
	line := bytes.Clone(part)
	for len(line) < l.most {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
	return nil, fmt.Errorf("a line of more than %d bytes", l.most)
}
