package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
)

// object is JSON, read as clients in other languages do.
type object = map[string]any

// gatewayClient is a client of the gateway.
type gatewayClient struct {
	t    *testing.T
	base string
	http *http.Client
}

func gatewayOf(t *testing.T, endpoint string) gatewayClient {
	t.Helper()
	return gatewayClient{t, "http://" + endpoint, webClient(t, func(p *http.Protocols) { p.SetHTTP1(true) })}
}

// post makes a call and returns its status and the first value of the answer.
func (g gatewayClient) post(path, body string) (int, object) {
	g.t.Helper()
	r, err := g.http.Post(g.base+path, "application/json", strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	var out object
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
		g.t.Fatalf("%s %.80s: %d, %v", path, body, r.StatusCode, err)
	}
	return r.StatusCode, out
}

// want makes a call that has to succeed.
func (g gatewayClient) want(path, body string) object {
	g.t.Helper()
	status, out := g.post(path, body)
	if status != http.StatusOK {
		g.t.Fatalf("%s %.80s: %d %v", path, body, status, out)
	}
	return out
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// Patroni speaks to a member as it does to etcd: by JSON, with numbers of 64 bits as strings.
func TestPatronisCalls(t *testing.T) {
	_, endpoints := start(t, 1)
	g := gatewayOf(t, endpoints[0])
	_, body := get(t, g.http, g.base+"/version")
	var versions struct{ Etcdserver, Etcdcluster string }
	if err := json.Unmarshal([]byte(body), &versions); err != nil || !strings.HasPrefix(versions.Etcdserver, "3.") || !strings.HasPrefix(versions.Etcdcluster, "3.") {
		t.Errorf("versions %q, %v", body, err)
	}
	members := g.want("/v3/cluster/member/list", "{}")["members"].([]any)
	if urls := members[0].(object)["clientURLs"].([]any); urls[0] != g.base {
		t.Errorf("members %v, want one at %s", members, g.base)
	}
	lease, ok := g.want("/v3/lease/grant", `{"TTL": 30}`)["ID"].(string)
	if !ok {
		t.Error("a lease's ID is no string")
	}
	if ttl := g.want("/v3/lease/keepalive", `{"ID":"`+lease+`"}`)["result"].(object)["TTL"]; ttl != "30" {
		t.Errorf("a renewed lease has TTL %v, want the string 30", ttl)
	}
	if gone := g.want("/v3/lease/keepalive", `{"ID":"77"}`)["result"].(object); gone["TTL"] != nil {
		t.Errorf("a renewal of no lease: %v, want no TTL", gone)
	}
	key, leader := b64("/service/pg/leader"), b64("node-a")
	race := `{"compare":[{"target":"CREATE","result":"EQUAL","create_revision":"0","key":"` + key + `"}],
		"success":[{"request_put":{"key":"` + key + `","value":"` + leader + `","lease":"` + lease + `"}}],
		"failure":[{"request_txn":{"compare":[{"target":"VALUE","result":"EQUAL","value":"` + leader + `","key":"` + key + `"}],
			"success":[{"request_range":{"key":"` + key + `"}}]}}]}`
	if won := g.want("/v3/kv/txn", race); won["succeeded"] != true {
		t.Errorf("the first to race for a key: %v, want success", won)
	}
	lost := g.want("/v3/kv/txn", race)
	nested := lost["responses"].([]any)[0].(object)["response_txn"].(object)
	if lost["succeeded"] == true || nested["succeeded"] != true {
		t.Errorf("the second to race: %v, want the nested one to succeed", lost)
	}
	kv := g.want("/v3/kv/range", `{"key":"`+key+`","serializable":true}`)["kvs"].([]any)[0].(object)
	if kv["value"] != leader || kv["lease"] != lease || kv["mod_revision"] != "2" {
		t.Errorf("the key is %v, want the leader under its lease at revision 2", kv)
	}
	watch := g.stream("/v3/watch", `{"create_request":{"key":"`+b64("/service/pg/")+`","range_end":"`+b64("/service/pg0")+`","start_revision":"3"}}`)
	if first := watch.next(); first["result"].(object)["created"] != true {
		t.Errorf("a watch begins with %v, want that it is created", first)
	}
	g.want("/v3/kv/put", `{"key":"`+b64("/service/pg/config")+`","value":"`+b64("{}")+`"}`)
	g.want("/v3/kv/deleterange", `{"key":"`+key+`"}`)
	put, del := watch.event(), watch.event()
	if put["type"] != nil || put["kv"].(object)["mod_revision"] != "3" || del["type"] != "DELETE" {
		t.Errorf("events %v and %v, want a put, whose type is left out, and a deletion", put, del)
	}
	if status, out := g.post("/v3/auth/authenticate", `{"name":"a","password":"b"}`); status == http.StatusOK || out["code"] == nil || out["message"] == nil {
		t.Errorf("without users: %d %v, want an error with its code", status, out)
	}
	if status, out := g.post("/v3/lease/revoke", `{"ID":"77"}`); status != http.StatusNotFound || out["code"] != 5.0 || out["message"] != "etcdserver: requested lease not found" {
		t.Errorf("a revocation of no lease: %d %v, want etcd's error", status, out)
	}
}

// lines is a stream of values, one a line.
type answersOf struct {
	t    *testing.T
	scan *bufio.Scanner
	held []any
}

func (g gatewayClient) stream(path, body string) *answersOf {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	g.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r, err := g.http.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { r.Body.Close() })
	return &answersOf{t: g.t, scan: bufio.NewScanner(r.Body)}
}

