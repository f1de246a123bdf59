package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// TestWhatIsTriedAgain: a try that lost its place, or was beaten, looks again at once, and waits out no trouble. An
// Acquire waits out trouble, and a lost place, with a pause.
func TestWhatIsTriedAgain(t *testing.T) {
	trouble := status.Error(codes.Unavailable, "no connection")
	for err, want := range map[error]struct{ try, acquire bool }{
		errGone: {true, true}, errBeaten: {true, false}, trouble: {false, true}, rpctypes.ErrPermissionDenied: {false, false},
	} {
		if pause, again := (engine{}).Again(holder.Call{Try: true}, err); pause != 0 || again != want.try {
			t.Errorf("a try behind %q: again %v, after %v; want %v, at once", err, again, pause, want.try)
		}
		if pause, again := (engine{}).Again(holder.Call{}, err); pause < 50*time.Millisecond || pause > 150*time.Millisecond || again != want.acquire {
			t.Errorf("an Acquire behind %q: again %v, after %v; want %v, after about 100 ms", err, again, pause, want.acquire)
		}
	}
}

// TestBreakOfWhatIsNone: a name that no lease has is refused, and a key that stands in no queue is not touched.
func TestBreakOfWhatIsNone(t *testing.T) {
	stranger := &mvccpb.KeyValue{Key: []byte("n/config"), CreateRevision: 3, Lease: 77}
	c := &scripted{queue: append([]*mvccpb.KeyValue{stranger}, queueOf(5)...)}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		if err := l.Break(t.Context(), "n/", []tenure.Holding{{Token: 5}}); !errors.Is(err, tenure.ErrClaim) {
			t.Errorf("break of a name that no lease has: %v, want %v", err, tenure.ErrClaim)
		}
		if err := l.Break(t.Context(), "n", []tenure.Holding{{Token: 3}}); err != nil {
			t.Error(err)
		}
		if got := c.revocations(); len(got) > 0 {
			t.Errorf("the leases %v are revoked, want none", got)
		}
		for name, want := range map[string]error{"n/": tenure.ErrClaim} {
			if s, err := l.Observe(t.Context(), name); s.Name != name || !errors.Is(err, want) {
				t.Errorf("observe %q: %+v, %v; want its name, and %v", name, s, err, want)
			}
			if _, err := l.Record(t.Context(), name); !errors.Is(err, want) {
				t.Errorf("the record of %q: %v, want %v", name, err, want)
			}
		}
		other := New(l.client, nil)
		if err := l.SetRecord(t.Context(), &lease{leaser: other, keeper: &keeper{Lease: holder.Make(&l.clocks, "n", "h", nil)}}, nil); !errors.Is(err, holder.ErrForeign) {
			t.Errorf("the record of another Leaser's lease: %v, want %v", err, holder.ErrForeign)
		}
		delayed := &lease{leaser: l, claim: tenure.Claim{TTL: time.Minute, LockDelay: time.Second}, granted: time.Minute}
		l.add(delayed)
		if delayed.Abandon(t.Context()); len(l.leases) > 0 {
			t.Error("a lost lease with a lock delay is left for Close to release")
			l.drop(delayed)
		}
		if got := c.revocations(); len(got) > 0 {
			t.Errorf("a lost lease with a lock delay is revoked, which cuts the delay short: %v", got)
		}
	})
}

// TestRecordOf: the key of a record tells its name, if it is one that a lease can have.
func TestRecordOf(t *testing.T) {
	for key, want := range map[string]string{"a/b.record": "a/b", "x.record.record": "x.record", ".record": "", "x": "", "x.recorder": "", "x/.record": ""} {
		if name, ok := RecordOf(key); ok != (want != "") || ok && name != want {
			t.Errorf("the key %q is of the record of %q: %v, want %q", key, name, ok, want)
		}
	}
}

