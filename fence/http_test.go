package fence

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHandler(t *testing.T) {
	var store Memory
	h := Handler(&store, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "written") }))
	for _, step := range []struct {
		tokens []string
		code   int
		body   string
	}{
		{nil, 400, "send its token once, in header Tenure-Token"},
		{[]string{""}, 400, "want a positive decimal number"},
		{[]string{"0"}, 400, "want a positive decimal number"},
		{[]string{"0x10"}, 400, "want a positive decimal number"},
		{[]string{"-1"}, 400, "want a positive decimal number"},
		{[]string{"+1"}, 400, "want a positive decimal number"},
		{[]string{" 1"}, 400, "want a positive decimal number"},
		{[]string{"18446744073709551616"}, 400, "want a positive decimal number"},
		{[]string{"1", "2"}, 400, "once"},
		{[]string{"10"}, 200, "written"},
		{[]string{"10"}, 200, "written"},
		{[]string{"9"}, 409, "stale fencing token: 9, but 10 was seen"},
		{[]string{"11"}, 200, "written"},
		{[]string{"10"}, 409, "do not send this again"},
	} {
		r := httptest.NewRequest("PUT", "/", nil)
		r.Header[Header] = step.tokens
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != step.code || !strings.Contains(w.Body.String(), step.body) {
			t.Errorf("tokens %q: got %d %q, want %d %q", step.tokens, w.Code, w.Body, step.code, step.body)
		}
	}
}

type failing struct{}

func (failing) Do(uint64, func() error) error { return errors.New("disk full") }

func TestHandlerStoreFails(t *testing.T) {
	h := Handler(failing{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was let through") }))
	r := httptest.NewRequest("PUT", "/", nil)
	r.Header.Set(Header, "1")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 503 || !strings.Contains(w.Body.String(), "disk full") {
		t.Errorf("got %d %q, want 503 and why", w.Code, w.Body)
	}
}

// failsLate does what it is asked, and then it cannot keep it.
type failsLate struct{}

func (failsLate) Do(_ uint64, f func() error) error {
	return errors.Join(f(), errors.New("disk full"))
}

// TestHandlerAnswersOnce: the answer of a request that was let through stands, whatever the store says behind it.
func TestHandlerAnswersOnce(t *testing.T) {
	h := Handler(failsLate{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "written") }))
	r := httptest.NewRequest("PUT", "/", nil)
	r.Header.Set(Header, "1")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 200 || w.Body.String() != "written" {
		t.Errorf("got %d %q, want 200 and what was answered", w.Code, w.Body)
	}
}

// TestHandlerOvertaken: a request waits in the handler while a newer holder comes; the
// newer waits for it, and it is the last of the old ones.
func TestHandlerOvertaken(t *testing.T) {
	var store Memory
	inside, leave := make(chan string), make(chan struct{})
	h := Handler(&store, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inside <- r.Header.Get(Header)
		<-leave
	}))
	send := func(token string) <-chan int {
		code := make(chan int, 1)
		go func() {
			r := httptest.NewRequest("PUT", "/", nil)
			r.Header.Set(Header, token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			code <- w.Code
		}()
		return code
	}
	old := send("1")
	<-inside
	newer := send("2")
	select {
	case token := <-inside:
		t.Fatalf("token %s is let in beside token 1", token)
	case leave <- struct{}{}:
	}
	if code := <-old; code != 200 {
		t.Errorf("token 1 got %d, want 200", code)
	}
	if token := <-inside; token != "2" {
		t.Errorf("token %s is inside, want 2", token)
	}
	leave <- struct{}{}
	if code := <-newer; code != 200 {
		t.Errorf("token 2 got %d, want 200", code)
	}
	if code := <-send("1"); code != 409 {
		t.Errorf("token 1 after token 2 got %d, want 409", code)
	}
}
