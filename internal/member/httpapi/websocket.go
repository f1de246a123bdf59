package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// pingInterval is how often a websocket is tested. One that does not answer for AnswerPatience is closed.
const pingInterval = time.Minute

// sockets serves calls over websockets, as etcd's gateway does: each message of the client is a message in JSON of the call,
// and each line of the answer is a message. Browsers cannot stream requests otherwise.
//
// A client that cannot set headers sends its token as the subprotocol "Bearer, TOKEN" or as the cookie "token". Origins are
// those that CORS allows, all by default, as etcd has it.
func (g *gate) sockets(origins []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !upgrade(r) {
			next.ServeHTTP(w, r)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !anyOf(origins, origin) {
			http.Error(w, "tenure: pages of this origin may not call; see --cors", http.StatusForbidden)
			return
		}
		if !g.calls.TryAcquire(1) {
			refuse(w, errTooMany)
			return
		}
		defer g.calls.Release(1)
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{"Bearer"}})
		if err != nil {
			return // the client was told
		}
		defer conn.CloseNow()
		conn.SetReadLimit(-1) // messages are bounded as bodies are
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		(&socket{gate: g, conn: conn, cancel: cancel}).serve(ctx, r)
	})
}

// upgrade reports whether a request asks for a websocket.
func upgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && listed(r.Header.Values("Connection"), "upgrade") && listed(r.Header.Values("Upgrade"), "websocket")
}

// listed reports whether a header's lists have a token, in any case.
func listed(values []string, token string) bool {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
	}
	return false
}

// bearer is the token that a client of a websocket sends, if it sends one.
func bearer(r *http.Request) string {
	if c, err := r.Cookie("token"); err == nil {
		return "Bearer " + c.Value
	}
	if _, value, ok := strings.Cut(r.Header.Get("Sec-WebSocket-Protocol"), "Bearer,"); ok {
		return "Bearer " + strings.TrimSpace(value)
	}
	return r.Header.Get("Authorization")
}

// A socket is a call over a websocket.
type socket struct {
	gate   *gate
	conn   *websocket.Conn
	cancel context.CancelFunc
}

func (s *socket) serve(ctx context.Context, r *http.Request) {
	body, err := s.receive(ctx)
	out := &lines{socket: s, ctx: ctx, header: http.Header{}}
	call := r.Clone(ctx)
	call.Method, call.ContentLength = http.MethodPost, -1
	call.Header = http.Header{}
	keepTrace(call.Header, r.Header)
	if t := bearer(r); t != "" {
		call.Header.Set("Authorization", t)
	}
	first := streamed[strings.TrimSuffix(r.URL.Path, "/")]
	if err == nil && first != nil {
		err = judge(body.bytes, first())
	}
	if err != nil {
		body.release()
		if ctx.Err() == nil && websocket.CloseStatus(err) < 0 && !errors.Is(err, io.EOF) {
			refuse(out, err)
			out.flush()
			s.conn.Close(websocket.StatusPolicyViolation, "the message is refused")
		}
		return
	}
	if first == nil { // a call of one message: etcd would wait for the end of the connection, and then not answer
		call.Body = io.NopCloser(bytes.NewReader(body.bytes))
		go s.drain(ctx)
		s.gate.next.ServeHTTP(out, call)
		body.release()
	} else {
		from, to := io.Pipe()
		defer from.Close() // the goroutine may be writing
		call.Body = from
		go s.pump(ctx, to, body)
		s.gate.next.ServeHTTP(out, call)
	}
	if out.flush() == nil {
		s.conn.Close(websocket.StatusNormalClosure, "")
	}
}

// A message is one of a client, and the room that it takes.
type message struct {
	bytes []byte
	taken int64
	gate  *gate
}

func (m message) release() { m.gate.bodies.Release(m.taken) }

// receive reads a message. It may begin whenever the client likes, and then has to come in time.
func (s *socket) receive(ctx context.Context) (message, error) {
	_, from, err := s.conn.Reader(ctx)
	if err != nil {
		return message{gate: s.gate}, err
	}
	late := time.AfterFunc(s.gate.BodyPatience, s.cancel)
	defer late.Stop()
	read, taken, err := s.gate.whole(from)
	return message{read, taken, s.gate}, err
}

// pump passes messages on, the first of which was read, until the client closes the connection. Then the call ends.
func (s *socket) pump(ctx context.Context, to *io.PipeWriter, m message) {
	defer s.cancel()
	go s.ping(ctx)
	for {
		_, err := to.Write(append(m.bytes, '\n'))
		m.release()
		if err != nil {
			return
		}
		if m, err = s.receive(ctx); err != nil {
			m.release()
			to.CloseWithError(io.EOF)
			return
		}
	}
}

// drain ends a call whose client closes the connection, or sends more than the call takes.
func (s *socket) drain(ctx context.Context) {
	defer s.cancel()
	go s.ping(ctx)
	s.conn.Reader(ctx)
}

// ping ends a call whose client does not answer.
func (s *socket) ping(ctx context.Context) {
	tick := time.NewTicker(s.gate.pings)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		waiting, cancel := context.WithTimeout(ctx, s.gate.AnswerPatience)
		err := s.conn.Ping(waiting)
		cancel()
		if err != nil {
			s.cancel()
			return
		}
	}
}

// lines sends each line that a handler writes as a message.
type lines struct {
	*socket
	ctx     context.Context
	header  http.Header
	waiting []byte // a line that has not ended
	taken   int64
}

// Header is for the handler. A client of a websocket sees neither header nor status.
func (l *lines) Header() http.Header { return l.header }

// WriteHeader does nothing.
func (l *lines) WriteHeader(int) {}

// Flush does nothing: a line is sent when it ends.
func (l *lines) Flush() {}

// Write takes a part of the answer, with a bound on what clients have not read.
func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		if err := l.wait(line); err != nil {
			return 0, err
		}
		if !ended {
			return n, nil
		}
		if err := l.flush(); err != nil {
			return 0, err
		}
		b = rest
	}
}

// wait keeps a part of a line. A large one takes room.
func (l *lines) wait(part []byte) error {
	size := min(int64(len(l.waiting)+len(part)), l.gate.AnswersBytes)
	if size >= largeAnswer && size > l.taken {
		if !l.gate.answers.TryAcquire(size - l.taken) {
			l.cancel()
			return errTooMany
		}
		l.taken = size
	}
	l.waiting = append(l.waiting, part...)
	return nil
}

// flush sends the line that waits, if there is one.
func (l *lines) flush() (err error) {
	if len(l.waiting) > 0 {
		ctx, cancel := context.WithTimeout(l.ctx, l.gate.AnswerPatience)
		defer cancel()
		if err = l.conn.Write(ctx, websocket.MessageText, l.waiting); err != nil {
			l.cancel()
		}
	}
	l.gate.answers.Release(l.taken)
	l.waiting, l.taken = nil, 0
	return err
}
