package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func served(t *testing.T, c Config, edit func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	c.Member, c.Observer = state{}, counts{}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r, w := httptest.NewRequest(http.MethodGet, "http://a:1/version", nil), httptest.NewRecorder()
	edit(r)
	h.ServeHTTP(w, r)
	return w
}

// A request without TLS is for a host that is whitelisted, or refused.
func TestHostsAreWhitelisted(t *testing.T) {
	for _, c := range []struct {
		list   []string
		host   string
		tls    bool
		status int
	}{
		{nil, "evil:1", false, 200}, {[]string{"*"}, "evil", false, 200}, {[]string{"a"}, "a", false, 200},
		{[]string{"a", "b"}, "b:2379", false, 200}, {[]string{"a"}, "evil:2379", false, 421}, {[]string{"a"}, "evil", true, 200},
		{[]string{"::1"}, "[::1]:2379", false, 200},
	} {
		w := served(t, Config{Hosts: c.list}, func(r *http.Request) {
			if r.Host = c.host; c.tls {
				r.TLS = &tls.ConnectionState{}
			}
		})
		if w.Code != c.status || c.status == 421 && !strings.Contains(w.Body.String(), "--host-whitelist") {
			t.Errorf("a request for %s, TLS %v, whitelist %q: %d %q, want %d", c.host, c.tls, c.list, w.Code, w.Body, c.status)
		}
	}
}

// Pages of the origins that are permitted may ask, and others hear nothing that lets them.
func TestOriginsArePermitted(t *testing.T) {
	for _, c := range []struct {
		list         []string
		origin, want string
	}{
		{nil, "http://x", "*"}, {[]string{"*"}, "", "*"}, {[]string{"http://x"}, "http://x", "http://x"},
		{[]string{"http://x"}, "http://y", ""}, {[]string{"http://x"}, "", ""},
	} {
		for _, method := range []string{http.MethodGet, http.MethodOptions} {
			w := served(t, Config{Origins: c.list}, func(r *http.Request) {
				r.Method = method
				r.Header.Set("Origin", c.origin)
			})
			if got := w.Header().Get("Access-Control-Allow-Origin"); w.Code != 200 || got != c.want || (method == http.MethodOptions) != (w.Body.Len() == 0) {
				t.Errorf("%s from origin %q, permitted %q: %d, for %q %q; want for %q", method, c.origin, c.list, w.Code, got, w.Body, c.want)
			}
		}
	}
}

// With users a certificate's name would be taken for one and is not: such requests are refused.
func TestNamesOfCertificatesAreNoUsers(t *testing.T) {
	shown := func(name string) *tls.ConnectionState {
		return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: name}}}}}
	}
	for _, c := range []struct {
		users  bool
		tls    *tls.ConnectionState
		path   string
		status int
	}{
		{true, shown("root"), "/v3/kv/range", 400}, {true, shown("root"), "/v3beta/kv/range", 400}, {false, shown("root"), "/v3/kv/range", 404},
		{true, shown(""), "/v3/kv/range", 404}, {true, nil, "/v3/kv/range", 404}, {true, shown("root"), "/version", 200},
	} {
		var log bytes.Buffer
		w := served(t, Config{Users: func() bool { return c.users }, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(r *http.Request) { r.URL.Path, r.TLS = c.path, c.tls })
		if w.Code != c.status {
			t.Errorf("%s by a certificate, users %v: %d %q, want %d", c.path, c.users, w.Code, w.Body, c.status)
		}
		if told := strings.Contains(log.String(), "the common name of its certificate is no user there"); told != (c.status == 400) {
			t.Errorf("%s by a certificate, users %v, is answered by %d, and the log is %q", c.path, c.users, w.Code, &log)
		}
	}
}

// However often a client is refused, the log has a line a second about it.
func TestRefusedRequestsDoNotFillTheLog(t *testing.T) {
	named := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "root"}}}}}
	for line, edit := range map[string]func(*http.Request){
		"for a host that is not whitelisted": func(r *http.Request) { r.Host = "evil" },
		"to the API in JSON was refused":     func(r *http.Request) { r.URL.Path, r.TLS = "/v3/kv/range", named },
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			c := Config{Hosts: []string{"a"}, Users: func() bool { return true }, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			h := guarded(c, http.NotFoundHandler())
			for range 25 {
				r := httptest.NewRequest(http.MethodGet, "/version", nil)
				edit(r)
				h.ServeHTTP(httptest.NewRecorder(), r)
				time.Sleep(100 * time.Millisecond)
			}
			if n := strings.Count(log.String(), line); n != 3 {
				t.Errorf("%d lines about requests %s in 2.5 s, want one a second", n, line)
			}
		})
	}
}

// A token goes to the member as that of a client of gRPC does.
func TestTokensArePassedOn(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/v3/kv/range", nil)
	if got := token(t.Context(), r); got.Len() > 0 {
		t.Errorf("a request without a token has %v", got)
	}
	r.Header.Set("Authorization", "secret.1")
	if got := token(t.Context(), r).Get("token"); len(got) != 1 || got[0] != "secret.1" {
		t.Errorf("the member is given the token %q, want that of the request", got)
	}
}

// Profiles are served if they are asked for, and have a length at most.
func TestProfiles(t *testing.T) {
	for path, want := range map[string]int{
		"": 200, "heap": 200, "goroutine?debug=1": 200, "nothing": 404, "trace?seconds=x": 400, "profile?seconds=301": 400,
		"profile?seconds=1": 200, "trace?seconds=1": 200,
	} {
		for _, on := range []bool{true, false} {
			w := served(t, Config{Profiles: on}, func(r *http.Request) {
				gone, leave := context.WithCancel(t.Context())
				leave() // a client that has left is not recorded for
				*r = *r.WithContext(gone)
				r.URL.Path, r.URL.RawQuery, _ = strings.Cut(profilesPath+path, "?")
			})
			if on && (w.Code != want || w.Body.Len() == 0) || !on && w.Code != 404 {
				t.Errorf("profile %q, enabled %v: %d and %d bytes, want %d", path, on, w.Code, w.Body.Len(), want)
			}
		}
	}
	if w := served(t, Config{Profiles: true}, func(r *http.Request) { r.URL.Path = profilesPath }); !strings.Contains(w.Body.String(), "/debug/pprof/goroutine") {
		t.Errorf("the list of profiles is %q", w.Body)
	}
}