func (a *answersOf) next() (out object) {
	a.t.Helper()
	if !a.scan.Scan() {
		a.t.Fatalf("the stream has ended: %v", a.scan.Err())
	}
	if err := json.Unmarshal(a.scan.Bytes(), &out); err != nil {
		a.t.Fatal(err)
	}
	return out
}

func (a *answersOf) event() object {
	a.t.Helper()
	for len(a.held) == 0 {
		a.held, _ = a.next()["result"].(object)["events"].([]any)
	}
	e := a.held[0].(object)
	a.held = a.held[1:]
	return e
}

// Locks and elections are there, too, and their streams.
func TestElectionsByJSON(t *testing.T) {
	_, endpoints := start(t, 1)
	g := gatewayOf(t, endpoints[0])
	lease := g.want("/v3/lease/grant", `{"TTL":"30"}`)["ID"].(string)
	key := g.want("/v3/lock/lock", `{"name":"`+b64("l")+`","lease":"`+lease+`"}`)["key"].(string)
	g.want("/v3/lock/unlock", `{"key":"`+key+`"}`)
	g.want("/v3/election/campaign", `{"name":"`+b64("e")+`","lease":"`+lease+`","value":"`+b64("me")+`"}`)
	if led := g.stream("/v3/election/observe", `{"name":"`+b64("e")+`"}`).next()["result"].(object)["kv"].(object); led["value"] != b64("me") {
		t.Errorf("the leader is %v, want me", led)
	}
}

// Whatever is no call is answered, with an error, and soon.
func TestJunkIsAnswered(t *testing.T) {
	_, endpoints := start(t, 1)
	g := gatewayOf(t, endpoints[0])
	for _, c := range []struct {
		path, body string
		status     int
		code       codes.Code
	}{
		{"/v3/kv/range", `{"key":`, 400, codes.InvalidArgument},
		{"/v3/kv/range", `{"key":5}`, 400, codes.InvalidArgument},
		{"/v3/kv/range", `[1,2]`, 400, codes.InvalidArgument},
		{"/v3/kv/range", ``, 400, codes.InvalidArgument},
		{"/v3/kv/range", strings.Repeat("[", 1<<20), 400, codes.InvalidArgument},
		{"/v3/kv/range/x", `{}`, 404, codes.NotFound},
		{"/v3/nothing", `{}`, 404, codes.NotFound},
		{"/v3/watch", `xxx`, 400, codes.InvalidArgument},
		{"/v3/watch", `{"create_request":5}`, 400, codes.InvalidArgument},
		{"/v3/watch", `{"create_request":{"key":"` + strings.Repeat("A", 5<<20) + `"}}`, 429, codes.ResourceExhausted},
		{"/v3/lease/keepalive", `{"ID":"x"}`, 400, codes.InvalidArgument},
		{"/v3/kv/put", `{"key":"Zm9v","value":"` + strings.Repeat("A", 3_000_000) + `"}`, 429, codes.ResourceExhausted},
		{"/v3/kv/put", `{"key":"Zm9v","value":"` + strings.Repeat("A", 6<<20) + `"}`, 429, codes.ResourceExhausted},
	} {
		if status, out := g.post(c.path, c.body); status != c.status || out["code"] != float64(c.code) || out["message"] == nil {
			t.Errorf("%s %.40q: %d %v, want %d and code %d", c.path, c.body, status, out, c.status, c.code)
		}
	}
}

// A client may go on to send on a stream: it watches more, while it is answered.
func TestAStreamOfRequests(t *testing.T) {
	_, endpoints := start(t, 1)
	c := silent(t, endpoints[0])
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "POST /v3/watch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	send := func(s string) { fmt.Fprintf(c, "%x\r\n%s\r\n", len(s), s) }
	read := bufio.NewReader(c)
	for i, key := range []string{"a", "b"} {
		send(`{"create_request":{"key":"` + b64(key) + `","watch_id":"` + fmt.Sprint(i+5) + `"}}`)
		for {
			line, err := read.ReadString('\n')
			if err != nil {
				t.Fatalf("the answer to request %d of a stream: %v", i, err)
			}
			if strings.Contains(line, fmt.Sprintf(`"watch_id":"%d"`, i+5)) {
				break
			}
		}
	}
}

