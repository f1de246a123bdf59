package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// Each limit has its default unless it is set, and reaches the gate.
func TestLimitsHaveDefaults(t *testing.T) {
	defaults := Limits{BodyBytes: 4 << 20, BodiesBytes: 64 << 20, BodyPatience: 10 * time.Second, AnswersBytes: 256 << 20, AnswerPatience: time.Minute, Calls: 10_000}
	for i := -1; i < reflect.TypeFor[Limits]().NumField(); i++ {
		var set Limits
		want := defaults
		if i >= 0 {
			reflect.ValueOf(&set).Elem().Field(i).SetInt(int64(i) + 3)
			reflect.ValueOf(&want).Elem().Field(i).SetInt(int64(i) + 3)
		}
		if i >= 0 {
			negative := defaults
			reflect.ValueOf(&negative).Elem().Field(i).SetInt(-1)
			if got := negative.withDefaults(); got != defaults {
				t.Errorf("the limits %+v become %+v, want the default for one that is negative", negative, got)
			}
		}
		g := limited(nil, set)
		if g.Limits != want {
			t.Errorf("of the limits %+v the gate has %+v, want %+v", set, g.Limits, want)
		}
		for name, room := range map[string]bool{
			"calls":   g.calls.TryAcquire(want.Calls) && !g.calls.TryAcquire(1),
			"bodies":  g.bodies.TryAcquire(want.BodiesBytes) && !g.bodies.TryAcquire(1),
			"answers": g.answers.TryAcquire(want.AnswersBytes) && !g.answers.TryAcquire(1),
		} {
			if !room {
				t.Errorf("with the limits %+v there is not as much room for %s", set, name)
			}
		}
		if g.pings != time.Minute {
			t.Errorf("a websocket is pinged each %v, want each minute", g.pings)
		}
	}
}

// Refusals have the form of the gateway's answers.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		body   string
	}{
		{errTooMany, 429, tooMany},
		{fmt.Errorf("wrapped: %w", errTooMany), 429, tooMany},
		{(&gate{Limits: Limits{BodyBytes: 77}}).tooLarge(), 429, `{"code":8,"message":"tenure: the body is larger than 77 bytes"}`},
		{errors.New(`a "quoted" one`), 400, `{"code":3,"message":"a \"quoted\" one"}`},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), 408, `{"code":4,"message":"tenure: the body did not come in time"}`},
	} {
		w := httptest.NewRecorder()
		refuse(w, c.err)
		if w.Code != c.status || w.Body.String() != c.body || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Connection") != "close" {
			t.Errorf("%v is refused by %d %v %s, want %d %s", c.err, w.Code, w.Header(), w.Body, c.status, c.body)
		}
	}
	if got := errTooMany.Error(); got != "etcdserver: too many requests" {
		t.Errorf("the refusal says %q", got)
	}
}

// Bodies are read whole, in parts for which room is taken.
func TestWholeBodies(t *testing.T) {
	const most = 3 * part
	for _, c := range []struct {
		bytes, taken int
		room         int64
		fails        string
	}{
		{0, part, most, ""}, {1, part, most, ""}, {part - 1, part, most, ""}, {part, 2 * part, most, ""}, {2*part - 1, 2 * part, most, ""},
		{2 * part, 3 * part, most, ""}, {2*part + 1, 3 * part, most, "larger than 131072 bytes"}, {8 * part, 3 * part, most, "larger than 131072 bytes"},
		{1, 0, part - 1, "too many requests"}, {part, part, 2*part - 1, "too many requests"},
	} {
		g := limited(nil, Limits{BodyBytes: 2 * part, BodiesBytes: c.room})
		body := bytes.Repeat([]byte("xy\x00"), c.bytes/3+1)[:c.bytes]
		got, taken, err := g.whole(pieces{bytes.NewReader(body)})
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) || err == nil && !bytes.Equal(got, body) || err != nil && got != nil {
			t.Errorf("a body of %d bytes with room for %d is read as %d bytes, %v; want %q", c.bytes, c.room, len(got), err, c.fails)
		}
		if taken != int64(c.taken) || c.room > taken && !g.bodies.TryAcquire(c.room-taken) || g.bodies.TryAcquire(1) {
			t.Errorf("a body of %d bytes with room for %d takes %d bytes of it, want %d", c.bytes, c.room, taken, c.taken)
		}
	}
	g := limited(nil, Limits{})
	for _, cut := range []error{errors.New("the connection is broken"), os.ErrDeadlineExceeded, io.ErrClosedPipe} {
		if got, taken, err := g.whole(io.MultiReader(strings.NewReader("x"), failing{cut})); !errors.Is(err, cut) || got != nil || taken != part {
			t.Errorf("a body that is cut by %v is read as %q, %v, and takes %d", cut, got, err, taken)
		}
	}
}

