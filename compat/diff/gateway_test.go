package diff

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/compat/server"
)

var webSteps = flag.Int("web-steps", 0, "requests of HTTP; 0 is 400 with -short, else 4000")

// findings counts differences, and reports each kind of step a few times.
type findings struct {
	t     *testing.T
	seen  map[string]int
	total int
}

func (f *findings) add(kind, format string, args ...any) {
	f.total++
	if f.seen[kind]++; f.seen[kind] <= 2 {
		f.t.Errorf(format, args...)
	}
	if f.total > 200 {
		f.t.FailNow()
	}
}

// sites starts an etcd and a Tenure of so many members, the leader first.
func sites(t *testing.T, ctx context.Context, members int, args ...string) (etcd, tenure *site) {
	t.Helper()
	if !server.Has(server.Tenure) {
		t.Skip("there is no Tenure")
	}
	if members > 1 {
		args = append(args, patient)
	}
	both := []*site{}
	for _, kind := range []server.Kind{server.Etcd, server.Tenure} {
		s := target(t, ctx, string(kind), server.Config{Kind: kind, Members: members, Args: args})
		t.Cleanup(s.stop)
		of := &site{Target: s.Target}
		for _, m := range s.ordered {
			id, err := m.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			of.endpoints, of.names, of.members = append(of.endpoints, m.Endpoint), append(of.names, m.Name), append(of.members, id.Header.MemberId)
			of.urls = append(of.urls, "http://"+m.Endpoint, m.PeerURL)
		}
		both = append(both, of)
	}
	return both[0], both[1]
}

// chosen is from where on an ID is one that a server chose: those that steps ask for are small.
const chosen = 1 << 32

// learn takes in what an answer says of revisions and of leases that the server chose.
func (s *site) learn(path string, a answer) (revision int64) {
	var told struct {
		Header struct{ Revision string }
		ID     string
	}
	if a.status != 200 || json.Unmarshal(a.body, &told) != nil {
		return 0
	}
	if id, err := strconv.ParseInt(told.ID, 10, 64); err == nil && path == "/v3/lease/grant" && id > chosen {
		s.granted = append(s.granted, id)
	}
	revision, _ = strconv.ParseInt(told.Header.Revision, 10, 64)
	return revision
}

// sameTTL hides from an answer of LeaseTimeToLive how long is left, which may differ by a moment, and from what a follower
// passes on its own revision, which may be behind (normalizeLag).
func (s *site) sameTTL(path string, a answer) answer {
	passed := path == "/v3/lease/keepalive" && len(s.endpoints) > 1
	if path != "/v3/lease/timetolive" && !passed || a.status != 200 {
		return a
	}
	var told map[string]any
	if json.Unmarshal(a.body, &told) != nil {
		return a
	}
	if result, ok := told["result"].(map[string]any); ok && passed {
		unrevised(result)
	}
	if len(s.endpoints) > 1 {
		unrevised(told)
	}
	if ttl, _ := told["TTL"].(string); ttl != "" && ttl != "-1" {
		told["TTL"] = "left"
	}
	if keys, ok := told["keys"].([]any); ok {
		told["keys"] = sorted(keys)
	}
	a.body, _ = json.Marshal(told)
	return a
}

// unrevised takes the revision out of a header.
func unrevised(v map[string]any) {
	if header, ok := v["header"].(map[string]any); ok {
		delete(header, "revision")
	}
}

// TestGatewayDifferential gives etcd and Tenure the same requests of HTTP: random calls in JSON, in all forms that mean the
// same and in many that are wrong, probes, and paths that do not exist.
func TestGatewayDifferential(t *testing.T) {
	ofOneAndThree(t, gatewayDifferential)
}

