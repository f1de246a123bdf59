package load

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-lease/tenure/internal/lab/members"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dialPlain(_ context.Context, endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop(), DialTimeout: time.Second})
}

// One address is enough to find all members and the leader, and each member is found once.
func TestDialFindsAllMembers(t *testing.T) {
	_, endpoints := members.Start(t, "a", "b", "c")
	for _, given := range [][]string{endpoints[:1], endpoints[2:], {endpoints[1], "http://" + endpoints[1]}, endpoints} {
		c, err := Dial(t.Context(), given, dialPlain, nil)
		if err != nil || c.Size() != 3 {
			t.Fatalf("by %v it finds %v, %v; want the 3 members", given, c, err)
		}
		client, err := c.Connect(c.Leader())
		if err != nil {
			t.Fatal(err)
		}
		status, err := client.Status(t.Context(), client.Endpoints()[0])
		client.Close()
		if err != nil {
			t.Fatal(err)
		}
		if status.Header.MemberId != status.Leader {
			t.Errorf("by %v it takes member %x for the leader, want %x", given, status.Header.MemberId, status.Leader)
		}
		if c.Version != status.Version || c.Version == "" {
			t.Errorf("by %v the version is %q, want the leader's, %q", given, c.Version, status.Version)
		}
		if c.CPU(t.Context()) <= 0 {
			t.Errorf("by %v the members tell no CPU time, want that of their metrics", given)
		}
	}
}

// An address that nobody answers at is named in the error.
func TestDialNamesTheAddress(t *testing.T) {
	l := listen(t)
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Dial(ctx, []string{l.Addr().String()}, dialPlain, nil); err == nil || !strings.Contains(err.Error(), "no answer from "+l.Addr().String()) {
		t.Errorf("the error is %v, want the address in it", err)
	}
}

// The first address that answers will do, and the last error tells why none does.
func TestFirstOf(t *testing.T) {
	var asked []string
	take := func(a string) error {
		asked = append(asked, a)
		if a == "good" {
			return nil
		}
		return net.UnknownNetworkError(a)
	}
	if err := firstOf([]string{"bad", "good", "never"}, take); err != nil || !slices.Equal(asked, []string{"bad", "good"}) {
		t.Errorf("it asked %q and returns %v, want bad and good", asked, err)
	}
	if err := firstOf([]string{"bad", "worse"}, take); err == nil || !strings.Contains(err.Error(), "worse") {
		t.Errorf("the error is %v, want that of the last address", err)
	}
	if err := firstOf(nil, take); err == nil || !strings.Contains(err.Error(), "no client URL") {
		t.Errorf("without an address the error is %v, want that there is none", err)
	}
}

// Each case measures something on a cluster, and leaves neither keys nor leases there.
func TestCasesOnACluster(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "c"}, {"alone"}} {
		_, endpoints := members.Start(t, names...)
		c, err := Dial(t.Context(), endpoints, dialPlain, nil)
		if err != nil {
			t.Fatal(err)
		}
		client, err := c.Connect(0)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Put(t.Context(), "other", "kept"); err != nil {
			t.Fatal(err)
		}
		plan := Plan{
			Targets: []NamedTarget{{"it", c}}, Cases: Cases, Runs: 1,
			Clients: 3, Time: 60 * time.Millisecond, Prefix: "load/",
		}
		results, err := plan.Run(t.Context(), func(Result) {})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Case != Cases[i].Name || r.Target != "it" || r.Rate <= 0 || r.P50 <= 0 || r.P99 < r.P50 {
				t.Errorf("%d members, %s: %+v; want a rate and latencies", len(names), Cases[i].Name, r)
			}
		}
		left, err := client.Get(t.Context(), "", clientv3.WithFromKey(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatal(err)
		}
		if len(left.Kvs) != 1 || string(left.Kvs[0].Key) != "other" {
			t.Errorf("%d members: the keys are %v, want the one that was there before", len(names), left.Kvs)
		}
		leases, err := client.Leases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(leases.Leases) > 0 {
			t.Errorf("%d members: %d leases are left, want none", len(names), len(leases.Leases))
		}
	}
}
