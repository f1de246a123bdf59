package diff

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

var socketRounds = flag.Int("socket-rounds", 0, "websockets, each with several watches; 0 is 30 with -short, else 300")

// says reports whether a text was heard so often, whatever the spaces in it.
func says(text string, n int) func([]byte) bool {
	return func(heard []byte) bool { return strings.Count(strings.ReplaceAll(string(heard), " ", ""), text) >= n }
}

// drawWatch draws the creation of a watch in JSON, right or wrong.
func drawWatch(r *rand.Rand, revision int64, prevKV bool) string {
	key := func() []byte { return []byte{byte('a' + r.IntN(5))} }
	create := map[string]any{"key": key(), "prev_kv": prevKV}
	switch r.IntN(5) {
	case 0:
		create["range_end"] = []byte{0}
	case 1:
		create["range_end"] = []byte("c") // perhaps before the key
	case 2:
		create["range_end"] = ""
	}
	switch r.IntN(4) {
	case 0:
		create["start_revision"] = fmt.Sprint(1 + r.Int64N(revision))
	case 1:
		create["start_revision"] = revision + 1
	case 2:
		create["start_revision"] = "-1"
	}
	if r.IntN(4) == 0 {
		create["filters"] = []any{[]any{"NOPUT", "NODELETE", 0, 1}[r.IntN(4)]}
	}
	if r.IntN(5) == 0 {
		create["watch_id"] = []any{"3", 4, "3", -1}[r.IntN(4)]
	}
	if r.IntN(6) == 0 {
		create["fragment"], create["progress_notify"], create["unknown"] = true, true, 1
	}
	name := []string{"create_request", "createRequest"}[r.IntN(2)]
	text, err := json.Marshal(map[string]any{name: create})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestSocketDifferential has watches over websockets, of which several share one, hear the same of etcd and of Tenure.
func TestSocketDifferential(t *testing.T) { ofOneAndThree(t, socketDifferential) }

func socketDifferential(t *testing.T, members int) {
	n := *socketRounds
	if n == 0 {
		n = 300
		if testing.Short() {
			n = 30
		}
	}
	ctx, seed := t.Context(), max(*seedFlag, 1)
	etcd, tenure := sites(t, ctx, members)
	both := []*site{etcd, tenure}
	r := rand.New(rand.NewPCG(seed, 17))
	revision, heard := int64(1), 0
	write := func() {
		key := []byte{byte('a' + r.IntN(5))}
		put := &pb.PutRequest{Key: key, Value: fmt.Append(nil, r.IntN(100))}
		choice, other := r.IntN(5), []byte{byte('a' + r.IntN(5)), 'x'}
		for _, of := range both {
			var err error
			var headed interface{ GetHeader() *pb.ResponseHeader }
			switch kv := pb.NewKVClient(of.conns[0]); choice {
			case 0:
				headed, err = kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: key, RangeEnd: []byte{0}})
			case 1:
				headed, err = kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
					{Request: &pb.RequestOp_RequestPut{RequestPut: put}}, {Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: other}}},
				}})
			default:
				headed, err = kv.Put(ctx, put)
			}
			if err != nil {
				t.Fatal(err)
			}
			revision = max(revision, headed.GetHeader().Revision)
		}
	}
	write()
	for round := range n {
		member, prevKV := r.IntN(members), r.IntN(2) == 0
		var said []string
		var open []*socket
		for _, of := range both {
			if err := of.turn(ctx, member); err != nil {
				t.Fatal(err)
			}
			open = append(open, of.socket(ctx, "/v3/watch", nil))
		}
		ask := func(text, answered string, times int) {
			said = append(said, text)
			for _, s := range open {
				s.say(ctx, text)
			}
			for _, s := range open {
				if answered != "" && !s.hear(patience, says(answered, times)) {
					t.Logf("%s does not answer %s", s.of.Name, text)
				}
			}
		}
		sync := func() {
			for _, s := range open {
				if err := s.of.turn(ctx, member); err != nil {
					t.Fatal(err)
				}
				if !s.sync(ctx, revision) {
					t.Errorf("seed %d, round %d: %s tells of no progress to %d", seed, round, s.of.Name, revision)
				}
			}
		}
		ask(`{"create_request":{"key":"AA==","range_end":"AA=="}}`, `"created":true`, 1)
		creations := 1 + r.IntN(4)
		for i := range creations {
			ask(drawWatch(r, revision, prevKV), `"created":true`, 2+i)
		}
		for range 2 + r.IntN(4) {
			write()
		}
		sync()
		if r.IntN(3) == 0 {
			before := strings.Count(strings.ReplaceAll(string(open[0].heard), " ", ""), `"canceled":true`)
			ask(`{"cancel_request":{"watch_id":"0"}}`, `"canceled":true`, before+1)
			ask(`{"cancelRequest":{"watchId":77}}`, "", 0)
			write()
			sync()
		}
		a, b := open[0].told(prevKV), open[1].told(prevKV)
		heard += strings.Count(a, `"kv"`)
		for _, s := range open {
			s.close()
		}
		if a != b {
			t.Fatalf("seed %d, round %d, member %d, after %s:\netcd   %s\ntenure %s", seed, round, member, strings.Join(said, " "), a, b)
		}
	}
	if heard < 3*n {
		t.Errorf("%d events in %d rounds say little", heard, n)
	}
}

