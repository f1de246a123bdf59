package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// socketsOf serves websockets in front of a handler.
func socketsOf(t *testing.T, l Limits, origins []string, next http.HandlerFunc) (url string, g *gate) {
	t.Helper()
	g = limited(next, l)
	s := httptest.NewServer(g.sockets(origins, g))
	t.Cleanup(s.Close)
	return "ws" + strings.TrimPrefix(s.URL, "http"), g
}

func dial(t *testing.T, url string, header http.Header, protocols ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	c, r, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
	if err == nil {
		t.Cleanup(func() { c.CloseNow() })
		c.SetReadLimit(-1)
	}
	return c, r, err
}

func opened(t *testing.T, url string, header http.Header, protocols ...string) *websocket.Conn {
	t.Helper()
	c, _, err := dial(t, url, header, protocols...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func say(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, b, err := c.Read(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return "nothing"
	}
	if err != nil {
		return fmt.Sprint("closed with ", int(websocket.CloseStatus(err)))
	}
	return string(b)
}

// answering answers each line of a stream by one, and says first as whom it was called.
func answering(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s\n", r.Method, r.Header.Get("Authorization"))
	in := bufio.NewScanner(r.Body)
	for in.Scan() {
		fmt.Fprintf(w, "got %s\n", in.Text())
	}
}

// A websocket carries a stream: each message of the client is one of the stream, and each line of the answer is a message.
func TestSocketsCarryStreams(t *testing.T) {
	url, g := socketsOf(t, Limits{}, nil, answering)
	c := opened(t, url+"/v3/watch", nil)
	for i, want := range []string{"POST ", "got {}"} {
		if i == 0 {
			say(t, c, "{}")
		}
		if got := hear(t, c); got != want {
			t.Errorf("answer %d is %q, want %q", i, got, want)
		}
	}
	say(t, c, `{"progress_request":{}}`)
	if got := hear(t, c); got != `got {"progress_request":{}}` {
		t.Errorf("the second message is answered with %q", got)
	}
	c.Close(websocket.StatusNormalClosure, "")
	if err := g.calls.Acquire(t.Context(), g.Calls); err != nil || !g.bodies.TryAcquire(g.BodiesBytes) || !g.answers.TryAcquire(g.AnswersBytes) {
		t.Errorf("a socket that is closed keeps its room: %v", err)
	}
}

// A call of one message is answered after it, and the connection closed.
func TestSocketsAnswerCalls(t *testing.T) {
	url, _ := socketsOf(t, Limits{}, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "all of %s", body)
	})
	c := opened(t, url+"/v3/kv/range", nil)
	say(t, c, `{"key":"YQ=="}`)
	if got := hear(t, c); got != `all of {"key":"YQ=="}` {
		t.Errorf("answered with %q", got)
	}
	if got := hear(t, c); got != "closed with 1000" {
		t.Errorf("after the answer: %q", got)
	}
}

// Tokens come as etcd's gateway takes them: as a subprotocol, as a cookie, or as the header.
func TestSocketsHaveTokens(t *testing.T) {
	url, _ := socketsOf(t, Limits{}, nil, answering)
	for _, tt := range []struct {
		name      string
		header    http.Header
		protocols []string
		want      string
	}{
		{"a subprotocol", nil, []string{"Bearer", "abc.1"}, "POST Bearer abc.1"},
		{"a cookie", http.Header{"Cookie": {"token=abc.2"}}, nil, "POST Bearer abc.2"},
		{"a header", http.Header{"Authorization": {"abc.3"}}, nil, "POST abc.3"},
	} {
		c := opened(t, url+"/v3/watch", tt.header, tt.protocols...)
		say(t, c, "{}")
		if got := hear(t, c); got != tt.want {
			t.Errorf("%s: called as %q, want %q", tt.name, got, tt.want)
		}
		if want := strings.Join(tt.protocols[:min(1, len(tt.protocols))], ""); c.Subprotocol() != want {
			t.Errorf("%s: the subprotocol is %q, want %q", tt.name, c.Subprotocol(), want)
		}
	}
}

// Pages of origins that CORS does not allow open no websocket: browsers send cookies with it, and judge nothing.
func TestSocketsHaveOrigins(t *testing.T) {
	url, _ := socketsOf(t, Limits{}, []string{"https://mine"}, answering)
	for origin, want := range map[string]int{"https://mine": 101, "https://others": 403, "": 101} {
		header := http.Header{}
		if origin != "" {
			header.Set("Origin", origin)
		}
		if _, r, _ := dial(t, url+"/v3/watch", header); r == nil || r.StatusCode != want {
			t.Errorf("origin %q: %v, want %d", origin, r, want)
		}
	}
}

