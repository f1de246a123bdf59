package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A program can serve at its own ports what the member serves by HTTP.
func TestHandler(t *testing.T) {
	s, _ := member(t, nil)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/version", nil))
	if !strings.Contains(w.Body.String(), "etcdserver") {
		t.Errorf("the handler answers %d %q, want the version", w.Code, w.Body)
	}
}