// pieces reads less at a time than there is room for.
type pieces struct{ from io.Reader }

func (c pieces) Read(b []byte) (int, error) { return c.from.Read(b[:min(len(b), 10_000)]) }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// The first message of a stream is read, and all that follows is kept.
func TestFirstMessages(t *testing.T) {
	for _, c := range []struct{ in, first, rest, fails string }{
		{"", "", "", ""}, {"{}", "{}", "", ""}, {` {"a":1}` + "\n" + `{"b":2} x`, `{"a":1}`, "\n" + `{"b":2} x`, ""},
		{"x", "", "", "invalid character 'x'"}, {"{", "", "", "unexpected EOF"},
		{`{"a":"` + strings.Repeat("x", 55) + `"}`, `{"a":"` + strings.Repeat("x", 55) + `"}`, "", ""},
		{`{"a":"` + strings.Repeat("x", 56) + `"}`, "", "", "larger than 64 bytes"}, {strings.Repeat(" ", 100) + "{}", "", "", "larger than 64 bytes"},
	} {
		first, rest, err := limited(nil, Limits{BodyBytes: 64}).message(strings.NewReader(c.in))
		var follows []byte
		if rest != nil {
			follows, _ = io.ReadAll(rest)
		}
		if string(first) != c.first || string(follows) != c.rest || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("of %.70q the first message is %q, then come %q, %v; want %q, %q, %q", c.in, first, follows, err, c.first, c.rest, c.fails)
		}
	}
	for in, good := range map[string]bool{`{}`: true, `{"create_request":{}}`: true, `{"unknown":1}`: true, `{} x`: true, ``: false, `1`: false, `{"create_request":1}`: false, `{`: false} {
		if err := judge([]byte(in), new(pb.WatchRequest)); (err == nil) != good {
			t.Errorf("the first message %q is judged with %v, want good %v", in, err, good)
		}
	}
}

// controlled is a writer that notes what a handler sets of its connection.
type controlled struct {
	*httptest.ResponseRecorder
	begun time.Time
	set   []string
}

func (c *controlled) note(name string, at time.Time) {
	if at.IsZero() {
		c.set = append(c.set, name+" never")
	} else {
		c.set = append(c.set, fmt.Sprint(name, " ", at.Sub(c.begun)))
	}
}

func (c *controlled) SetReadDeadline(at time.Time) error  { c.note("read", at); return nil }
func (c *controlled) SetWriteDeadline(at time.Time) error { c.note("write", at); return nil }
func (c *controlled) EnableFullDuplex() error             { c.set = append(c.set, "duplex"); return nil }

// Bodies and answers have their time, which ends with them: a stream goes on for as long as it likes.
func TestPatienceWithClients(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		length           int64
		want             string
	}{
		{"a call", "/v3/kv/range", "{}", 2, "[read 3s read never write 6s write never write 7s write never]"},
		{"a call of unknown length", "/v3/kv/range", "{}", -1, "[read 3s read never write 6s write never write 7s write never]"},
		{"a stream that is whole", "/v3/watch", "{}", 2, "[read 3s read never write 6s write never write 7s write never]"},
		{"a stream that goes on", "/v3/watch", "{}{}", -1, "[read 3s duplex read never write 6s write never write 7s write never]"},
		{"another one, with a slash", "/v3/lease/keepalive/", "{}{}", -1, "[read 3s duplex read never write 6s write never write 7s write never]"},
		{"a stream of junk", "/v3/watch", "x", -1, "[read 3s duplex]"},
	} {
		bubble.Test(t, func(t *testing.T) {
			w := &controlled{ResponseRecorder: httptest.NewRecorder(), begun: time.Now()}
			g := limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if string(body) != c.body {
					t.Errorf("%s: the body is passed on as %q, want %q", c.name, body, c.body)
				}
				for range 2 {
					time.Sleep(time.Second)
					w.Write([]byte("answer"))
				}
			}), Limits{BodyPatience: 3 * time.Second, AnswerPatience: 5 * time.Second})
			r := httptest.NewRequest("POST", c.path, strings.NewReader(c.body))
			r.ContentLength = c.length
			g.ServeHTTP(w, r)
			if got := fmt.Sprint(w.set); got != c.want {
				t.Errorf("%s: of its connection %s is set, want %s", c.name, got, c.want)
			}
			if !g.calls.TryAcquire(g.Calls) || !g.bodies.TryAcquire(g.BodiesBytes) || !g.answers.TryAcquire(g.AnswersBytes) {
				t.Errorf("%s has ended and keeps its room", c.name)
			}
		})
	}
}

