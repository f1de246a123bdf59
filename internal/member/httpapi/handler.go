package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
)

// A Member is what answers checks.
type Member interface {
	// Versions are those that /version tells.
	Versions() version.Versions
	// Alarms are those that are raised.
	Alarms() []pb.AlarmType
	// HasLeader reports whether a leader is known.
	HasLeader() bool
	// Learner reports whether the member has no vote.
	Learner() bool
	// Probe reads from the state, linearizably or, if serializable, whatever state there is.
	Probe(ctx context.Context, serializable bool) error
}

// An Observer counts checks.
type Observer interface {
	// Health is told of each answer to /health.
	Health(healthy bool)
	// Check is told of each check of a kind: livez or readyz.
	Check(kind, name string, passed bool)
}

// Config says what is served. A nil field is not.
type Config struct {
	Member   Member
	Observer Observer
	// Metrics serves /metrics.
	Metrics http.Handler
	// Gateway is a connection to the member, over which the API in JSON is served.
	Gateway grpc.ClientConnInterface
	Limits  Limits
	// Hosts are those for which requests without TLS may be, and Origins those from which pages
	// in browsers may send them. Empty, or with "*", it is any.
	Hosts, Origins []string
	// Profiles adds /debug/pprof/.
	Profiles bool
	// Users reports whether there are users, so that a client has to be one. Nil means never.
	Users  func() bool
	Logger *slog.Logger
}

// probes serves the paths that a port for metrics has, too.
func probes(c Config) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/health", healthHandler(c))
	serveChecks(mux, c, "livez", livez)
	serveChecks(mux, c, "readyz", readyz)
	if c.Metrics != nil {
		mux.Handle("/metrics", c.Metrics)
	}
	return mux
}

// Probes serves health checks and metrics, without versions, data or profiles.
func Probes(c Config) http.Handler { return probes(c) }

// New serves all of it.
func New(c Config) (http.Handler, error) {
	mux := probes(c)
	if c.Gateway != nil {
		gateway, err := newGateway(c.Gateway, c.Limits, c.Origins)
		if err != nil {
			return nil, err
		}
		mux.Handle("/v3/", gateway)
	}
	if c.Profiles {
		mux.HandleFunc(profilesPath, serveProfiles)
	}
	mux.HandleFunc("/version", func(w http.ResponseWriter, r *http.Request) { serveVersion(w, r, c.Member.Versions()) })
	return guarded(c, mux), nil
}

// gets reports whether a request is a GET, and refuses it otherwise.
func gets(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet {
		return true
	}
	w.Header().Set("Allow", http.MethodGet)
	http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	return false
}