// Without the gateway there is no JSON.
func TestAMemberWithoutAGateway(t *testing.T) {
	_, endpoints := startWith(t, 1, func(c *Config) { c.HTTP.NoGateway = true })
	r, err := http.Post("http://"+endpoints[0]+"/v3/kv/range", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer r.Body.Close()
	if body, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusNotFound || bytes.Contains(body, []byte("{")) {
		t.Errorf("a call by JSON without the gateway: %d %q, want 404", r.StatusCode, body)
	}
}

// Streams by JSON end when the member leaves, so that they do not hold it up.
func TestStreamsByJSONEndWithTheMember(t *testing.T) {
	servers, endpoints := start(t, 1)
	watch := gatewayOf(t, endpoints[0]).stream("/v3/watch", `{"create_request":{"key":"Zm9v"}}`)
	watch.next()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	left := make(chan struct{})
	go func() {
		servers[0].Shutdown(ctx)
		close(left)
	}()
	if last := watch.next()["error"]; last == nil || !strings.Contains(fmt.Sprint(last), "server stopped") {
		t.Errorf("the stream ends with %v, want that the server stops", last)
	}
	if <-left; ctx.Err() != nil {
		t.Error("a stream by JSON held the shutdown up")
	}
}

// The figures at /metrics are the member's.
func TestMetricsAreTheMembers(t *testing.T) {
	metrics := listen(t)
	_, endpoints := startWith(t, 1, func(c *Config) { c.Metrics, c.API.QuotaBytes = []net.Listener{metrics}, 1<<20 })
	g := gatewayOf(t, endpoints[0])
	g.want("/v3/kv/put", `{"key":"Zm9v"}`)
	for _, at := range []string{endpoints[0], metrics.Addr().String()} {
		_, body := get(t, g.http, "http://"+at+"/metrics")
		for _, line := range []string{
			"etcd_server_has_leader 1\n", "etcd_server_is_leader 1\n", "etcd_debugging_mvcc_keys_total 1\n", "etcd_mvcc_put_total 1\n",
			`etcd_server_client_requests_total{client_api_version="unknown",type="unary"} 1` + "\n", "etcd_server_quota_backend_bytes 1.048576e+06\n",
			`grpc_server_handled_total{grpc_code="OK",grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"} 1` + "\n",
		} {
			if !strings.Contains(body, line) {
				t.Errorf("the figures at %s lack %q", at, line)
			}
		}
		for _, none := range []string{"etcd_disk_wal_fsync_duration_seconds_count 0\n", "etcd_network_client_grpc_received_bytes_total 0\n", "etcd_network_client_grpc_sent_bytes_total 0\n"} {
			if strings.Contains(body, none) {
				t.Errorf("after a put there is %q", none)
			}
		}
	}
}

// A server that has stopped answers no more calls by HTTP: nothing of it goes on.
func TestStopWaitsForCallsByHTTP(t *testing.T) {
	come, ended := make(chan struct{}), make(chan struct{})
	w := newWeb(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(come)
		<-r.Context().Done()
		time.Sleep(50 * time.Millisecond)
		close(ended)
	}), nil, time.Minute, 0, slog.New(slog.DiscardHandler))
	go w.serve()
	here, there := net.Pipe()
	defer there.Close()
	go io.Copy(io.Discard, there)
	go io.WriteString(there, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	w.lane.pass(&guest{Conn: here})
	<-come
	w.end()
	select {
	case <-ended:
	default:
		t.Error("the server has ended, and a call is being answered")
	}
	if w.begin() {
		t.Error("a server that has ended begins to answer")
	}
}

// A websocket carries a watch, and ends with the member.
func TestWatchByWebsocket(t *testing.T) {
	servers, endpoints := start(t, 1)
	g := gatewayOf(t, endpoints[0])
	c, _, err := websocket.Dial(t.Context(), "ws://"+endpoints[0]+"/v3/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	next := func() (out object) {
		t.Helper()
		_, text, err := c.Read(t.Context())
		if err != nil || json.Unmarshal(text, &out) != nil {
			t.Fatalf("a message of the websocket: %q, %v", text, err)
		}
		return out["result"].(object)
	}
	for _, watched := range []string{"a", "b"} {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"create_request":{"key":"`+b64(watched)+`"}}`)); err != nil {
			t.Fatal(err)
		}
		if next()["created"] != true {
			t.Errorf("the watch of %s was not created", watched)
		}
		g.want("/v3/kv/put", `{"key":"`+b64(watched)+`","value":"`+b64("1")+`"}`)
		if events, _ := next()["events"].([]any); len(events) != 1 {
			t.Errorf("the watch of %s told %d events, want 1", watched, len(events))
		}
	}
	servers[0].Stop() // would wait for ever
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err == nil { // the watch may still tell why it ends
		_, _, err = c.Read(patience)
	}
	if patience.Err() != nil {
		t.Error("the websocket outlives its member")
	}
}
