package memberworld

import (
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The judge of rights is shown calls that must not be.
func TestRights(t *testing.T) {
	const s = time.Second
	times := func(asked, granted, revoking, revoked time.Duration) *right {
		return &right{user: "u0", key: "r", asked: asked * s, granted: granted * s, revoking: revoking * s, revoked: revoked * s}
	}
	whole := times(1, 2, 10, 12)
	uncertain := times(1, 4, 10, 12)
	uncertain.lost, uncertain.lostGrant = 1, true
	call := func(g *right, from, to time.Duration, how string) use {
		return use{of: g, kind: "put", began: from * s, ended: to * s, done: how == "done", denied: how == "denied"}
	}
	for _, tt := range []struct {
		name        string
		use         use
		want        string
		after, with int
	}{
		{"before it is asked for", call(whole, 0, 0, "done"), "the right was asked for at 1s", 0, 0},
		{"denied before it is granted", call(whole, 1, 3, "denied"), "", 0, 0},
		{"while it is granted", call(whole, 0, 3, "done"), "", 0, 0},
		{"with the right", call(whole, 3, 9, "done"), "", 0, 1},
		{"denied with the right", call(whole, 3, 9, "denied"), "was denied at 3s to 9s", 0, 0},
		{"denied with a right that nobody revokes", call(times(1, 2, 0, 0), 3, 9, "denied"), "was denied at 3s", 0, 0},
		{"denied while it is revoked", call(whole, 3, 11, "denied"), "", 0, 0},
		{"done while it is revoked", call(whole, 11, 13, "done"), "", 0, 0},
		{"done when it was revoked", call(whole, 13, 14, "done"), "the right was revoked by 12s", 0, 0},
		{"denied when it was revoked", call(whole, 13, 14, "denied"), "", 1, 0},
		{"not known when it was revoked", call(whole, 13, 14, ""), "", 0, 0},
		{"done after a grant that came late", call(uncertain, 13, 14, "done"), "", 0, 0},
	} {
		rs := rights{uses: []use{tt.use}}
		after, with, err := rs.judge()
		got := ""
		if err != nil {
			got = err.Error()
		}
		found(t, tt.name, got, tt.want)
		if after != tt.after || with != tt.with {
			t.Errorf("%s: counted %d after a revocation and %d with a right, want %d and %d", tt.name, after, with, tt.after, tt.with)
		}
	}
}

// A user calls with its newest right, or with those before.
func TestRightsAreDrawn(t *testing.T) {
	rs := rights{}
	for _, key := range []string{"a", "b", "c"} {
		rs.add(&right{user: "u0", key: key})
		rs.add(&right{user: "u1", key: "other"})
	}
	for before, want := range []string{"c", "b", "a"} {
		if g := rs.draw("u0", before); g == nil || g.key != want {
			t.Errorf("%d before the newest there is %+v, want %s", before, g, want)
		}
	}
	if g := rs.draw("u0", 3); g != nil {
		t.Errorf("before the first there is %+v", g)
	}
}

// Another token is wanted where a member has forgotten the one, and not where a right is missing.
func TestStaleTokens(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, rpctypes.ErrGRPCInvalidAuthToken: true, rpctypes.ErrGRPCAuthOldRevision: true, rpctypes.ErrGRPCUserEmpty: true,
		rpctypes.ErrGRPCPermissionDenied: false, errors.New("x"): false,
	} {
		if stale(err) != want {
			t.Errorf("%v wants another token: %v", err, !want)
		}
	}
}

// The judge of a cluster that began anew is shown states that it must not have.
func TestJudgeLast(t *testing.T) {
	writes := []lastWrite{{"f/0", "a", 5}, {"f/0", "b", 6}, {"f/0", "c", 0}, {"f/0", "d", 9}}
	for _, tt := range []struct {
		name, value string
		rev, known  int64
		want        string
	}{
		{"the newest", "d", 9, 9, ""},
		{"the newest that it knew", "b", 6, 7, ""},
		{"one that it had and did not know of", "d", 9, 7, ""},
		{"one that nobody heard of", "c", 7, 6, ""},
		{"one that was overwritten", "a", 5, 6, `was written "b" at revision 6`},
		{"nothing", "", 0, 5, `was written "a" at revision 5, and is "" at 0`},
		{"nothing, and it knew nothing", "", 0, 4, ""},
		{"what nobody wrote", "x", 9, 4, "which nobody wrote"},
		{"another revision", "d", 8, 4, "which nobody wrote"},
	} {
		got := &clientv3.GetResponse{}
		if tt.rev > 0 {
			got = (*clientv3.GetResponse)(&pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte("f/0"), Value: []byte(tt.value), ModRevision: tt.rev}}})
		}
		text := ""
		if err := judgeLast(got, writes, tt.known); err != nil {
			text = err.Error()
		}
		found(t, tt.name, text, tt.want)
	}
}

// Registers have to be as all members had agreed.
func TestJudgeSettled(t *testing.T) {
	log := []event{{rev: 2, key: "k/0", value: "a"}, {rev: 3, key: "k/0", value: "b"}, {rev: 4, key: "k/1", value: "c"}, {rev: 5, key: "k/1", deleted: true}, {rev: 6, key: "end", value: "x"}}
	for _, tt := range []struct {
		name string
		kv   *mvccpb.KeyValue
		want string
	}{
		{"as it was", &mvccpb.KeyValue{Key: []byte("k/0"), Value: []byte("b"), ModRevision: 3}, ""},
		{"gone", nil, "k/0 is gone"},
		{"older", &mvccpb.KeyValue{Key: []byte("k/0"), Value: []byte("a"), ModRevision: 2}, "is \"a\" at revision 2"},
		{"at another revision", &mvccpb.KeyValue{Key: []byte("k/0"), Value: []byte("b"), ModRevision: 4}, "at revision 4"},
		{"a deleted one", &mvccpb.KeyValue{Key: []byte("k/1"), Value: []byte("c"), ModRevision: 4}, "the register k/1 is"},
	} {
		got := &pb.RangeResponse{}
		if tt.kv != nil {
			got.Kvs = append(got.Kvs, tt.kv)
		}
		text := ""
		if err := judgeSettled((*clientv3.GetResponse)(got), log); err != nil {
			text = err.Error()
		}
		found(t, tt.name, text, tt.want)
	}
}
