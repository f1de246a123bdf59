package httpapi

import (
	"fmt"
	"net/http"
	"testing"
)

// The trace of a request goes on in its call. Headers that a call cannot carry are left out, and no others are passed on.
func TestTracesGoOn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"none", http.Header{"X": {"y"}}, "map[]"},
		{"all", http.Header{"Traceparent": {"00-1-2-01"}, "Tracestate": {"a=1", "b=2"}, "Baggage": {"c=3"}, "X": {"y"}}, "map[baggage:[c=3] traceparent:[00-1-2-01] tracestate:[a=1,b=2]]"},
		{"one that no call can carry", http.Header{"Traceparent": {"00-1-2-01"}, "Baggage": {"c=\xff"}, "Tracestate": {"a\x01"}}, "map[traceparent:[00-1-2-01]]"},
	} {
		if got := fmt.Sprint(map[string][]string(traced(t.Context(), &http.Request{Header: tt.header}))); got != tt.want {
			t.Errorf("of the headers of %s, %s is passed on, want %s", tt.name, got, tt.want)
		}
	}
}

// So does that of a request for a websocket.
func TestTracesOfSocketsGoOn(t *testing.T) {
	url, _ := socketsOf(t, Limits{}, nil, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header)
	})
	c := opened(t, url+"/v3/watch", http.Header{"Traceparent": {"00-1-2-01"}, "X": {"y"}})
	say(t, c, "{}")
	if got, want := hear(t, c), "map[Traceparent:[00-1-2-01]]"; got != want {
		t.Errorf("the call of a websocket has the headers %s, want %s", got, want)
	}
}