// socketSteps are calls over a websocket. The mark is heard in the end; without one the connection is closed.
var socketSteps = []struct {
	name, path string
	says       []string
	mark       string
}{
	{"a watch from the beginning", "/v3/watch", []string{`{"create_request":{"key":"AA==","range_end":"AA==","start_revision":"1","prev_kv":true}}`}, "bWFyaw=="},
	{"renewals", "/v3/lease/keepalive", []string{`{"ID":77}`, `{"ID":"78"}`}, `"ID":"78"`},
	{"two messages at once", "/v3/watch", []string{`{"create_request":{"key":"YQ=="}}` + "\n" + `{"create_request":{"key":"Yg=="}}`}, `"watch_id":"1"`},
	{"a message that is none, behind one that is", "/v3/watch", []string{`{"create_request":{"key":"YQ=="}}`, `nonsense`}, ""},
	{"a path that does not exist", "/v3/nothing", []string{`{}`}, ""},
}

// TestSockets holds calls over websockets against etcd's, one by one.
func TestSockets(t *testing.T) {
	ctx := t.Context()
	etcd, tenure := sites(t, ctx, 1)
	prepare(t, ctx, etcd, tenure, [][2]string{
		{"/v3/lease/grant", `{"ID":77,"TTL":600}`}, {"/v3/kv/put", `{"key":"YQ==","value":"MQ==","lease":77}`},
		{"/v3/kv/deleterange", `{"key":"YQ=="}`}, {"/v3/kv/put", `{"key":"bWFyaw==","value":"bWFyaw=="}`},
	})
	for _, step := range socketSteps {
		var told []string
		for _, of := range []*site{etcd, tenure} {
			s := of.socket(ctx, step.path, nil)
			for _, text := range step.says {
				s.say(ctx, text)
			}
			enough := says(step.mark, 1)
			if step.mark == "" {
				enough = func([]byte) bool { return false }
			}
			s.hear(patience, enough)
			told = append(told, s.told(true))
			s.close()
		}
		if told[0] != told[1] {
			t.Errorf("%s:\netcd   %s\ntenure %s", step.name, told[0], told[1])
		}
	}
}

// prepare makes calls in JSON of both.
func prepare(t *testing.T, ctx context.Context, etcd, tenure *site, calls [][2]string) {
	t.Helper()
	for _, c := range calls {
		for _, of := range []*site{etcd, tenure} {
			if a := of.ask(ctx, "POST", c[0], c[1], nil); a.status != http.StatusOK {
				t.Fatalf("%s: %s %s: %v", of.Name, c[0], c[1], a)
			}
		}
	}
}

// TestSocketsOfUsers has a token over a websocket count as etcd has it: as a subprotocol and as a cookie. Two cases are in the table of
// differences.
func TestSocketsOfUsers(t *testing.T) {
	ctx := t.Context()
	etcd, tenure := sites(t, ctx, 1, "--bcrypt-cost=4")
	prepare(t, ctx, etcd, tenure, [][2]string{
		{"/v3/auth/user/add", `{"name":"root","password":"p"}`}, {"/v3/auth/user/grant", `{"user":"root","role":"root"}`},
		{"/v3/kv/put", `{"key":"YQ==","value":"MQ=="}`}, {"/v3/auth/enable", `{}`},
	})
	for _, c := range []struct {
		name      string
		header    http.Header
		protocols []string
		differs   bool
	}{
		{"nobody", nil, nil, false},
		{"a subprotocol", nil, []string{"Bearer", "TOKEN"}, false},
		{"a cookie", http.Header{"Cookie": {"token=TOKEN"}}, nil, false},
		{"a wrong token", nil, []string{"Bearer", "x.7"}, false},
		{"a subprotocol without a token", nil, []string{"Bearer"}, true},
		{"a header", http.Header{"Authorization": {"TOKEN"}}, nil, true},
	} {
		var told []string
		for _, site := range []*site{etcd, tenure} {
			var login struct{ Token string }
			if json.Unmarshal(site.ask(ctx, "POST", "/v3/auth/authenticate", `{"name":"root","password":"p"}`, nil).body, &login) != nil || login.Token == "" {
				t.Fatalf("%s gives no token", site.Name)
			}
			header, protocols := http.Header{}, []string{}
			for key, values := range c.header {
				header.Set(key, strings.ReplaceAll(values[0], "TOKEN", login.Token))
			}
			for _, p := range c.protocols {
				protocols = append(protocols, strings.ReplaceAll(p, "TOKEN", login.Token))
			}
			s := site.socket(ctx, "/v3/watch", header, protocols...)
			s.say(ctx, `{"create_request":{"key":"YQ==","start_revision":1}}`)
			s.hear(patience, says(`"events"`, 1))
			told = append(told, s.told(true))
			s.close()
		}
		if (told[0] != told[1]) != c.differs {
			t.Errorf("%s:\netcd   %s\ntenure %s", c.name, told[0], told[1])
		}
	}
}
