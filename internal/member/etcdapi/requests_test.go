package etcdapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
)

// Calls are counted by the versions of their clients, as many versions as there is room for.
func TestClientRequestsAreCounted(t *testing.T) {
	s := new(Server)
	call := func(stream bool, version ...string) error {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{rpctypes.MetadataClientAPIVersionKey: version})
		_, err := s.admit(ctx, stream)
		return err
	}
	if err := call(false, "\xff"); err == nil {
		t.Error("a version that is no text was admitted")
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				call(false, "3.7")
				call(true, "3.7")
			}
		})
	}
	all.Wait()
	call(false)
	call(true, strings.Repeat("9", versionMaxBytes+1))
	got := s.ClientRequests()
	slices.SortFunc(got, func(a, b ClientRequests) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	if want := "[{false 3.7 400} {false unknown 1} {true 3.7 400} {true other 1}]"; fmt.Sprint(got) != want {
		t.Errorf("calls are counted as %v, want %s", got, want)
	}
	for i := range 1000 {
		call(false, fmt.Sprint(i))
	}
	call(false, "3.7")
	sum := uint64(0)
	for _, c := range s.ClientRequests() {
		if sum += c.Count; c.Version == "3.7" && !c.Stream && c.Count != 401 {
			t.Errorf("a version that was known before is counted as %d calls, want 401", c.Count)
		}
	}
	if n := len(s.requests.known); sum != 1803 || n > versionsMax+1 {
		t.Errorf("%d calls are counted by %d versions, want 1803 by no more than %d", sum, n, versionsMax+1)
	}
}
