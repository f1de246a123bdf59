package httpapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// behind serves what is behind a gate.
func behind(t *testing.T, l Limits, next http.HandlerFunc) (*httptest.Server, *gate) {
	t.Helper()
	g := limited(next, l)
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return s, g
}

func send(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	answer, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(answer)
}

func echo(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }

const tooMany = `{"code":8,"message":"etcdserver: too many requests"}`

// Bodies have a size at most, each of them and all together, and give their room back.
func TestBodiesAreBounded(t *testing.T) {
	s, g := behind(t, Limits{BodyBytes: 2 * part, BodiesBytes: 4 * part}, echo)
	for _, c := range []struct {
		bytes, status int
	}{{0, 200}, {1, 200}, {part - 1, 200}, {part, 200}, {part + 1, 200}, {2 * part, 200}, {2*part + 1, 429}, {20 * part, 429}} {
		body := strings.Repeat("x", c.bytes)
		status, answer := send(t, s.URL, body)
		if status != c.status || status == 200 && answer != body || status != 200 && !strings.Contains(answer, "larger than 131072 bytes") {
			t.Errorf("a body of %d bytes: %d and %d bytes of answer %.60q, want %d", c.bytes, status, len(answer), answer, c.status)
		}
	}
	if !g.bodies.TryAcquire(3 * part) {
		t.Fatal("bodies that were answered keep their room")
	}
	if status, answer := send(t, s.URL, strings.Repeat("x", part)); status != 429 || answer != tooMany {
		t.Errorf("a body without room: %d %q, want 429", status, answer)
	}
	if status, _ := send(t, s.URL, "x"); status != 200 {
		t.Errorf("a body for which there is room: %d, want an answer", status)
	}
}

// A body that comes slowly is given up, and holds only room for what has come.
func TestSlowBodies(t *testing.T) {
	s, g := behind(t, Limits{BodyPatience: 100 * time.Millisecond}, echo)
	for _, head := range []string{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx", "POST /v3/watch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, head)
		c.SetDeadline(time.Now().Add(8 * time.Second))
		answer, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(answer), "408 ") || !strings.Contains(string(answer), `"code":4`) {
			t.Errorf("a slow body: %.300q, %v, want 408", answer, err)
		}
	}
	if !g.bodies.TryAcquire(g.BodiesBytes) {
		t.Error("bodies that did not come keep their room")
	}
}

// Calls in flight are bounded.
func TestCallsAreBounded(t *testing.T) {
	come, leave := make(chan struct{}, 2), make(chan struct{})
	s, _ := behind(t, Limits{Calls: 1}, func(http.ResponseWriter, *http.Request) {
		come <- struct{}{}
		<-leave
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		send(t, s.URL, "")
	}()
	<-come
	goOn := sync.OnceFunc(func() { close(leave) })
	defer time.AfterFunc(5*time.Second, goOn).Stop() // if it is not refused
	if status, answer := send(t, s.URL, ""); status != 429 || answer != tooMany {
		t.Errorf("one call more than there may be: %d %q, want 429", status, answer)
	}
	goOn()
	<-done
}

// Large answers that nobody reads are bounded together; small ones always go.
func TestAnswersAreBounded(t *testing.T) {
	s, g := behind(t, Limits{AnswersBytes: 4 * largeAnswer}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Length", fmt.Sprint(10*len(body)))
		w.Write([]byte(strings.Repeat("y", 10*len(body))))
	})
	if status, answer := send(t, s.URL, strings.Repeat("x", largeAnswer)); status != 200 || len(answer) != 10*largeAnswer {
		t.Errorf("an answer larger than all of the room, alone: %d, %d bytes, want it", status, len(answer))
	}
	// The client may have read the answer before the handler has returned.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := g.answers.Acquire(ctx, 4*largeAnswer); err != nil {
		t.Fatal("answers that were read keep their room")
	}
	if status, answer := send(t, s.URL, strings.Repeat("x", largeAnswer/10+1)); status != 429 || answer != tooMany {
		t.Errorf("a large answer without room: %d %.60q, want 429", status, answer)
	}
	if status, answer := send(t, s.URL, "x"); status != 200 || len(answer) != 10 {
		t.Errorf("a small answer without room: %d %q, want it", status, answer)
	}
}

// A client that does not read its answer is cut off.
func TestUnreadAnswersAreCut(t *testing.T) {
	ended := make(chan error, 1)
	s, _ := behind(t, Limits{AnswerPatience: 50 * time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, largeAnswer)); err != nil {
				ended <- err
				return
			}
		}
	})
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
	select {
	case <-ended:
	case <-time.After(8 * time.Second):
		t.Error("a client that does not read its answer is waited for")
	}
}
