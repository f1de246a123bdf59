package replica

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
)

var someHash = base64.StdEncoding.EncodeToString([]byte("hash"))

// usersChanges are all requests that change users, or log one in, in an order in which they make sense.
var usersChanges = []proto.Message{
	&pb.AuthUserAddRequest{Name: "root", HashedPassword: someHash}, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"},
	&pb.AuthUserAddRequest{Name: "ann", HashedPassword: someHash}, &pb.AuthRoleAddRequest{Name: "r"},
	&pb.AuthRoleGrantPermissionRequest{Name: "r", Perm: &authpb.Permission{PermType: authpb.READWRITE, Key: []byte("a")}},
	&pb.AuthUserGrantRoleRequest{User: "ann", Role: "r"}, &pb.AuthEnableRequest{},
	&pb.InternalAuthenticateRequest{Name: "ann", SimpleToken: "digest"},
	&pb.AuthUserRevokeRoleRequest{Name: "ann", Role: "r"},
	&pb.AuthRoleRevokePermissionRequest{Role: "r", Key: []byte("a")}, &pb.AuthRoleDeleteRequest{Role: "r"},
	&pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: someHash}, &pb.AuthUserDeleteRequest{Name: "ann"},
	&pb.AuthDisableRequest{},
}

// judge applies an entry with some requests of a caller, and returns the results.
func judge(t *testing.T, a *Applier, c auth.Caller, list ...proto.Message) []Result {
	t.Helper()
	b := &batch{Term: 2, From: 1, Boot: 7, Seq: a.Index() + 1}
	for i, m := range list {
		body, err := EncodeRequest(m)
		if err != nil {
			t.Fatal(err)
		}
		b.Requests = append(b.Requests, Propose{ID: uint64(i + 1), Body: body, Caller: c})
	}
	index, term := a.Index()+1, uint64(2)
	if err := a.Apply(&raftpb.Entry{Index: &index, Term: &term, Data: b.encode()}); err != nil {
		t.Fatal(err)
	}
	_, results := a.Take()
	return results
}

// withUsers is an Applier with the users root and ann in force; ann may read and write "a".
func withUsers(t *testing.T) *Applier {
	a := NewApplier(1, 7)
	for _, m := range usersChanges[:7] {
		if got := judge(t, a, auth.Caller{}, m); got[0].Err != nil {
			t.Fatalf("%T: %v", m, got[0].Err)
		}
	}
	return a
}

func (a *Applier) as(name string) auth.Caller {
	return auth.Caller{User: name, Revision: a.Users().Revision()}
}

// Each request that changes users is read as it was written, and has an answer with a header.
func TestChangesOfUsers(t *testing.T) {
	a := NewApplier(1, 7)
	judge(t, a, auth.Caller{}, &pb.PutRequest{Key: []byte("k")})
	for _, m := range usersChanges {
		if !auth.Changes(m) {
			t.Errorf("%T is no change of users", m)
		}
		if back := unwrapUsers(wrapUsers(m)); back != m {
			t.Errorf("%T is read as %T", m, back)
		}
		c := auth.Caller{}
		if a.Users().Enabled() {
			c = a.as("root")
		}
		got := judge(t, a, c, m)
		if len(got) != 1 || got[0].Err != nil {
			t.Fatalf("%T is answered %+v", m, got)
		}
		head, ok := got[0].Response.(interface{ GetHeader() *pb.ResponseHeader })
		if !ok || head.GetHeader().GetRevision() != 2 {
			t.Errorf("%T is answered %v, want a header with revision 2", m, got[0].Response)
		}
	}
	if wrapUsers(&pb.PutRequest{}) != nil || unwrapUsers(&pb.InternalRaftRequest{}) != nil {
		t.Error("what changes no users is one of their changes")
	}
	before := a.Users()
	body, err := encodeRequest(kindUsers, &pb.InternalRaftRequest{})
	if err != nil {
		t.Fatal(err)
	}
	index, term := a.Index()+1, uint64(2)
	nothing := (&batch{Term: 2, From: 1, Boot: 7, Requests: []Propose{{ID: 1, Body: body}}}).encode()
	if err := a.Apply(&raftpb.Entry{Index: &index, Term: &term, Data: nothing}); err != nil || a.Users() != before {
		t.Errorf("a change of nothing: %v; it has to be refused to its caller only", err)
	}
}

