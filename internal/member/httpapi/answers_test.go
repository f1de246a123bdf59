package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// heard is a connection that notes the calls that come over it.
type heard struct{ calls *[]string }

func (h heard) note(ctx context.Context, method string, req any) {
	body, _ := protojson.Marshal(req.(proto.Message))
	var compact bytes.Buffer
	json.Compact(&compact, body)
	md, _ := metadata.FromOutgoingContext(ctx)
	var of []string
	for _, name := range slices.Sorted(maps.Keys(md)) {
		of = append(of, fmt.Sprintf(" %s=%q", name, md[name]))
	}
	*h.calls = append(*h.calls, fmt.Sprintf("%s %s%s", method, compact.String(), strings.Join(of, "")))
}

func (h heard) Invoke(ctx context.Context, method string, req, resp any, _ ...grpc.CallOption) error {
	h.note(ctx, method, req)
	switch out := resp.(type) {
	case *pb.RangeResponse:
		out.Kvs, out.Count = []*mvccpb.KeyValue{{Key: []byte("k"), ModRevision: 3}}, 1
	case *pb.PutResponse:
		return rpctypes.ErrGRPCNoSpace
	}
	return nil
}

func (h heard) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &heardStream{heard: h, ctx: ctx, method: method, sent: make(chan struct{})}, nil
}

// heardStream ends without an answer when all requests have come.
type heardStream struct {
	grpc.ClientStream
	heard
	ctx    context.Context
	method string
	sent   chan struct{}
}

func (s *heardStream) SendMsg(m any) error        { s.note(s.ctx, s.method, m); return nil }
func (s *heardStream) CloseSend() error           { close(s.sent); return nil }
func (*heardStream) Header() (metadata.MD, error) { return nil, nil }
func (s *heardStream) RecvMsg(any) error          { <-s.sent; return io.EOF }

// toAny are the headers of most answers.
var toAny = http.Header{
	"Access-Control-Allow-Origin": {"*"}, "Access-Control-Allow-Methods": {"POST, GET, OPTIONS, PUT, DELETE"}, "Access-Control-Allow-Headers": {"accept, content-type, authorization"},
}

// An inquiry is a request, the member that it is for, and its configuration.
type inquiry struct {
	name   string // of what is special about it
	method string
	target string
	body   string
	header http.Header
	state  state
	edit   func(*Config)
	tls    *tls.ConnectionState
	only   bool // at a port for metrics
}

// answered returns all that an inquiry brings about: the answer, the calls, the checks that are counted, and what is logged.
func answered(t *testing.T, q inquiry) string {
	t.Helper()
	var logged bytes.Buffer
	var calls []string
	seen := counts{}
	c := Config{
		Member: q.state, Observer: seen, Gateway: heard{&calls}, Profiles: true,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "metrics by", r.Method) }),
		Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
	}
	if q.edit != nil {
		q.edit(&c)
	}
	h := Probes(c)
	if !q.only {
		var err error
		if h, err = New(c); err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequest(q.method, "http://a:1"+q.target, strings.NewReader(q.body))
	maps.Copy(r.Header, q.header)
	r.TLS = q.tls
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)

	var out strings.Builder
	name := q.name
	if w.Header().Get("Access-Control-Allow-Origin") == "*" && len(w.Header()["Access-Control-Allow-Methods"])+len(w.Header()["Access-Control-Allow-Headers"]) == 2 {
		name += ", to pages of any origin"
	}
	if q.only {
		name += " at a port for metrics"
	}
	fmt.Fprintf(&out, "== %s %s %s%s\n%d\n", q.method, q.target, q.body, strings.TrimSuffix(" # "+strings.TrimPrefix(name, ", "), " # "), w.Code)
	for _, key := range slices.Sorted(maps.Keys(w.Header())) {
		if w.Header().Get("Access-Control-Allow-Origin") == "*" && slices.Equal(w.Header()[key], toAny[key]) {
			continue
		}
		fmt.Fprintf(&out, "%s: %q\n", key, w.Header()[key])
	}
	answer := w.Body.Bytes()
	var compact bytes.Buffer
	if json.Compact(&compact, answer) == nil && w.Header().Get("Content-Type") == "application/json" {
		answer = compact.Bytes() // protojson adds spaces at random
	}
	fmt.Fprintf(&out, "%q\n", answer)
	for _, call := range calls {
		fmt.Fprintln(&out, "called", call)
	}
	for _, check := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintln(&out, "counted", check, seen[check])
	}
	out.WriteString(logged.String())
	return out.String()
}

