package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// request is one that both servers are sent.
type request struct{ method, path, body string }

func get(path string) request        { return request{http.MethodGet, path, ""} }
func post(path, body string) request { return request{http.MethodPost, path, body} }

var requests = []request{
	get("/version"), get("/health"), get("/health?serializable=true"), get("/health?exclude=NOSPACE"),
	get("/livez"), get("/livez?verbose"), get("/livez/serializable_read?verbose"), get("/livez/nothing"), get("/livez?exclude=serializable_read&verbose"),
	get("/readyz"), get("/readyz?verbose"), get("/readyz/non_learner"), get("/readyz/data_corruption?verbose"), get("/readyz/linearizable_read?exclude=linearizable_read&verbose"),
	get("/readyz?exclude=nothing"), get("/"), get("/nothing"), get("/v3/"), get("/v3/kv/range"), get("/debug/pprof/"),
	post("/health", ""), post("/version", ""), post("/livez", ""),
	{http.MethodOptions, "/v3/kv/range", ""}, {http.MethodPut, "/v3/kv/range", "{}"}, {http.MethodHead, "/health", ""},

	post("/v3/kv/put", `{"key":"Zm9v","value":"YmFy"}`),
	post("/v3/kv/range", `{"key":"Zm9v"}`), post("/v3beta/kv/range", `{"key":"Zm9v"}`), post("/v3/kv/range", `{"key":"Zm9v","serializable":true,"keys_only":true}`),
	post("/v3/kv/range", `{"key":"YQ==","range_end":"eg==","limit":"1","unknown":{"a":[1]}}`), post("/v3/kv/range", `{"key":"Zm9v","revision":1}`), post("/v3/kv/range", `{"key":"Zm9v","revision":"77"}`),
	post("/v3/kv/range", ``), post("/v3/kv/range", `{}`), post("/v3/kv/range", `{"key":`), post("/v3/kv/range", `{"key":5}`), post("/v3/kv/range", `[1,2]`), post("/v3/kv/range/x", `{}`), post("/v3/nothing", `{}`),
	post("/v3/kv/txn", `{"compare":[{"result":"EQUAL","target":"VERSION","key":"Zm9v","version":"1"}],"success":[{"request_put":{"key":"Zm9v","value":"Yg=="}},{"request_range":{"key":"Zm9v"}}],"failure":[{"request_txn":{}}]}`),
	post("/v3/kv/txn", `{"compare":[{"result":"EQUAL","target":"VERSION","key":"Zm9v","version":"9"}],"failure":[{"request_txn":{"success":[{"request_range":{"key":"Zm9v"}}]}}]}`),
	post("/v3/lease/grant", `{"TTL":"30","ID":"77"}`), post("/v3/lease/grant", `{"TTL":30,"ID":77}`), post("/v3/lease/keepalive", `{"ID":"77"}`), post("/v3/lease/keepalive", `{"ID":"78"}`),
	post("/v3/kv/put", `{"key":"bA==","lease":"77"}`), post("/v3/lease/timetolive", `{"ID":"78"}`), post("/v3/lease/leases", `{}`), post("/v3/lease/revoke", `{"ID":"77"}`), post("/v3/lease/revoke", `{"ID":"77"}`),
	post("/v3/kv/deleterange", `{"key":"Zm9v","prev_kv":true}`), post("/v3/kv/compaction", `{"revision":"3"}`), post("/v3/kv/range", `{"key":"Zm9v","revision":"2"}`),
	post("/v3/cluster/member/list", `{"linearizable":true}`), post("/v3/maintenance/alarm", `{}`), post("/v3/maintenance/defragment", `{}`),
	post("/v3/kv/put", `{"key":"Zm9v","value":"`+strings.Repeat("A", 3_000_000)+`"}`),
}

// changing are parts of answers that differ between any two servers.
var changing = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`"(cluster_id|member_id|raft_term|ID)":"\d{4,}"`), `"$1":"…"`},
	{regexp.MustCompile(`"raft_term":"\d+"`), `"raft_term":"…"`},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), `127.0.0.1:…`},
	{regexp.MustCompile(`message larger than max \(\d+ vs`), `message larger than max (… vs`},
}

// known are differences that are meant: what of headers etcd leaves out.
var known = map[string]*regexp.Regexp{
	"/v3/cluster/member/list":    regexp.MustCompile(`,"revision":"\d+"`),
	"/v3/maintenance/alarm":      regexp.MustCompile(`,"revision":"\d+"`),
	"/v3/maintenance/defragment": regexp.MustCompile(`"header":\{[^}]*\}`),
}