// Requests are judged by the users at their place in the log, also within an entry (AU-12).
func TestRequestsAreJudged(t *testing.T) {
	a := withUsers(t)
	put := func(key string) *pb.PutRequest { return &pb.PutRequest{Key: []byte(key)} }
	check := func(name string, c auth.Caller, m proto.Message, want error) {
		t.Helper()
		rev := a.Store().Revision()
		got := judge(t, a, c, m)
		if !errors.Is(got[0].Err, want) {
			t.Errorf("%s: got %v, want %v", name, got[0].Err, want)
		}
		if want != nil && (a.Store().Revision() != rev || got[0].Response != nil) {
			t.Errorf("%s is refused, and has an effect: %+v", name, got[0])
		}
	}
	ann, root := a.as("ann"), a.as("root")
	check("nobody puts", auth.Caller{}, put("a"), auth.ErrUserEmpty)
	check("ann puts her key", ann, put("a"), nil)
	check("ann puts another one", ann, put("b"), auth.ErrDenied)
	check("root puts", root, put("b"), nil)
	check("ann deletes", ann, &pb.DeleteRangeRequest{Key: []byte("b")}, auth.ErrDenied)
	check("ann's transaction", ann, &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("b")}}}, auth.ErrDenied)
	check("ann compacts", ann, &pb.CompactionRequest{Revision: 2}, auth.ErrDenied)
	check("nobody adds a user", auth.Caller{}, &pb.AuthUserAddRequest{Name: "x"}, auth.ErrUserEmpty)
	check("ann adds a user", ann, &pb.AuthUserAddRequest{Name: "x"}, auth.ErrDenied)
	check("nobody switches users off", auth.Caller{}, &pb.AuthDisableRequest{}, auth.ErrUserEmpty)
	check("the member compacts", auth.Caller{Member: true}, &pb.CompactionRequest{Revision: 2}, nil)
	check("nobody grants", auth.Caller{}, &pb.LeaseGrantRequest{ID: 5, TTL: 60}, auth.ErrUserEmpty)
	check("root grants", root, &pb.LeaseGrantRequest{ID: 5, TTL: 60}, nil)
	check("root attaches", root, &pb.PutRequest{Key: []byte("b"), Lease: 5}, nil)
	check("ann revokes root's lease", ann, &pb.LeaseRevokeRequest{ID: 5}, auth.ErrDenied)
	check("ann attaches to it", ann, &pb.PutRequest{Key: []byte("a"), Lease: 5}, auth.ErrDenied)

	both := judge(t, a, root, put("c"), &pb.AuthRoleAddRequest{Name: "q"}, put("c"))
	if both[0].Err != nil || both[1].Err != nil || !errors.Is(both[2].Err, auth.ErrOldRevision) {
		t.Errorf("a put behind a change of users in an entry: got %+v, want it to be judged by the users after the change", both)
	}
	check("ann, from before the change", ann, put("a"), auth.ErrOldRevision)
}

