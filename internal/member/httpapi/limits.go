package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Limits bound what clients of the gateway may use. A field that is zero or less means its default.
type Limits struct {
	// BodyBytes bounds a request's body: JSON takes more than the message that it stands for.
	// Default 4 MiB.
	BodyBytes int64
	// BodiesBytes bounds the bodies of all requests together. Default 64 MiB.
	BodiesBytes int64
	// BodyPatience is how long a body may take. Default 10 s.
	BodyPatience time.Duration
	// AnswersBytes bounds the large answers that clients have not read. Default 256 MiB.
	AnswersBytes int64
	// AnswerPatience is how long a client may take to read a part of an answer. Default 1 min.
	AnswerPatience time.Duration
	// Calls bounds the calls and streams in flight. Default 10,000.
	Calls int64
}

func (l Limits) withDefaults() Limits {
	bytes := func(field *int64, value int64) {
		if *field <= 0 {
			*field = value
		}
	}
	bytes(&l.BodyBytes, 4<<20)
	bytes(&l.BodiesBytes, 64<<20)
	bytes(&l.AnswersBytes, 256<<20)
	bytes(&l.Calls, 10_000)
	if l.BodyPatience <= 0 {
		l.BodyPatience = 10 * time.Second
	}
	if l.AnswerPatience <= 0 {
		l.AnswerPatience = time.Minute
	}
	return l
}

const (
	// part is the size in which bodies are read.
	part = 64 << 10
	// largeAnswer is the size from which on an answer takes room. Calls bounds the smaller ones.
	largeAnswer = 64 << 10
)

// gate keeps the limits.
type gate struct {
	Limits
	calls, bodies, answers *semaphore.Weighted
	next                   http.Handler
	pings                  time.Duration // between those of a websocket
}

func limited(next http.Handler, l Limits) *gate {
	l = l.withDefaults()
	return &gate{l, semaphore.NewWeighted(l.Calls), semaphore.NewWeighted(l.BodiesBytes), semaphore.NewWeighted(l.AnswersBytes), next, pingInterval}
}

// streamed are the first messages of calls that clients may go on to send on.
var streamed = map[string]func() proto.Message{
	"/v3/watch":           func() proto.Message { return new(pb.WatchRequest) },
	"/v3/lease/keepalive": func() proto.Message { return new(pb.LeaseKeepAliveRequest) },
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.calls.TryAcquire(1) {
		refuse(w, errTooMany)
		return
	}
	defer g.calls.Release(1)
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(g.BodyPatience))
	first := streamed[strings.TrimSuffix(r.URL.Path, "/")]
	var body []byte
	var taken int64
	var err error
	var rest io.Reader
	if first != nil && r.ContentLength < 0 {
		control.EnableFullDuplex() // the client may send on while it is answered
		body, rest, err = g.message(r.Body)
	} else {
		body, taken, err = g.whole(r.Body)
	}
	defer func() { g.bodies.Release(taken) }()
	if err == nil && first != nil {
		err = judge(body, first())
	}
	if err != nil {
		refuse(w, err)
		return
	}
	control.SetReadDeadline(time.Time{})
	read := io.Reader(bytes.NewReader(body))
	if rest != nil {
		read = io.MultiReader(read, rest)
	}
	r.Body = io.NopCloser(read)
	g.next.ServeHTTP(&answer{ResponseWriter: w, gate: g, control: control}, r)
}

// A refusal is an answer of the gateway's own, in the form of others.
type refusal struct {
	Code    codes.Code `json:"code"`
	Message string     `json:"message"`
	status  int
}

func (r *refusal) Error() string { return r.Message }

var errTooMany = &refusal{codes.ResourceExhausted, rpctypes.ErrorDesc(rpctypes.ErrGRPCRequestTooManyRequests), http.StatusTooManyRequests}

func refuse(w http.ResponseWriter, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{codes.InvalidArgument, err.Error(), http.StatusBadRequest}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		r = &refusal{codes.DeadlineExceeded, "tenure: the body did not come in time", http.StatusRequestTimeout}
	}
	body, _ := json.Marshal(r) // of a number and a string
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close") // a part of the body may be unread
	w.WriteHeader(r.status)
	w.Write(body)
}

func (g *gate) tooLarge() error {
	return &refusal{codes.ResourceExhausted, fmt.Sprintf("tenure: the body is larger than %d bytes", g.BodyBytes), http.StatusTooManyRequests}
}

// whole reads a body to its end. Room is taken as it comes, so that one that is announced and does
// not come takes none.
func (g *gate) whole(from io.Reader) (body []byte, taken int64, err error) {
	for {
		if int64(len(body)) > g.BodyBytes {
			return nil, taken, g.tooLarge()
		}
		if !g.bodies.TryAcquire(part) {
			return nil, taken, errTooMany
		}
		taken += part
		body = append(body, make([]byte, part)...)
		n, err := io.ReadFull(from, body[len(body)-part:])
		body = body[:len(body)-part+n]
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF && n < part:
			if int64(len(body)) > g.BodyBytes {
				return nil, taken, g.tooLarge()
			}
			return body, taken, nil
		case err != nil:
			return nil, taken, err
		}
	}
}

// message reads the first message of a body without a known end, and returns what follows.
func (g *gate) message(from io.Reader) (first []byte, rest io.Reader, err error) {
	bounded := &io.LimitedReader{R: from, N: g.BodyBytes}
	read := json.NewDecoder(bounded)
	var raw json.RawMessage
	err = read.Decode(&raw)
	switch {
	case bounded.N <= 0:
		return nil, nil, g.tooLarge()
	case err == io.EOF:
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	return raw, io.MultiReader(read.Buffered(), bounded), nil
}

// judge refuses the first message of a stream that cannot be one. Without an answer its client
// would wait for ever.
func judge(body []byte, m proto.Message) error {
	var raw json.RawMessage
	err := json.NewDecoder(bytes.NewReader(body)).Decode(&raw)
	if err == nil {
		err = (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, m)
	}
	return err
}

// An answer is written with a bound on what clients have not read.
type answer struct {
	http.ResponseWriter
	gate    *gate
	control *http.ResponseController
	begun   bool
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader begins an answer.
func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

// Write sends a part of an answer. A large one for which there is no room is refused.
func (a *answer) Write(b []byte) (int, error) {
	if size := min(int64(len(b)), a.gate.AnswersBytes); size >= largeAnswer {
		if !a.gate.answers.TryAcquire(size) {
			if !a.begun {
				a.Header().Del("Content-Length")
				refuse(a, errTooMany)
			}
			return 0, errTooMany
		}
		defer a.gate.answers.Release(size)
	}
	a.begun = true
	a.control.SetWriteDeadline(time.Now().Add(a.gate.AnswerPatience))
	defer a.control.SetWriteDeadline(time.Time{})
	return a.ResponseWriter.Write(b)
}
