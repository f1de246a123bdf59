package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// health is the answer to /health. Tools read "true" and "false" as strings.
type health struct {
	Health string `json:"health"`
	Reason string `json:"reason"`
}

// healthHandler answers /health. With ?exclude=ALARM an alarm does not count, and with
// ?serializable=true only this member does.
func healthHandler(c Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !gets(w, r) {
			return
		}
		query := r.URL.Query()
		reason := unhealthy(r.Context(), c.Member, query["exclude"], query.Get("serializable") == "true")
		c.Observer.Health(reason == "")
		answer, status := health{Health: "true"}, http.StatusOK
		if reason != "" {
			answer, status = health{Health: "false", Reason: reason}, http.StatusServiceUnavailable
			c.Logger.Warn("the member is not healthy", "reason", reason)
		}
		body, err := json.Marshal(answer)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if status != http.StatusOK {
			http.Error(w, string(body), status)
			return
		}
		w.Write(body)
	})
}

// unhealthy returns the reason why a member cannot serve, or nothing.
func unhealthy(ctx context.Context, m Member, excluded []string, serializable bool) (reason string) {
	for _, alarm := range m.Alarms() {
		if !slices.Contains(excluded, alarm.String()) {
			return "ALARM " + alarmName(alarm)
		}
	}
	if !serializable && !m.HasLeader() {
		return "RAFT NO LEADER"
	}
	if err := m.Probe(ctx, serializable); err != nil {
		return "RANGE ERROR:" + rpctypes.ErrorDesc(err)
	}
	return ""
}

func alarmName(alarm pb.AlarmType) string {
	switch alarm {
	case pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT:
		return alarm.String()
	}
	return "UNKNOWN"
}
