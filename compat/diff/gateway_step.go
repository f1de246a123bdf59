package diff

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// paths are where the gateway has the methods that random steps call.
var paths = map[string]string{
	methodRange: "/v3/kv/range", methodPut: "/v3/kv/put", methodDeleteRange: "/v3/kv/deleterange", methodTxn: "/v3/kv/txn",
	methodCompact: "/v3/kv/compaction", methodGrant: "/v3/lease/grant", methodRevoke: "/v3/lease/revoke",
	methodTimeToLive: "/v3/lease/timetolive", methodLeases: "/v3/lease/leases", methodKeepAlive: "/v3/lease/keepalive",
}

// bodyOf is a request in JSON, in one of the forms that mean the same.
func bodyOf(r *rand.Rand, req proto.Message) string {
	body, err := protojson.MarshalOptions{UseProtoNames: r.IntN(2) == 0, UseEnumNumbers: r.IntN(4) == 0, EmitUnpopulated: r.IntN(6) == 0}.Marshal(req)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// bent is a body as clients get it wrong.
func bent(r *rand.Rand, body string) string {
	var fields map[string]any
	if json.Unmarshal([]byte(body), &fields) != nil || fields == nil {
		fields = map[string]any{}
	}
	with := func(name string, value any) string {
		fields[name] = value
		text, err := json.Marshal(fields)
		if err != nil {
			panic(err)
		}
		return string(text)
	}
	switch r.IntN(16) {
	case 0:
		return ""
	case 1:
		return "null"
	case 2:
		return "[]"
	case 3:
		return body[:len(body)/2]
	case 4:
		return body + " trailing"
	case 5:
		return body + body
	case 6:
		return with("unknown", map[string]any{"of": "etcd's"})
	case 7:
		return with("key", "not base64!")
	case 8:
		return with("key", 5)
	case 9:
		return with("revision", "x")
	case 10:
		return with("limit", 1.5)
	case 11:
		return with("sort_order", "SIDEWAYS")
	case 12:
		return with("serializable", "true")
	case 13:
		return with("TTL", 70)
	case 14:
		return with("key", "Zm9v") + "\n"
	}
	return `{"key":"YQ","key":"Yg=="}`
}

// A webStep is a request of HTTP.
type webStep struct{ verb, path, body string }

func (s webStep) String() string {
	body := s.body
	if len(body) > 1000 {
		body = body[:1000]
	}
	return fmt.Sprintf("%s %s %s", s.verb, s.path, body)
}

// plainPaths are those beside the gateway, with what probes ask.
var plainPaths = []string{
	"/version", "/version/", "/health", "/health?serializable=true", "/health?exclude=NOSPACE", "/health?exclude=NOSPACE&exclude=CORRUPT",
	"/livez", "/livez?verbose", "/livez?exclude=serializable_read&verbose", "/livez/serializable_read", "/livez/x",
	"/readyz", "/readyz?verbose", "/readyz?exclude=data_corruption&verbose", "/readyz/data_corruption", "/readyz/linearizable_read",
	"/readyz/serializable_read", "/readyz/non_learner", "/readyz/serializable_read?verbose", "/readyz?exclude=none&verbose", "/", "/x", "/v2/keys", "/v3", "/v3/", "/v3/kv", "/v3/x",
	"/v3/kv/range/", "/v3alpha/kv/range", "/v3beta/kv/range", "/v3//kv/range", "/debug/pprof/", "/debug/vars", "/config/local/log",
}

// odd is a request that no client should make, or a probe.
func odd(r *rand.Rand) webStep {
	verb := []string{"GET", "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"}[r.IntN(8)]
	path := plainPaths[r.IntN(len(plainPaths))]
	body := ""
	if strings.HasPrefix(path, "/v3") && r.IntN(2) == 0 {
		body = `{"key":"YQ=="}`
	}
	return webStep{verb, path, body}
}
