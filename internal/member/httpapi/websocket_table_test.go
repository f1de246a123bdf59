package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Which requests ask for a websocket, and with which token.
func TestUpgradesAndTokens(t *testing.T) {
	for _, c := range []struct {
		method string
		header http.Header
		asks   bool
		token  string
	}{
		{"GET", http.Header{}, false, ""},
		{"GET", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, true, ""},
		{"POST", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, false, ""},
		{"GET", http.Header{"Connection": {"Upgrade"}}, false, ""},
		{"GET", http.Header{"Upgrade": {"websocket"}}, false, ""},
		{"GET", http.Header{"Connection": {"keep-alive", "close ,\tUPGRADE "}, "Upgrade": {"h2c,WebSocket"}}, true, ""},
		{"GET", http.Header{"Connection": {"upgrades"}, "Upgrade": {"websocket"}}, false, ""},
		{"GET", http.Header{"Connection": {"upgrade"}, "Upgrade": {"websocket2"}}, false, ""},
		{"GET", http.Header{"Authorization": {"a.1"}}, false, "a.1"},
		{"GET", http.Header{"Authorization": {"a.1"}, "Sec-Websocket-Protocol": {"Bearer,  b.2 "}}, false, "Bearer b.2"},
		{"GET", http.Header{"Authorization": {"a.1"}, "Sec-Websocket-Protocol": {"other"}}, false, "a.1"},
		{"GET", http.Header{"Authorization": {"a.1"}, "Sec-Websocket-Protocol": {"Bearer, b.2"}, "Cookie": {"x=y; token=c.3"}}, false, "Bearer c.3"},
		{"GET", http.Header{"Authorization": {"a.1"}, "Cookie": {"x=y"}}, false, "a.1"},
	} {
		r := httptest.NewRequest(c.method, "/v3/watch", nil)
		r.Header = c.header
		if got := upgrade(r); got != c.asks {
			t.Errorf("%s with %v asks for a websocket: %v, want %v", c.method, c.header, got, c.asks)
		}
		if got := bearer(r); got != c.token {
			t.Errorf("with %v the token is %q, want %q", c.header, got, c.token)
		}
	}
}

// Each line is a message, however it is written. An empty one is none, and what is left at the end is one.
func TestLinesAreMessages(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes []string
		want   string
	}{
		{"nothing", nil, "[closed with 1000]"},
		{"empty lines", []string{"\n", "", "\n\n"}, "[closed with 1000]"},
		{"a line", []string{"a\n"}, "[a closed with 1000]"},
		{"parts of lines", []string{"a", "b\n\nc", "\nd\ne", "", "f"}, "[ab c d ef closed with 1000]"},
		{"large lines", []string{strings.Repeat("x", largeAnswer), "y\n", strings.Repeat("z", largeAnswer) + "\n"}, fmt.Sprintf("[%d bytes %d bytes closed with 1000]", largeAnswer+1, largeAnswer)},
	} {
		for _, path := range []string{"/v3/kv/range", "/v3/watch"} {
			url, g := socketsOf(t, Limits{}, nil, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.ContentLength != -1 || r.URL.Path != path {
					t.Errorf("a message is the call %s %s of length %d, want POST %s of unknown length", r.Method, r.URL.Path, r.ContentLength, path)
				}
				w.Header().Set("X", "y")
				w.WriteHeader(http.StatusTeapot)
				for _, b := range c.writes {
					if n, err := w.Write([]byte(b)); n != len(b) || err != nil {
						t.Errorf("%s: a part of %d bytes is written with %d, %v", c.name, len(b), n, err)
					}
					w.(http.Flusher).Flush()
				}
			})
			conn := opened(t, url+path, nil)
			say(t, conn, "{}")
			var got []string
			for len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "closed") && len(got) < 9 {
				heard := hear(t, conn)
				if len(heard) > 100 {
					heard = fmt.Sprint(len(heard), " bytes")
				}
				got = append(got, heard)
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%s by %s: the messages are %v, want %s", c.name, path, got, c.want)
			}
			if !g.answers.TryAcquire(g.AnswersBytes) {
				t.Errorf("%s by %s: lines that were sent keep their room", c.name, path)
			}
		}
	}
}

// Room for a large line is taken as it grows, up to all there is, and given back with it.
func TestLinesTakeRoom(t *testing.T) {
	const most = 3 * largeAnswer
	for _, c := range []struct {
		parts []int
		taken int64
		fails bool
	}{
		{[]int{largeAnswer - 1}, 0, false}, {[]int{largeAnswer}, largeAnswer, false}, {[]int{largeAnswer - 1, 1}, largeAnswer, false},
		{[]int{largeAnswer, 1, 1}, largeAnswer + 2, false}, {[]int{2 * most}, most, false}, {[]int{most, 1}, most, false},
	} {
		g := limited(nil, Limits{AnswersBytes: most})
		l := &lines{socket: &socket{gate: g, cancel: func() {}}}
		total := 0
		for _, n := range c.parts {
			if err := l.wait(make([]byte, n)); err != nil {
				t.Errorf("parts of %v bytes: %v", c.parts, err)
			}
			total += n
		}
		if l.taken != c.taken || len(l.waiting) != total || g.answers.TryAcquire(most-c.taken+1) {
			t.Errorf("a line in parts of %v bytes waits with %d bytes, and takes %d, want %d and %d", c.parts, len(l.waiting), l.taken, total, c.taken)
		}
		full, ended := limited(nil, Limits{AnswersBytes: most}), 0
		full.answers.TryAcquire(most)
		l = &lines{socket: &socket{gate: full, cancel: func() { ended++ }}}
		if err := l.wait(make([]byte, c.parts[0])); (err == nil) != (c.parts[0] < largeAnswer) || ended > 0 != (err != nil) || l.taken != 0 {
			t.Errorf("a part of %d bytes for which there is no room: %v, the call ended %d times", c.parts[0], err, ended)
		}
	}
}
