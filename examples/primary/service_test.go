package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
)

// held is a lease that does not end.
type held struct{ tenure.Lease }

func (held) Check() error { return nil }

// TestClientHangsUp: the request of a client that has left is stored all the same, by late
// replicas, too, and the primary goes on.
func TestClientHangsUp(t *testing.T) {
	late := make(chan struct{})
	replicas := make([]Replica, 3)
	s := &Service{lease: held{}, entry: Entry{Token: 7, Seq: 1}, quit: func() { t.Error("the primary steps down") }}
	for i := range replicas {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if i == 2 {
				<-late
			}
			replicas[i].ServeHTTP(w, q)
		}))
		defer server.Close()
		s.Replicas = append(s.Replicas, strings.TrimPrefix(server.URL, "http://"))
	}
	defer http.DefaultClient.CloseIdleConnections()
	left, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	s.serve(w, httptest.NewRequestWithContext(left, http.MethodPost, "/", nil), 1)
	close(late)
	if w.Code != http.StatusOK || w.Body.String() != "1\n" {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		e, _ := replicas[2].Promise(7)
		if e.Count == 1 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the late replica has %+v", e)
		}
	}
}