// TestConfigOfTheClient: the client gets all of a Config, says nothing by itself, and replaces a connection that goes
// nowhere.
func TestConfigOfTheClient(t *testing.T) {
	cfg := Config{Endpoints: []string{"a:1", "b:2"}, TLS: &tls.Config{}, Username: "u", Password: "p"}
	c := cfg.client()
	if !slices.Equal(c.Endpoints, cfg.Endpoints) || c.TLS != cfg.TLS || c.Username != "u" || c.Password != "p" {
		t.Errorf("the client is for %v, of %q, with TLS: %v; want all of %+v", c.Endpoints, c.Username, c.TLS != nil, cfg)
	}
	if c.Logger == nil || c.DialKeepAliveTime != 5*time.Second || c.DialKeepAliveTimeout != 3*time.Second {
		t.Errorf("the client logs to %v, and asks each %v for %v; want a log for nobody, 5 s and 3 s", c.Logger, c.DialKeepAliveTime, c.DialKeepAliveTimeout)
	}
}

// TestNothingListens: the error tells of each address why it was not reached, and not what became of a request.
func TestNothingListens(t *testing.T) {
	var addresses []string
	for range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, ln.Addr().String())
		ln.Close()
	}
	err := reach(t.Context(), Config{Endpoints: addresses}, func(context.Context) error { return errors.New("what the request says") })
	for _, a := range []string{"dial tcp " + addresses[0], "dial tcp " + addresses[1], "refused", "cannot reach " + strings.Join(addresses, ",")} {
		if err == nil || !strings.Contains(err.Error(), a) || strings.Contains(err.Error(), "what the request says") {
			t.Errorf("got %v, want that it names %s", err, a)
		}
	}
}

// TestWhatARefusedRenewalSays: it names the user, and what the server wants of it. Other errors stay as they are.
func TestWhatARefusedRenewalSays(t *testing.T) {
	const rights, unknown = " may not renew the lease any more", "the server does not know "
	for _, tt := range []struct {
		user string
		err  error
		says string
	}{
		{"ann", rpctypes.ErrGRPCPermissionDenied, `user "ann"` + rights},
		{"", rpctypes.ErrGRPCPermissionDenied, "the user" + rights},
		{"ann", rpctypes.ErrGRPCAuthFailed, unknown + `user "ann"`},
		{"ann", rpctypes.ErrGRPCUserEmpty, unknown + `user "ann"`},
		{"", rpctypes.ErrGRPCInvalidAuthToken, unknown + "the user"},
		{"ann", rpctypes.ErrGRPCAuthOldRevision, unknown + `user "ann"`},
		{"ann", rpctypes.ErrGRPCNoLeader, ""},
		{"ann", errUnknownLease, ""},
	} {
		r := &keepAlives{client: &clientv3.Client{Username: tt.user}}
		err := r.explain(tt.err)
		if tt.says == "" && err != tt.err || tt.says != "" && (!strings.Contains(err.Error(), tt.says) || !errors.Is(err, rpctypes.Error(tt.err))) {
			t.Errorf("%v, of %q: a holder is told %v, want %q", tt.err, tt.user, err, tt.says)
		}
	}
}

// TestURLsThatCannotBe: the scheme is etcd or etcds, and an error shows no password. A password of a file is its one
// line, with all its spaces.
func TestURLsThatCannotBe(t *testing.T) {
	for _, url := range []string{"etcdx://u:secret@a:1", "etcd://u:secret@a:1/b", "etcds://u:secret@a:1?x=1", "etcd://u:secret@a:1?cacert=x"} {
		if _, err := ReadURL(url); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "…@") {
			t.Errorf("%s: %v, want an error that hides the password", url, err)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	for text, want := range map[string]string{" two words \n": " two words ", "a\r\n": "a", "a": "a", "a\nb\n": "", "a\n\n": "", "a\rb": "", "": "", "\n": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadPassword(file); got != want || (err == nil) != (want != "") {
			t.Errorf("a file with %q has the password %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestWhatAShortTTLSays: how long a trip took, and the TTL for which six of them leave time.
func TestWhatAShortTTLSays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		trip := 1234567890 * time.Nanosecond
		err := (&Leaser{clock: clock.NewSimulated(1)}).weigh(t.Context(), 3*time.Second, 2*time.Second, func(context.Context) (time.Duration, error) {
			time.Sleep(trip)
			return 3 * time.Second, nil
		})
		if want := "1.235s for a TTL of 3s; ask for at least 8s"; !errors.Is(err, tenure.ErrTTLTooShort) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want that it says %q", err, want)
		}
	})
}