func gatewayDifferential(t *testing.T, members int) {
	n := *webSteps
	if n == 0 {
		n = 4000
		if testing.Short() {
			n = 400
		}
	}
	ctx, seed := t.Context(), max(*seedFlag, 1)
	etcd, tenure := sites(t, ctx, members)
	r := rand.New(rand.NewPCG(seed, 11))
	found := findings{t: t, seen: map[string]int{}}
	revision, good, bad := int64(1), 0, 0
	for i, s := range Generate(seed, 2*n) {
		if good+bad >= n {
			break
		}
		path := paths[s.Method]
		if path == "" && r.IntN(2) > 0 {
			continue
		}
		// The same form of a body for both: only the leases in it differ.
		form, shape := r.Uint64(), r.IntN(6)
		if grant, ok := s.Req.(*pb.LeaseGrantRequest); ok { // none may end by itself
			if grant.TTL < 3000 {
				grant.TTL += 3000
			}
			shape = 1
		}
		step := func(of *site) webStep {
			r := rand.New(rand.NewPCG(form, 0))
			if path == "" {
				return odd(r)
			}
			body := bodyOf(r, resolve(s.Req, revision, of.granted))
			if shape == 0 {
				body = bent(r, body)
			}
			return webStep{"POST", path, body}
		}
		asked, askedToo := step(etcd), step(tenure)
		for _, of := range []*site{etcd, tenure} {
			if err := of.turn(ctx, s.Member); err != nil {
				t.Fatal(err)
			}
		}
		want := etcd.sameTTL(path, etcd.ask(ctx, asked.verb, asked.path, asked.body, nil))
		got := tenure.sameTTL(path, tenure.ask(ctx, askedToo.verb, askedToo.path, askedToo.body, nil))
		revision = max(revision, etcd.learn(path, want))
		tenure.learn(path, got)
		if want.status == 200 {
			good++
		} else {
			bad++
		}
		if excused(asked, want, got) {
			continue
		}
		if a, b := etcd.told(want), tenure.told(got); a != b {
			found.add(asked.verb+asked.path+fmt.Sprint(want.status, got.status), "seed %d, request %d, member %d: %v\netcd   %s\ntenure %s", seed, i, etcd.at, asked, a, b)
		}
	}
	if good < n/3 || bad < n/20 {
		t.Errorf("%d requests succeeded and %d did not: the draw says little", good, bad)
	}
}

// excused reports whether the answers to a request may differ, for one of the reasons in docs/etcd.md.
func excused(s webStep, want, got answer) bool {
	switch {
	case s.path == "/debug/vars": // shows the command line
		return got.status == http.StatusNotFound
	case s.path == "/v3/lease/keepalive" && want.status == http.StatusOK && len(want.body) == 0: // no message
		return got.status == http.StatusBadRequest
	case want.status == http.StatusTooManyRequests: // too large: in other words
		return got.status == want.status
	}
	return false
}

// streamSteps are calls that are answered by several messages. Each ends with one that has a mark.
var streamSteps = []struct {
	name, path, body, mark string
}{
	{"a watch from the beginning", "/v3/watch", `{"create_request":{"key":"AA==","range_end":"AA==","start_revision":"1","prev_kv":true}}`, "bWFyaw=="},
	{"a watch of one key without deletes", "/v3/watch", `{"create_request":{"key":"bWFyaw==","start_revision":1,"filters":["NODELETE"]}}`, "bWFyaw=="},
	{"a watch in camel case", "/v3/watch", `{"createRequest":{"key":"bWFyaw==","startRevision":"1","watchId":"7"}}`, "bWFyaw=="},
	{"a watch of no request", "/v3/watch", `{}`, "\n"},
	{"a renewal", "/v3/lease/keepalive", `{"ID":77}`, "\n"},
	{"a renewal of nothing", "/v3/lease/keepalive", `{"ID":"78"}`, "\n"},
	{"a snapshot", "/v3/maintenance/snapshot", `{}`, "never"},
	{"a stream that is an observation", "/v3/election/observe", `{"name":"ZWxlY3Rpb24="}`, "\n"},
	{"a read in parts", "/v3/kv/rangestream", `{"key":"YQ=="}`, "\n"},
	{"a watch behind the compaction", "/v3/watch", `{"create_request":{"key":"YQ==","start_revision":"2"}}`, "compact_revision"},
}