func normal(path, body string) string {
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(body)) == nil { // protojson adds blanks as it likes
		body = compact.String()
	}
	body = strings.ReplaceAll(body, "\u00a0", " ") // which protobuf's errors have, as they like, too
	for _, c := range changing {
		body = c.from.ReplaceAllString(body, c.to)
	}
	if strings.HasPrefix(body, "[") && strings.Contains(body, "\n") { // etcd's checks come in no order
		lines := strings.Split(body, "\n")
		slices.Sort(lines)
		body = strings.Join(lines, "\n")
	}
	if more := known[path]; more != nil {
		body = more.ReplaceAllString(body, "")
	}
	return body
}

// ask returns what of an answer has to be alike.
func ask(ctx context.Context, t *testing.T, endpoint string, r request) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, r.method, "http://"+endpoint+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	headers := ""
	for _, name := range []string{"Content-Type", "Allow", "X-Content-Type-Options", "Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Grpc-Metadata-Content-Type"} {
		headers += fmt.Sprintf("%s: %q\n", name, resp.Header[name])
	}
	return fmt.Sprintf("%d\n%s%s", resp.StatusCode, headers, normal(r.path, string(body)))
}

func start(t *testing.T, kind server.Kind) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := server.Start(ctx, server.Config{Kind: kind, Members: 1, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c.Members[0].Endpoint
}

// TestAnswersAreAlike sends the same requests to both servers, in the same order.
func TestAnswersAreAlike(t *testing.T) {
	subject := server.Tenure
	if !server.Has(server.Tenure) {
		subject = server.Etcd // checks the test itself: two etcds must agree
	}
	stock, tested := start(t, server.Etcd), start(t, subject)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, r := range requests {
		want, got := ask(ctx, t, stock, r), ask(ctx, t, tested, r)
		if got != want {
			t.Errorf("%s %s %.100s\nanswer: %s\netcd's: %s", r.method, r.path, r.body, got, want)
		}
	}
}

// TestStreamsAreAlike watches at both, over a connection that goes on.
func TestStreamsAreAlike(t *testing.T) {
	var told []string
	for _, kind := range []server.Kind{server.Etcd, server.Tenure} {
		endpoint := start(t, kind)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ask(ctx, t, endpoint, post("/v3/kv/put", `{"key":"Zm9v","value":"YQ=="}`))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+endpoint+"/v3/watch", strings.NewReader(`{"create_request":{"key":"Zm9v","start_revision":"2","prev_kv":true}}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		read := func() string {
			line := make([]byte, 0, 1000)
			for b := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; line = append(line, b[0]) {
				if _, err := io.ReadFull(resp.Body, b); err != nil {
					t.Fatalf("%s: after %q: %v", kind, line, err)
				}
			}
			return normal("", string(line))
		}
		lines := read() + read()
		ask(ctx, t, endpoint, post("/v3/kv/deleterange", `{"key":"Zm9v"}`))
		told = append(told, fmt.Sprintf("%v\n%s", resp.Header["Content-Type"], lines+read()))
	}
	if told[0] != told[1] {
		t.Errorf("a watch at Tenure: %s\nat etcd: %s", told[1], told[0])
	}
}

// names returns the families of metrics that begin so, with their types.
func names(ctx context.Context, t *testing.T, endpoint string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(ask(ctx, t, endpoint, get("/metrics"))) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" {
			out[f[2]] = f[3]
		}
	}
	return out
}

// TestMetricsOfTheSameName have the same type at both.
func TestMetricsOfTheSameName(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stock, tested := names(ctx, t, start(t, server.Etcd)), names(ctx, t, start(t, server.Tenure))
	same := 0
	for name, kind := range tested {
		switch of := stock[name]; {
		case of == kind:
			same++
		case of != "":
			t.Errorf("%s is a %s here and a %s in etcd", name, kind, of)
		case name == "etcd_network_server_stream_failures_total": // etcd has it from the first failure on
		case strings.HasPrefix(name, "etcd_") && name != "etcd_server_is_learner" && !strings.HasPrefix(name, "etcd_network_peer") && name != "etcd_network_active_peers" && !strings.HasPrefix(name, "etcd_server_healthcheck"):
			t.Errorf("etcd has no %s", name)
		}
	}
	if same < 30 {
		t.Errorf("%d figures have etcd's names, want 30 at least", same)
	}
}