// Requests that members make by themselves are judged by nobody.
func TestMembersAreNotJudged(t *testing.T) {
	a := withUsers(t)
	judge(t, a, a.as("root"), &pb.LeaseGrantRequest{ID: 5, TTL: 60}, &pb.LeaseGrantRequest{ID: 6, TTL: 60})
	for _, m := range []proto.Message{
		&pb.Member{ID: 1, Name: "x"}, wrapperspb.String("off"),
	} {
		if got := judge(t, a, auth.Caller{}, m); got[0].Err != nil {
			t.Errorf("%T: got %v", m, got[0].Err)
		}
	}
	for name, body := range map[string][]byte{
		"a read by the log": EncodeRead(keyspan.Set{{Key: []byte("b")}}),
		"a checkpoint":      bodyOf(t, kindCheckpoint, listOf([]int64{6})), "an expiry": bodyOf(t, kindExpire, listOf([]int64{5})),
	} {
		index, term := a.Index()+1, uint64(2)
		e := &raftpb.Entry{Index: &index, Term: &term, Data: (&batch{Term: 2, From: 1, Boot: 7, Requests: []Propose{{ID: 9, Body: body}}}).encode()}
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
		if _, got := a.Take(); len(got) != 1 || got[0].Err != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if _, ok := a.Store().View().Lease(5); ok {
		t.Error("a lease does not expire while users are in force")
	}
}

// A user that logs in gets the index of the entry, which all members know (AU-13).
func TestTokensAreGiven(t *testing.T) {
	a := withUsers(t)
	rev := a.Users().Revision()
	got := judge(t, a, a.as("ann"), &pb.InternalAuthenticateRequest{Name: "ann", SimpleToken: "digest"})
	if got[0].Err != nil || got[0].Response.(*pb.AuthenticateResponse).Token != "9" {
		t.Fatalf("ann logs in by entry 9: got %+v", got[0])
	}
	if tokens := a.TakeTokens(); len(tokens) != 1 || tokens[0] != (Token{Digest: "digest", Index: 9, User: "ann", Revision: rev}) {
		t.Errorf("got the tokens %+v", tokens)
	}
	if tokens := a.TakeTokens(); len(tokens) != 0 {
		t.Errorf("got the tokens %+v again", tokens)
	}
	got = judge(t, a, auth.Caller{User: "ann", Revision: 1}, &pb.InternalAuthenticateRequest{Name: "ann", SimpleToken: "digest"})
	if !errors.Is(got[0].Err, auth.ErrOldRevision) || len(a.TakeTokens()) != 0 {
		t.Errorf("ann logs in with a password from before she was made: got %+v", got[0])
	}
}

// Callers stand in the entry beside the bodies, and only if there are any.
func TestBatchesWithCallers(t *testing.T) {
	plain := &batch{Term: 2, From: 3, Boot: 4, Seq: 5, Requests: []Propose{{ID: 1, Body: putOf(t, "k")}, {ID: 2, Body: putOf(t, "l")}}}
	called := &batch{Term: 2, From: 3, Boot: 4, Seq: 5, Requests: []Propose{
		{ID: 1, Body: putOf(t, "k"), Caller: auth.Caller{User: "ann", Revision: 300}}, {ID: 2, Body: putOf(t, "l")},
		{ID: 3, Body: putOf(t, "m"), Caller: auth.Caller{Member: true}},
	}}
	if p := plain.encode(); p[0] != entryVersion || hasCallers(p) {
		t.Errorf("a batch without callers is of version %d, want %d", p[0], entryVersion)
	}
	last := &batch{Requests: []Propose{{ID: 1, Body: putOf(t, "k")}, {ID: 2, Body: putOf(t, "l"), Caller: auth.Caller{User: "ann", Revision: 3}}}}
	if back, err := decodeBatch(last.encode()); err != nil || len(back.Requests) != 2 || back.Requests[1].Caller != last.Requests[1].Caller {
		t.Errorf("a batch of which only the last request has a caller is read as %+v, %v", back, err)
	}
	p := called.encode()
	if p[0] != 4 || !hasCallers(p) || isKept(p) || soundBatch(p) != nil {
		t.Errorf("a batch with callers is of version %d, want 4; sound: %v", p[0], soundBatch(p))
	}
	for _, kept := range []bool{false, true} {
		if kept {
			keep(p)
		}
		if isKept(p) != kept {
			t.Errorf("kept: %v, want %v", isKept(p), kept)
		}
		back, err := decodeBatch(p)
		if err != nil || len(back.Requests) != 3 {
			t.Fatalf("got %+v, %v", back, err)
		}
		for i, r := range back.Requests {
			if want := called.Requests[i]; r.ID != want.ID || r.Caller != want.Caller || !bytes.Equal(r.Body, want.Body) {
				t.Errorf("request %d is read as %+v, want %+v", i, r, want)
			}
		}
		term := uint64(2)
		e := &raftpb.Entry{Data: p, Term: &term}
		n := 0
		if from, k := glance(e, func(body []byte) { n++ }); from != 3 || k != kept || n != 3 {
			t.Errorf("at a glance it is of %d, kept %v, with %d requests, want of 3, kept %v, with 3", from, k, n, kept)
		}
		var touch Touch
		if touch.scan(e); touch.all || len(touch.Keys.Writes) != 3 || string(touch.Keys.Writes[2].Key) != "m" {
			t.Errorf("it touches %+v, want k, l and m", touch.Keys.Writes)
		}
	}
	for n := range p {
		if _, err := decodeBatch(p[:n]); err == nil {
			t.Errorf("%d bytes of %d are a batch", n, len(p))
		}
	}
	bad := bytes.Replace(p, []byte("\x03\x02"), []byte("\x03\x09"), 1) // that of the member
	if _, err := decodeBatch(bad); err == nil || soundBatch(bad) == nil {
		t.Error("a caller of an unknown kind is read")
	}
	if r := called.Requests[0]; r.size() < len(p)-len((&batch{}).encode())-2*len(putOf(t, "k")) {
		t.Errorf("a request with a caller is of %d bytes at most", r.size())
	}
}

// Members of an earlier version cannot read of users, and end.
func TestAnEarlierVersionEndsAtUsers(t *testing.T) {
	for name, r := range map[string]Propose{
		"a caller": {Body: putOf(t, "k"), Caller: auth.Caller{User: "a"}}, "a change": {Body: bodyOf(t, kindUsers, &pb.InternalRaftRequest{AuthEnable: &pb.AuthEnableRequest{}})},
	} {
		a := NewApplier(1, 7)
		a.Older()
		index, term := uint64(2), uint64(2)
		if err := a.Apply(&raftpb.Entry{Index: &index, Term: &term, Data: (&batch{Term: 2, Requests: []Propose{r}}).encode()}); !errors.Is(err, errBadEntry) {
			t.Errorf("%s: got %v, want %v", name, err, errBadEntry)
		}
	}
}

// Users are in a snapshot if there ever were any, and others are as before.
func TestSnapshotsHaveUsers(t *testing.T) {
	written := func(a *Applier) []byte {
		var b bytes.Buffer
		snap := a.Snapshot()
		defer snap.Release()
		if _, err := snap.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if p := written(NewApplier(1, 7)); bytes.Contains(p, []byte(usersMagic)) {
		t.Error("a snapshot has users, and there never were any")
	}
	a := withUsers(t)
	p := written(a)
	to := NewApplier(1, 7)
	if err := to.Restore(bytes.NewReader(p), 8, 2); err != nil {
		t.Fatal(err)
	}
	if string(to.Users().Encode()) != string(a.Users().Encode()) || !to.Restored().UsersUsed {
		t.Error("the users are others behind a snapshot")
	}
	if err := to.Restore(bytes.NewReader(written(NewApplier(1, 7))), 8, 2); err != nil || to.Users().Used() || to.Restored().UsersUsed {
		t.Errorf("a snapshot without users leaves those from before it: %v", err)
	}
	at := bytes.Index(p, []byte(usersMagic)) + len(usersMagic) + 4
	p[at]++
	if err := to.Restore(bytes.NewReader(p), 8, 2); err == nil || !strings.Contains(err.Error(), "users and roles") {
		t.Errorf("damaged users: got %v", err)
	}
}

// A leader takes the first change of users when all members are known to know of them (AU-11).
func TestUsersWaitForAllMembers(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	r := s.members[0].r
	body, err := EncodeRequest(&pb.AuthRoleAddRequest{Name: "r"})
	if err != nil {
		t.Fatal(err)
	}
	requests := []Propose{{ID: 1, Body: body}}
	entry := (&batch{Term: r.term, From: 1, Boot: 1, Seq: 9, Requests: requests}).encode()
	all := levels{2: usersLevel, 3: usersLevel}
	for _, tt := range []struct {
		name  string
		known levels
		late  bool
		used  bool
		want  verdict
	}{
		{"all members know users", all, false, false, accepted},
		{"one has not said so yet", levels{2: usersLevel}, false, false, notNow},
		{"one has not said so for long", levels{2: usersLevel}, true, false, usersUnknown},
		{"one is of an earlier version", levels{2: usersLevel, 3: keepsLevel}, true, false, usersUnknown},
		{"there were users before", levels{2: usersLevel}, true, true, accepted},
	} {
		r.levels, r.usersUsed, r.leadership.since = tt.known, tt.used, r.now.Add(1-r.cfg.electionTimeout())
		if tt.late {
			r.leadership.since = r.now.Add(-r.cfg.electionTimeout())
		}
		last := r.last
		if got := r.admit(r.term, entry, requests); got != tt.want || (got == accepted) != (r.last == last+1) {
			t.Errorf("%s: got verdict %v, want %v; the log ends at %d, %d before", tt.name, got, tt.want, r.last, last)
		}
	}
	if usersUnknown.err() != errUsersUnknown {
		t.Errorf("the reason is %v", usersUnknown.err())
	}
	if r.admit(r.term-1, entry, requests) != notNow {
		t.Error("a change of users for another term is taken")
	}
	fresh := NewApplier(1, 7)
	if in, _ := fresh.Take(); in.UsersUsed {
		t.Error("users were changed, says a state without any")
	}
	judge(t, fresh, auth.Caller{}, &pb.AuthRoleAddRequest{Name: "r"})
	r.usersUsed = false
	if in := fresh.Restored(); !in.UsersUsed {
		t.Error("users were never changed, says a state with some")
	} else {
		r.onApplied(Applied{UsersUsed: in.UsersUsed})
	}
	if !r.usersUsed {
		t.Error("a leader does not learn that there are users")
	}
}

// A change of users has a batch to itself.
func TestChangesOfUsersAreAlone(t *testing.T) {
	change := Propose{Body: bodyOf(t, kindUsers, &pb.InternalRaftRequest{AuthEnable: &pb.AuthEnableRequest{}})}
	put := Propose{Body: putOf(t, "k")}
	l := &lane{open: []Propose{put, put, change, change, put}}
	var sizes []int
	for len(l.open) > 0 {
		sizes = append(sizes, len(l.next(1<<20)))
	}
	if len(sizes) != 4 || sizes[0] != 2 {
		t.Errorf("two puts, two changes of users and a put make batches of %v, want of 2, 1, 1 and 1", sizes)
	}
	if !solitary([]Propose{change}) || solitary([]Propose{put}) || solitary(nil) {
		t.Error("changes of users are alone, and puts are not")
	}
}

// Without users in force a request costs no allocation more.
func TestUsersThatAreNotThereCostNothing(t *testing.T) {
	b := &batch{Term: 2, From: 3, Boot: 4, Seq: 5, Requests: []Propose{{ID: 1, Body: putOf(t, "k")}, {ID: 2, Body: putOf(t, "l")}}}
	if got := testing.AllocsPerRun(100, func() { b.encode() }); got != 1 {
		t.Errorf("a batch without callers is encoded with %v allocations, want that of its bytes", got)
	}
	a, put := NewApplier(1, 7), &pb.PutRequest{Key: []byte("k")}
	if got := testing.AllocsPerRun(100, func() { _ = a.permits(auth.Caller{}, kindPut, put) }); got != 0 {
		t.Errorf("a request is judged with %v allocations, want none", got)
	}
}
