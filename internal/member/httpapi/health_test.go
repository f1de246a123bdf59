package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
)

// state is a member as a test wants it.
type state struct {
	alarms             []pb.AlarmType
	leaderless         bool
	learner            bool
	blind, unconfirmed error // of serializable and of linearizable reads
}

func (state) Versions() version.Versions {
	return version.Versions{Server: "3.7.3", Cluster: "3.7.0", Storage: "3.7.0"}
}
func (s state) Alarms() []pb.AlarmType { return s.alarms }
func (s state) HasLeader() bool        { return !s.leaderless }
func (s state) Learner() bool          { return s.learner }
func (s state) Probe(_ context.Context, serializable bool) error {
	if serializable {
		return s.blind
	}
	return s.unconfirmed
}

// counts are the checks that were counted.
type counts map[string]int

func (c counts) Health(healthy bool) { c[fmt.Sprint("health ", healthy)]++ }
func (c counts) Check(kind, name string, passed bool) {
	c[fmt.Sprint(kind, " ", name, " ", passed)]++
}

func ask(s state, method, target string) (*httptest.ResponseRecorder, counts) {
	seen := counts{}
	w := httptest.NewRecorder()
	h, err := New(Config{Member: s, Observer: seen, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w, seen
}

// Probes are answered with etcd's texts and statuses.
func TestProbes(t *testing.T) {
	const ok, livezOK = "ok\n", "[+]serializable_read ok\nok\n"
	full, corrupt := state{alarms: []pb.AlarmType{pb.AlarmType_NOSPACE}}, state{alarms: []pb.AlarmType{pb.AlarmType_CORRUPT}}
	late := state{unconfirmed: rpctypes.ErrGRPCTimeout}
	for _, c := range []struct {
		state  state
		path   string
		status int
		body   string
	}{
		{state{}, "/version", 200, `{"etcdserver":"3.7.3","etcdcluster":"3.7.0","storage":"3.7.0"}`},
		{state{}, "/health", 200, `{"health":"true","reason":""}`},
		{full, "/health", 503, `{"health":"false","reason":"ALARM NOSPACE"}` + "\n"},
		{corrupt, "/health", 503, `{"health":"false","reason":"ALARM CORRUPT"}` + "\n"},
		{state{alarms: []pb.AlarmType{77}}, "/health", 503, `{"health":"false","reason":"ALARM UNKNOWN"}` + "\n"},
		{full, "/health?exclude=NOSPACE", 200, `{"health":"true","reason":""}`},
		{full, "/health?exclude=CORRUPT&exclude=NOSPACE", 200, `{"health":"true","reason":""}`},
		{full, "/health?exclude=CORRUPT", 503, `{"health":"false","reason":"ALARM NOSPACE"}` + "\n"},
		{state{leaderless: true}, "/health", 503, `{"health":"false","reason":"RAFT NO LEADER"}` + "\n"},
		{state{leaderless: true}, "/health?serializable=true", 200, `{"health":"true","reason":""}`},
		{late, "/health", 503, `{"health":"false","reason":"RANGE ERROR:etcdserver: request timed out"}` + "\n"},
		{late, "/health?serializable=true", 200, `{"health":"true","reason":""}`},
		{state{}, "/livez", 200, ok},
		{state{}, "/livez?verbose", 200, livezOK},
		{state{}, "/livez?exclude=serializable_read&verbose", 200, ok},
		{late, "/livez", 200, ok},
		{state{blind: errors.New("blind")}, "/livez", 503, "[-]serializable_read failed: blind\n\n"},
		{state{blind: errors.New("blind")}, "/livez/serializable_read", 503, "[-]serializable_read failed: blind\n\n"},
		{state{}, "/readyz", 200, ok},
		{state{}, "/readyz?verbose", 200, "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n[+]non_learner ok\nok\n"},
		{state{learner: true}, "/readyz", 503, "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n[-]non_learner failed: not supported for learner\n\n"},
		{state{learner: true}, "/readyz?exclude=non_learner", 200, ok},
		{state{learner: true}, "/readyz?exclude=nothing&exclude=non_learner&verbose", 200, "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\nok\n"},
		{corrupt, "/readyz/data_corruption", 503, "[-]data_corruption failed: alarm activated: CORRUPT\n\n"},
		{full, "/readyz", 200, ok},
		{late, "/readyz/linearizable_read?verbose", 503, "[-]linearizable_read failed: etcdserver: request timed out\n\n"},
		{late, "/readyz/linearizable_read?exclude=linearizable_read", 503, "[-]linearizable_read failed: etcdserver: request timed out\n\n"},
		{late, "/readyz/serializable_read?verbose", 200, livezOK},
		{state{}, "/readyz/nothing", 404, "404 page not found\n"},
		{state{}, "/metrics", 404, "404 page not found\n"},
	} {
		w, _ := ask(c.state, http.MethodGet, c.path)
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s of %+v: %d %q, want %d %q", c.path, c.state, w.Code, w.Body, c.status, c.body)
		}
	}
}

// Probes are asked for by GET only.
func TestProbesAreReadOnly(t *testing.T) {
	for _, path := range []string{"/version", "/health", "/livez", "/readyz/non_learner"} {
		for _, method := range []string{http.MethodPost, http.MethodHead} {
			if w, _ := ask(state{}, method, path); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" {
				t.Errorf("%s %s: %d, allowed %q, want 405 and GET", method, path, w.Code, w.Header().Get("Allow"))
			}
		}
	}
}

// Each check is counted, with its outcome.
func TestChecksAreCounted(t *testing.T) {
	for path, want := range map[string]counts{
		"/health":                         {"health false": 1},
		"/health?serializable=true":       {"health true": 1},
		"/livez":                          {"livez serializable_read true": 1},
		"/readyz/linearizable_read":       {"readyz linearizable_read false": 1},
		"/readyz?exclude=data_corruption": {"readyz serializable_read true": 1, "readyz linearizable_read false": 1, "readyz non_learner true": 1},
	} {
		if _, got := ask(state{unconfirmed: errors.New("late")}, http.MethodGet, path); !maps.Equal(got, want) {
			t.Errorf("%s is counted as %v, want %v", path, got, want)
		}
	}
}

// Types of content are etcd's: tools read them.
func TestTypesOfContent(t *testing.T) {
	for path, want := range map[string]string{"/version": "application/json", "/livez": "text/plain; charset=utf-8"} {
		if w, _ := ask(state{}, http.MethodGet, path); w.Header().Get("Content-Type") != want {
			t.Errorf("%s is of type %q, want %q", path, w.Header().Get("Content-Type"), want)
		}
	}
}
