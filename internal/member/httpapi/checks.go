package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// A check is one of those that an orchestrator asks for.
type check struct {
	name string
	fail func(context.Context, Member) error
}

// livez are the checks that a restart may mend: a member that cannot read its own state.
var livez = []check{{"serializable_read", reads(true)}}

// readyz are the checks of a member that clients should be sent to. The two reads together show
// whether a failure is this member's or the cluster's.
var readyz = []check{
	{"data_corruption", intact},
	{"serializable_read", reads(true)},
	{"linearizable_read", reads(false)},
	{"non_learner", votes},
}

func reads(serializable bool) func(context.Context, Member) error {
	return func(ctx context.Context, m Member) error {
		if err := m.Probe(ctx, serializable); err != nil {
			return errors.New(rpctypes.ErrorDesc(err))
		}
		return nil
	}
}

func intact(_ context.Context, m Member) error {
	if slices.Contains(m.Alarms(), pb.AlarmType_CORRUPT) {
		return fmt.Errorf("alarm activated: %s", pb.AlarmType_CORRUPT)
	}
	return nil
}

func votes(_ context.Context, m Member) error {
	if m.Learner() {
		return errors.New("not supported for learner")
	}
	return nil
}

// serveChecks answers /KIND by all checks but those that ?exclude= names, and /KIND/NAME by one.
func serveChecks(mux *http.ServeMux, c Config, kind string, checks []check) {
	mux.Handle("/"+kind, checksHandler(c, kind, checks, true))
	for _, one := range checks {
		mux.Handle("/"+kind+"/"+one.name, checksHandler(c, kind, []check{one}, false))
	}
}

func checksHandler(c Config, kind string, checks []check, excludable bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !gets(w, r) {
			return
		}
		query := r.URL.Query()
		var report strings.Builder
		passed := true
		for _, one := range checks {
			if excludable && slices.Contains(query["exclude"], one.name) {
				continue
			}
			err := one.fail(r.Context(), c.Member)
			c.Observer.Check(kind, one.name, err == nil)
			if err != nil {
				passed = false
				fmt.Fprintf(&report, "[-]%s failed: %v\n", one.name, err)
			} else {
				fmt.Fprintf(&report, "[+]%s ok\n", one.name)
			}
		}
		if !passed {
			c.Logger.Warn("a check of the member fails", "path", r.URL.Path, "report", report.String())
			http.Error(w, report.String(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if query.Has("verbose") {
			fmt.Fprint(w, report.String())
		}
		fmt.Fprintln(w, "ok")
	})
}