// Room is kept for as long as a call goes on: of one call, of its body, and of a large part of its answer while it is written.
func TestCallsTakeRoom(t *testing.T) {
	for _, c := range []struct {
		bytes int
		begun bool
		taken int64 // of two parts of answers
		want  string
	}{
		{largeAnswer - 1, false, 2, "200 65535"}, {largeAnswer, false, 1, "200 65536"}, {largeAnswer, false, 2, "429 52"}, {largeAnswer, true, 2, "202 0"},
		{9 * largeAnswer, false, 0, "200 589824"}, {9 * largeAnswer, false, 1, "429 52"},
	} {
		g := limited(nil, Limits{AnswersBytes: 2 * largeAnswer, Calls: 2, BodiesBytes: 2 * part})
		g.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if g.calls.TryAcquire(2) || g.bodies.TryAcquire(part+1) || !g.bodies.TryAcquire(part) {
				t.Error("a call in flight takes no room, or too much")
			} else {
				g.bodies.Release(part)
			}
			w.Header().Set("Content-Length", "9")
			if c.begun {
				w.WriteHeader(http.StatusAccepted)
			}
			n, err := w.Write(make([]byte, c.bytes))
			if refused := strings.HasPrefix(c.want, "429") || c.begun; refused != errors.Is(err, errTooMany) || !refused && n != c.bytes || refused && n != 0 {
				t.Errorf("a part of %d bytes is written with %d, %v", c.bytes, n, err)
			}
		})
		g.answers.TryAcquire(c.taken * largeAnswer)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest("POST", "/v3/kv/range", strings.NewReader("{}")))
		if got := fmt.Sprint(w.Code, " ", w.Body.Len()); got != c.want {
			t.Errorf("an answer of %d bytes, begun %v, with %d parts of room taken: status and bytes %s, want %s", c.bytes, c.begun, c.taken, got, c.want)
		}
		if w.Code == 429 && w.Header().Get("Content-Length") != "" {
			t.Error("a refusal has the length of the answer that was refused")
		}
		if g.answers.Release(c.taken * largeAnswer); !g.answers.TryAcquire(g.AnswersBytes) {
			t.Errorf("an answer of %d bytes keeps its room", c.bytes)
		}
	}
}

// Recordings take as long as they are asked to, end with their client, and are stopped once.
func TestRecordings(t *testing.T) {
	for _, c := range []struct {
		query  string
		fails  error
		leaves time.Duration
		want   string
	}{
		{"", nil, 0, "200 7s 1"}, {"?seconds=1", nil, 0, "200 1s 1"}, {"?seconds=300", nil, 0, "200 5m0s 1"}, {"?seconds=300", nil, 2 * time.Second, "200 2s 1"},
		{"?seconds=301", nil, 0, "400 0s 0"}, {"?seconds=0", nil, 0, "400 0s 0"}, {"?seconds=x", nil, 0, "400 0s 0"}, {"", errors.New("another one runs"), 0, "409 0s 0"},
	} {
		bubble.Test(t, func(t *testing.T) {
			r, w := httptest.NewRequest("GET", "/"+c.query, nil), httptest.NewRecorder()
			if c.leaves > 0 {
				ctx, cancel := context.WithTimeout(t.Context(), c.leaves)
				defer cancel()
				r = r.WithContext(ctx)
			}
			begun, stops := time.Now(), 0
			record(w, r, 7, func() error { return c.fails }, func() { stops++ })
			if got := fmt.Sprint(w.Code, " ", time.Since(begun), " ", stops); got != c.want {
				t.Errorf("a recording %q: status, time and stops are %s, want %s", c.query, got, c.want)
			}
			if kind := w.Header().Get("Content-Type"); (w.Code == 200) != (kind == "application/octet-stream") {
				t.Errorf("a recording %q of status %d is of type %s", c.query, w.Code, kind)
			}
			synctest.Wait()
		})
	}
	if profileSeconds != 30 || traceSeconds != 1 {
		t.Errorf("profiles take %d and traces %d seconds, want 30 and 1", profileSeconds, traceSeconds)
	}
}