// Messages are bounded as bodies are, each and all together, and a first one that is none is refused in words.
func TestSocketsBoundMessages(t *testing.T) {
	url, g := socketsOf(t, Limits{BodyBytes: 2 * part, BodiesBytes: 3 * part}, nil, answering)
	for _, tt := range []struct{ name, say, want string }{
		{"no JSON", "x", "invalid character"},
		{"a large one", `{"unknown":"` + strings.Repeat("x", 2*part) + `"}`, "larger than 131072 bytes"},
		{"one without room", "{}", "too many requests"},
	} {
		if tt.name == "one without room" && !g.bodies.TryAcquire(3*part) {
			t.Fatal("messages that were refused keep their room")
		}
		c := opened(t, url+"/v3/watch", nil)
		say(t, c, tt.say)
		if got := hear(t, c); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %.100q, want %q", tt.name, got, tt.want)
		}
		if got := hear(t, c); got != "closed with 1008" {
			t.Errorf("%s: after the refusal %q", tt.name, got)
		}
	}
}

// Websockets are calls, of which there are so many at most.
func TestSocketsAreBounded(t *testing.T) {
	url, _ := socketsOf(t, Limits{Calls: 1}, nil, answering)
	c := opened(t, url+"/v3/watch", nil)
	say(t, c, "{}")
	hear(t, c)
	if _, r, err := dial(t, url+"/v3/watch", nil); err == nil || r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a websocket beyond the bound: %v, want status 429", r)
	}
}

// A large answer takes room, and one for which there is none ends the call.
func TestSocketsBoundAnswers(t *testing.T) {
	url, g := socketsOf(t, Limits{AnswersBytes: 4 * largeAnswer}, nil, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s\n", strings.Repeat("x", 2*largeAnswer))
	})
	for _, taken := range []int64{0, 3 * largeAnswer} {
		waiting, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if g.answers.Acquire(waiting, taken) != nil { // the client may be told first
			t.Fatal("an answer that was sent keeps its room")
		}
		c := opened(t, url+"/v3/kv/range", nil)
		say(t, c, "{}")
		if got := len(hear(t, c)); got == 2*largeAnswer != (taken == 0) {
			t.Errorf("with %d bytes taken an answer of %d bytes came", taken, got)
		}
	}
}

// A message that began has to end in time.
func TestSocketsThatAreSlowEnd(t *testing.T) {
	url, _ := socketsOf(t, Limits{BodyPatience: 50 * time.Millisecond}, nil, answering)
	c := opened(t, url+"/v3/watch", nil)
	w, err := c.Writer(t.Context(), websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 8<<10)); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, c); !strings.HasPrefix(got, "closed with") {
		t.Errorf("half a message is answered with %q", got)
	}
}

// The call ends with the connection.
func TestSocketsEndCalls(t *testing.T) {
	ended := make(chan error, 1)
	url, _ := socketsOf(t, Limits{}, nil, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		ended <- r.Context().Err()
	})
	for _, path := range []string{"/v3/watch", "/v3/election/observe"} {
		c := opened(t, url+path, nil)
		say(t, c, "{}")
		c.CloseNow()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s ended with %v", path, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s goes on without its client", path)
		}
	}
}

// A client that does not answer pings has left, whatever its connection says, and its call ends.
func TestSocketsOfTheSilentEnd(t *testing.T) {
	ended := make(chan struct{}, 1)
	url, g := socketsOf(t, Limits{AnswerPatience: 20 * time.Millisecond}, nil, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		ended <- struct{}{}
	})
	g.pings = 10 * time.Millisecond
	for _, path := range []string{"/v3/watch", "/v3/election/observe"} {
		say(t, opened(t, url+path, nil), "{}") // and reads no more, so that no ping is answered
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			t.Errorf("%s goes on, and its client answers no pings", path)
		}
	}
}

// Calls that have ended, by websocket and without, make room for others, and so do their messages.
func TestCallsMakeRoom(t *testing.T) {
	url, g := socketsOf(t, Limits{Calls: 1, BodiesBytes: part}, nil, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "done") })
	ended := func(name string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if g.calls.Acquire(ctx, 1) != nil || g.bodies.Acquire(ctx, part) != nil {
			t.Fatalf("%s that has ended keeps its room", name)
		}
		g.calls.Release(1)
		g.bodies.Release(part)
	}
	for range 2 {
		if status, _ := send(t, "http"+strings.TrimPrefix(url, "ws")+"/v3/kv/put", "{}"); status != http.StatusOK {
			t.Errorf("a call is answered by %d", status)
		}
		ended("a call")
		for _, path := range []string{"/v3/kv/put", "/v3/watch"} {
			c := opened(t, url+path, nil)
			say(t, c, "{}")
			if got := hear(t, c); got != "done" {
				t.Errorf("%s by websocket is answered by %q", path, got)
			}
			c.CloseNow()
			ended(path + " by websocket")
		}
	}
}