var coded = regexp.MustCompile(`"code": ?[0-9]+, ?`)

// TestGatewayStreams holds the streams of the gateway against etcd's: their messages, joined, for how they are cut may differ.
func TestGatewayStreams(t *testing.T) {
	ofOneAndThree(t, gatewayStreams)
}

func gatewayStreams(t *testing.T, members int) {
	ctx := t.Context()
	etcd, tenure := sites(t, ctx, members)
	turn := 0
	next := func() { // another member
		for _, of := range []*site{etcd, tenure} {
			if err := of.turn(ctx, turn); err != nil {
				t.Fatal(err)
			}
		}
		turn++
	}
	both := func(path, body string) (a, b answer) {
		next()
		return etcd.ask(ctx, "POST", path, body, nil), tenure.ask(ctx, "POST", path, body, nil)
	}
	for _, s := range [][2]string{
		{"/v3/lease/grant", `{"ID":77,"TTL":600}`},
		{"/v3/kv/put", `{"key":"YQ==","value":"MQ=="}`}, {"/v3/kv/put", `{"key":"YQ==","value":"Mg==","lease":"77"}`},
		{"/v3/kv/deleterange", `{"key":"YQ=="}`},
		{"/v3/election/campaign", `{"name":"ZWxlY3Rpb24=","lease":77,"value":"bWU="}`},
		{"/v3/lock/lock", `{"name":"bG9jaw==","lease":77}`},
		{"/v3/lock/lock", `{"name":"bG9jaw==","lease":77}`},
		{"/v3/election/leader", `{"name":"ZWxlY3Rpb24="}`},
		{"/v3/election/leader", `{"name":"bm9uZQ=="}`},
		{"/v3/lock/unlock", `{"key":"bG9jay80ZA=="}`},
		{"/v3/lock/lock", `{"name":"bG9jaw==","lease":79}`},
		{"/v3/kv/put", `{"key":"bWFyaw==","value":"bWFyaw=="}`},
	} {
		a, b := both(s[0], s[1])
		if a.status == http.StatusInternalServerError { // an error without a code, which ours has
			a.status, b.status = 0, 0
			a.body, b.body = coded.ReplaceAll(a.body, nil), coded.ReplaceAll(b.body, nil)
		}
		if x, y := etcd.told(a), tenure.told(b); x != y {
			t.Errorf("%s %s:\netcd   %s\ntenure %s", s[0], s[1], x, y)
		}
	}
	for _, s := range streamSteps {
		if strings.HasSuffix(s.name, "compaction") {
			both("/v3/kv/compaction", `{"revision":"4"}`)
		}
		next()
		until := func(body []byte) bool { return strings.Contains(string(body), s.mark) }
		a, b := etcd.ask(ctx, "POST", s.path, s.body, until), tenure.ask(ctx, "POST", s.path, s.body, until)
		if x, y := etcd.joined(a), tenure.joined(b); x != y {
			t.Errorf("%s:\netcd   %s\ntenure %s", s.name, x, y)
		}
	}
}

// joined is the text of a stream: the events of its messages in one list, and of a snapshot only how it ends.
func (s *site) joined(a answer) string {
	var events []any
	var rest []string
	sum := 0
	for _, v := range values(a.body) {
		m, _ := v.(map[string]any)
		result, _ := m["result"].(map[string]any)
		if header, ok := result["header"].(map[string]any); ok && result["compact_revision"] != nil {
			delete(header, "revision")
		}
		if blob, ok := result["blob"].(string); ok {
			sum = len(blob)
			continue
		}
		if list, ok := result["events"].([]any); ok {
			events = append(events, list...)
			continue
		}
		text, err := json.Marshal(s.plain(v))
		if err != nil {
			panic(err)
		}
		rest = append(rest, string(text))
	}
	text, err := json.Marshal(s.plain(any(events)))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%d %s %s events %s last blob %d", a.status, a.kind, strings.Join(rest, " "), text, sum)
}
