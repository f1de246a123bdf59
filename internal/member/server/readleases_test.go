package server

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
)

// readLeases is a member's service.
func readLeases(tb testing.TB, endpoint string) readleasepb.ReadLeaseClient {
	return readleasepb.NewReadLeaseClient(dial(tb, endpoint).ActiveConnection())
}

// until polls until a condition holds.
func until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("waited in vain: %s", what)
		}
	}
}

// TestReadLeasesAreSeen follows leases of a real cluster through its service: their holders,
// the members bound to them, and where reads were answered.
func TestReadLeasesAreSeen(t *testing.T) {
	servers, endpoints := start(t, 3)
	lead := slices.IndexFunc(servers, func(s *Server) bool {
		id, _, _ := s.Node.Leader()
		return id == s.Node.ID()
	})
	other := (lead + 1) % 3
	atLeader, atOther := readLeases(t, endpoints[lead]), readLeases(t, endpoints[other])
	reader := dial(t, endpoints[other])

	// A follower reads by the leader under the policy that a cluster begins with.
	until(t, "the first leader's policy is there", func() bool {
		got, err := atOther.Get(t.Context(), &readleasepb.GetRequest{})
		return err == nil && got.Policy == "leader"
	})
	if _, err := reader.Get(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	got, err := atOther.Get(t.Context(), &readleasepb.GetRequest{})
	if err != nil || got.Policy != "leader" || got.LeaseLeft != nil || got.Reads.Local != 0 || got.Reads.Forwarded == 0 ||
		got.MemberId != servers[other].Node.ID() || got.Leader.GetId() != servers[lead].Node.ID() || got.Ttl.AsDuration() != 200*time.Millisecond {
		t.Errorf("a follower under the policy leader: %v, %v", got, err)
	}

	set, err := atOther.Set(t.Context(), &readleasepb.SetRequest{Policy: "all"})
	if err != nil || set.Previous != "leader" || set.Policy != "all" {
		t.Fatalf("set: %v, %v", set, err)
	}
	if got, err := atOther.Get(t.Context(), &readleasepb.GetRequest{}); err != nil || got.Policy != "all" {
		t.Errorf("right after, at the same member: %v, %v; want all", got, err)
	}
	until(t, "local reads at a follower", func() bool {
		if _, err := reader.Get(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		got, err = atOther.Get(t.Context(), &readleasepb.GetRequest{})
		return err == nil && got.Reads.Local > 0 && got.LeaseLeft.AsDuration() > 0
	})
	if left := got.LeaseLeft.AsDuration(); left > 200*time.Millisecond {
		t.Errorf("%v left of a lease of 200 ms", left)
	}
	until(t, "the leader knows the holder", func() bool {
		if _, err := reader.Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
		got, err := atLeader.Holders(t.Context(), &readleasepb.HoldersRequest{Key: []byte("k")})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(got.Holders, func(h *readleasepb.Holder) bool { return h.Member.Id == servers[other].Node.ID() })
		if i < 0 {
			return false
		}
		h := got.Holders[i]
		if want := "http://" + endpoints[other]; h.Member.Name != fmt.Sprintf("m%d", other) || !slices.Equal(h.Member.ClientUrls, []string{want}) || h.Boot == 0 || h.HasIndex == 0 {
			t.Errorf("holder %v, want its name, %s, a boot and an index", h, want)
		}
		return slices.Contains(h.Grantors, servers[lead].Node.ID()) && h.RoundTrip.AsDuration() > 0
	})

	if _, err := atLeader.Set(t.Context(), &readleasepb.SetRequest{Policy: "most"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("set a policy that there is not: %v", err)
	}
	if _, err := atLeader.Set(t.Context(), &readleasepb.SetRequest{Policy: "off"}); err != nil {
		t.Fatal(err)
	}
	until(t, "nobody holds a lease", func() bool {
		if _, err := reader.Get(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		got, err := atOther.Holders(t.Context(), &readleasepb.HoldersRequest{Key: []byte("k")})
		return err == nil && got.Policy == "off" && len(got.Holders) == 0
	})
}

// TestWhoHoldsUpIsSeen kills a member that reads under a long lease: the leader reports the
// writes that wait for it, and how long.
func TestWhoHoldsUpIsSeen(t *testing.T) {
	servers, endpoints := startWith(t, 3, func(c *Config) { c.Node.ReadLease, c.Node.ReadLeaseTTL = "all", 2*time.Second })
	lead := slices.IndexFunc(servers, func(s *Server) bool {
		id, _, _ := s.Node.Leader()
		return id == s.Node.ID()
	})
	other := (lead + 1) % 3
	atLeader, atOther := readLeases(t, endpoints[lead]), readLeases(t, endpoints[other])
	reader, writer := dial(t, endpoints[other]), dial(t, endpoints[lead])
	dead := servers[other].Node.ID()
	until(t, "a lease of the follower", func() bool {
		if _, err := reader.Get(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		got, err := atOther.Get(t.Context(), &readleasepb.GetRequest{})
		return err == nil && got.LeaseLeft.AsDuration() > time.Second
	})
	servers[other].Stop()
	written := make(chan error, 1)
	go func() {
		_, err := writer.Put(t.Context(), "k", "v", clientv3.WithPrevKV())
		written <- err
	}()
	var got *readleasepb.GetResponse
	until(t, "an entry is held up by the dead", func() bool {
		var err error
		got, err = atLeader.Get(t.Context(), &readleasepb.GetRequest{})
		return err == nil && slices.Contains(got.HeldUp.GetBy(), dead) || len(written) > 0
	})
	if got.HeldUp.GetEntries() == 0 || got.ReleasedIndex >= got.CommittedIndex || got.HeldUp.GetWaiting().AsDuration() > 3*time.Second {
		t.Errorf("a write waits for a dead holder: %v; want an entry held up, by it, for less than its lease", got)
	}
	if err := <-written; err != nil {
		t.Errorf("the write that waited: %v", err)
	}
	got, err := atLeader.Get(t.Context(), &readleasepb.GetRequest{})
	if err != nil || got.HeldUp != nil {
		t.Errorf("after it was answered: %v, %v; want that nothing is held up", got, err)
	}
}

// A member that has stopped tells nothing of read leases, and that by etcd's own error; its status
// says that it is stopping.
func TestAStoppedMemberTellsNothing(t *testing.T) {
	servers, _ := start(t, 1)
	b := backend{servers[0].Node}
	if st := b.Status(); len(st.Errors) > 0 || st.Size < emptySize || st.SizeInUse < emptySize {
		t.Errorf("status %+v, want no errors, and a size that tools can divide by", st)
	}
	servers[0].Stop()
	if got, err := b.ReadLeases(); err != rpctypes.ErrGRPCStopped {
		t.Errorf("read leases of a stopped member: %+v, %v; want %v", got, err, rpctypes.ErrGRPCStopped)
	}
	if st := b.Status(); !slices.Contains(st.Errors, "tenure: this member is stopping") {
		t.Errorf("status of a stopped member: %q, want that it is stopping", st.Errors)
	}
}

// Cells that make no sense are the client's fault, and the policy stays.
func TestCellsThatMakeNoSense(t *testing.T) {
	servers, endpoints := startWith(t, 1, func(c *Config) { c.API.ReadLeaseChanges = etcdapi.ChangeOrder })
	b := backend{servers[0].Node}
	for _, cells := range []string{"nonsense", "default = nobody", "prefix:/a = m0"} {
		if err := b.SetReadPolicy(t.Context(), "static/key", cells); !errors.Is(err, etcdapi.ErrCells) || !errors.Is(err, placement.ErrConfiguration) {
			t.Errorf("cells %q: %v, want %v", cells, err, etcdapi.ErrCells)
		}
		_, err := readLeases(t, endpoints[0]).Set(t.Context(), &readleasepb.SetRequest{Policy: "static/key", Cells: cells})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("set cells %q: %v, want %v", cells, err, codes.InvalidArgument)
		}
	}
	if st, err := b.ReadLeases(); err != nil || st.Order != "strict" {
		t.Errorf("then the order is %s, %v; want strict", st.Order, err)
	}
	servers[0].Stop()
	if err := b.SetReadPolicy(t.Context(), "static/key", "default = *"); err == nil || errors.Is(err, etcdapi.ErrCells) {
		t.Errorf("set cells at a member that has stopped: %v, want an error that does not blame the cells", err)
	}
}