// inquiries are for each path by each method, and then for whatever makes an answer another.
func inquiries() (all []inquiry) {
	paths := []string{"/", "/health", "/livez", "/livez/serializable_read", "/livez/data_corruption", "/metrics", "/version", "/v2/keys", "/v3/", "/v3/kv/range", "/v3beta/kv/range", "/v3alpha/kv/range", profilesPath + "nothing"}
	for _, check := range readyz {
		paths = append(paths, "/readyz/"+check.name)
	}
	for _, path := range append(paths, "/readyz", "/readyz/", "/debug/pprof") {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
			body := ""
			if strings.HasPrefix(path, "/v3") {
				body = "{}"
			}
			all = append(all, inquiry{method: method, target: path, body: body})
		}
		all = append(all, inquiry{method: "GET", target: path, only: true})
	}
	for _, path := range strings.Fields(`kv/range kv/put kv/deleterange kv/txn kv/compaction watch lease/grant lease/revoke kv/lease/revoke lease/keepalive
		lease/timetolive kv/lease/timetolive lease/leases kv/lease/leases cluster/member/add cluster/member/remove cluster/member/update cluster/member/list
		cluster/member/promote maintenance/alarm maintenance/status maintenance/defragment maintenance/hash maintenance/snapshot maintenance/transfer-leadership
		maintenance/downgrade auth/enable auth/disable auth/status auth/authenticate auth/user/add auth/user/get auth/user/list auth/user/delete auth/user/changepw
		auth/user/grant auth/user/revoke auth/role/add auth/role/get auth/role/list auth/role/delete auth/role/grant auth/role/revoke lock/lock lock/unlock
		election/campaign election/proclaim election/leader election/observe election/resign`) {
		all = append(all, inquiry{method: "POST", target: "/v3/" + path, body: "{}"})
	}
	full, corrupt := state{alarms: []pb.AlarmType{pb.AlarmType_NOSPACE}}, state{alarms: []pb.AlarmType{pb.AlarmType_CORRUPT, pb.AlarmType_NOSPACE}}
	blind, late := state{blind: errors.New("blind")}, state{unconfirmed: rpctypes.ErrGRPCTimeout}
	for name, s := range map[string]state{"full": full, "corrupt": corrupt, "another alarm": {alarms: []pb.AlarmType{77}}, "leaderless": {leaderless: true}, "a learner": {learner: true}, "blind": blind, "late": late, "full and leaderless": {alarms: full.alarms, leaderless: true, unconfirmed: late.unconfirmed}, "leaderless and late": {leaderless: true, unconfirmed: late.unconfirmed}} {
		for _, target := range []string{
			"/health", "/health?exclude=NOSPACE", "/health?exclude=NOSPACE&exclude=CORRUPT", "/health?serializable=true", "/health?serializable=1", "/livez", "/livez?verbose", "/livez?exclude=serializable_read",
			"/readyz", "/readyz?verbose", "/readyz?verbose=false&exclude=linearizable_read&exclude=non_learner", "/readyz/serializable_read?verbose", "/readyz/linearizable_read?exclude=linearizable_read", "/readyz/non_learner", "/readyz/data_corruption",
		} {
			all = append(all, inquiry{name: name, method: "GET", target: target, state: s})
		}
	}
	shown := func(names ...string) *tls.ConnectionState {
		var chain []*x509.Certificate
		for _, name := range names {
			chain = append(chain, &x509.Certificate{Subject: pkix.Name{CommonName: name}})
		}
		return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{}, chain}}
	}
	users := func(c *Config) { c.Users = func() bool { return true } }
	mine := func(c *Config) { c.Origins = []string{"http://mine", "http://ours"} }
	from := func(origin string) http.Header { return http.Header{"Origin": {origin}} }
	socket := func(origin string) http.Header {
		return http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"WebSocket"}, "Origin": {origin}}
	}
	limits := func(l Limits) func(*Config) { return func(c *Config) { c.Limits = l } }
	get, post := inquiry{method: "GET", target: "/version"}, inquiry{method: "POST", target: "/v3/kv/range", body: `{"key":"aw==","unknown":1}`}
	with := func(q inquiry, name string, change func(*inquiry)) {
		q.name = name
		change(&q)
		all = append(all, q)
	}
	with(post, "a key and a field that is not known", func(q *inquiry) {})
	with(post, "an error of the member", func(q *inquiry) { q.target = "/v3/kv/put" })
	with(post, "a token and a trace", func(q *inquiry) {
		q.header = http.Header{"Authorization": {"secret.1"}, "Traceparent": {"00-1-2-01"}, "X-Other": {"x"}}
	})
	with(post, "by the old path", func(q *inquiry) { q.target = "/v3beta/kv/range" })
	with(post, "no JSON for a stream", func(q *inquiry) { q.target, q.body = "/v3/watch", "x" })
	with(post, "nothing for a stream", func(q *inquiry) { q.target, q.body = "/v3/lease/keepalive", "" })
	with(post, "a lease to keep", func(q *inquiry) { q.target, q.body = "/v3/lease/keepalive/", `{"ID":7}` })
	for name, edit := range map[string]func(*Config){"users": users, "no users": func(c *Config) { c.Users = func() bool { return false } }, "nobody knows of users": func(c *Config) {}} {
		for of, state := range map[string]*tls.ConnectionState{"no TLS": nil, "no certificate": {}, "a named certificate": shown("root", ""), "a certificate without a name": shown("", "the authority")} {
			with(post, name+", "+of, func(q *inquiry) { q.edit, q.tls = edit, state })
			with(get, name+", "+of, func(q *inquiry) { q.edit, q.tls = edit, state })
		}
	}
	for _, origin := range []string{"http://mine", "http://ours", "http://others", "*", ""} {
		with(get, "from "+origin, func(q *inquiry) { q.edit, q.header = mine, from(origin) })
		with(get, "from "+origin+" beforehand", func(q *inquiry) { q.method, q.edit, q.header = "OPTIONS", mine, from(origin) })
		with(get, "from "+origin+", permitted any", func(q *inquiry) {
			q.edit, q.header = func(c *Config) { c.Origins = []string{"http://mine", "*"} }, from(origin)
		})
	}
	with(get, "a websocket from elsewhere", func(q *inquiry) { q.target, q.edit, q.header = "/v3/watch", mine, socket("http://others") })
	with(get, "a websocket elsewhere", func(q *inquiry) { q.header = socket("http://mine") })
	with(get, "a host that is not whitelisted", func(q *inquiry) { q.edit = func(c *Config) { c.Hosts = []string{"b", "c"} } })
	with(get, "a host that is not whitelisted, with TLS", func(q *inquiry) {
		q.edit, q.tls = func(c *Config) { c.Hosts = []string{"b", "c"} }, &tls.ConnectionState{}
	})
	with(get, "a host that is whitelisted", func(q *inquiry) { q.edit = func(c *Config) { c.Hosts = []string{"b", "a"} } })
	with(get, "a host at a port for metrics", func(q *inquiry) {
		q.target, q.only, q.edit = "/livez", true, func(c *Config) { c.Hosts = []string{"b"} }
	})
	with(post, "a body of the bound", func(q *inquiry) { q.edit = limits(Limits{BodyBytes: int64(len(q.body))}) })
	with(post, "a body beyond the bound", func(q *inquiry) { q.edit = limits(Limits{BodyBytes: int64(len(q.body)) - 1}) })
	with(post, "no room for bodies", func(q *inquiry) { q.edit = limits(Limits{BodiesBytes: part - 1}) })
	with(post, "room for one body", func(q *inquiry) { q.edit = limits(Limits{BodiesBytes: part}) })
	with(post, "one call at a time", func(q *inquiry) { q.edit = limits(Limits{Calls: 1}) })
	with(get, "no metrics", func(q *inquiry) { q.target, q.edit = "/metrics", func(c *Config) { c.Metrics = nil } })
	with(post, "no gateway", func(q *inquiry) { q.edit = func(c *Config) { c.Gateway = nil } })
	with(get, "no profiles", func(q *inquiry) { q.target, q.edit = profilesPath, func(c *Config) { c.Profiles = false } })
	for _, target := range []string{"profile?seconds=0", "profile?seconds=301", "trace?seconds=301", "trace?seconds=-1", "profile?seconds=1.5", "a%22b"} {
		with(get, "", func(q *inquiry) { q.target = profilesPath + target })
	}
	slices.SortFunc(all, func(a, b inquiry) int {
		return strings.Compare(a.target+" "+a.method+" "+a.name+fmt.Sprint(a.only, a.state), b.target+" "+b.method+" "+b.name+fmt.Sprint(b.only, b.state))
	})
	return all
}

// All that is answered: path by path, with status, headers and body, and what else comes of it. `-rewrite` writes it anew.
func TestAnswers(t *testing.T) {
	const file = "testdata/answers.txt"
	var got []string
	for _, q := range inquiries() {
		got = append(got, answered(t, q))
	}
	want := strings.Split(golden.Kept(t, file, strings.Join(got, "\n")), "\n==")
	if len(got) != len(want) {
		t.Fatalf("there are %d answers in %s to %d inquiries", len(want), file, len(got))
	}
	for i := range want {
		if w := "== " + strings.TrimSpace(strings.TrimPrefix(want[i], "==")); strings.TrimSpace(got[i]) != w {
			t.Errorf("the answer is\n%s\nwant\n%s", got[i], w)
		}
	}
}
