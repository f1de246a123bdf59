package server

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

func TestParseRetention(t *testing.T) {
	for _, tt := range []struct {
		mode, retention string
		want            Retention
		bad             bool
	}{
		{"", "", Retention{}, false},
		{"periodic", "0", Retention{}, false},
		{"revision", "0", Retention{}, false},
		{"periodic", "2", Retention{Period: 2 * time.Hour}, false},
		{"", "30m", Retention{Period: 30 * time.Minute}, false},
		{"revision", "1000", Retention{Revisions: 1000}, false},
		{"revision", "1h", Retention{}, true},
		{"periodic", "-1", Retention{}, true},
		{"revision", "-1", Retention{}, true},
		{"revision", "many", Retention{}, true},
		{"", "long", Retention{}, true},
		{"periodic", "-5m", Retention{}, true},
		{"sometimes", "5m", Retention{}, true},
		{"sometimes", "5", Retention{}, true},
		{"periodic", "0s", Retention{}, true},
		{"periodic", "2562047", Retention{Period: 2562047 * time.Hour}, false}, // 292 years
		{"periodic", "2562048", Retention{}, true},
		{"", "10000000", Retention{}, true},
		{"revision", "10000000", Retention{Revisions: 10000000}, false},
	} {
		got, err := ParseRetention(tt.mode, tt.retention)
		if (err != nil) != tt.bad || !tt.bad && got != tt.want {
			t.Errorf("ParseRetention(%q, %q) = %+v, %v; want %+v, bad %v", tt.mode, tt.retention, got, err, tt.want, tt.bad)
		}
	}
}

func TestCompactorTarget(t *testing.T) {
	now := time.Unix(0, 0)
	periodic := &compactor{keep: Retention{Period: time.Hour}}
	var got []int64
	for i := range 13 { // every ten minutes, 100 revisions each
		got = append(got, periodic.target(int64(100*i), now.Add(time.Duration(i)*10*time.Minute)))
	}
	for i, to := range got {
		if want := int64(max(0, 100*(i-6))); to != want {
			t.Errorf("after %d minutes it compacts to %d, want %d: what was present an hour ago", 10*i, to, want)
		}
	}
	// A machine that slept has some looks to make up for.
	if to := periodic.target(5000, now.Add(24*time.Hour)); to != 1200 {
		t.Errorf("after a day without a look it compacts to %d, want 1200: what it saw last before", to)
	}
	revisions := &compactor{keep: Retention{Revisions: 1000}}
	if to := revisions.target(400, now); to != 0 {
		t.Errorf("with 400 revisions it compacts to %d, want none", to)
	}
	if to := revisions.target(1400, now); to != 400 {
		t.Errorf("with 1400 revisions it compacts to %d, want 400", to)
	}
}

// The compactor looks ten times in the period that it keeps, six minutes apart at most.
func TestCompactorLooksOftenEnough(t *testing.T) {
	for keep, want := range map[Retention]time.Duration{
		{Period: 24 * time.Hour}:   6 * time.Minute,
		{Period: time.Hour}:        6 * time.Minute,
		{Period: 10 * time.Minute}: time.Minute,
		{Period: time.Second}:      time.Second,
		{Revisions: 5}:             5 * time.Minute,
	} {
		if got := (&compactor{keep: keep}).interval(); got != want {
			t.Errorf("keeping %+v it looks every %v, want %v", keep, got, want)
		}
	}
}

// A compacting node gets one more revision between two looks of its compactor.
type compacting struct {
	store  *kv.Store
	leader uint64
	leads  time.Time // from when on it is the leader, unless zero
	fails  []error   // of its compactions, in turn
	asked  []int64   // the revisions that it was to be compacted to
	others int       // of the calls, those that were not the member's own
}

func (n *compacting) ID() uint64 { return 1 }

func (n *compacting) Leader() (id, term uint64, lostFor time.Duration) {
	if !n.leads.IsZero() && !time.Now().Before(n.leads) {
		return n.ID(), 2, 0
	}
	return n.leader, 1, 0
}

func (n *compacting) View() kv.View {
	n.store.Put(&pb.PutRequest{Key: []byte("k")})
	return n.store.View()
}

func (n *compacting) Propose(ctx context.Context, r proto.Message) (proto.Message, error) {
	if !caller.Of(ctx).Member {
		n.others++
	}
	n.asked = append(n.asked, r.(*pb.CompactionRequest).Revision)
	var err error
	if len(n.fails) > 0 {
		err, n.fails = n.fails[0], n.fails[1:]
	}
	return &pb.CompactionResponse{}, err
}

// A compaction that fails is tried again at the next look, and reported, unless another member
// has compacted already. Only the leader compacts.
func TestCompactorGoesOn(t *testing.T) {
	trouble := errors.New("no leader")
	for name, c := range map[string]struct {
		fails  []error
		leader uint64
		asked  []int64
		told   int
	}{
		"it works":          {nil, 1, []int64{1, 2, 3, 4}, 0},
		"one fails":         {[]error{trouble}, 1, []int64{1, 2, 3, 4}, 1},
		"others came first": {[]error{kv.ErrCompacted, kv.ErrCompacted}, 1, []int64{1, 2, 3, 4}, 0},
		"another leads":     {nil, 2, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &compacting{store: kv.New(), leader: c.leader, fails: c.fails}
				told := 0
				ctx, cancel := context.WithTimeout(t.Context(), 21*time.Minute)
				defer cancel()
				(&compactor{node: n, keep: Retention{Revisions: 1}}).run(ctx, func(error) { told++ })
				if n.others > 0 {
					t.Errorf("%d compactions are nobody's: while users are in force they would be refused", n.others)
				}
				if !slices.Equal(n.asked, c.asked) || told != c.told {
					t.Errorf("in four looks it compacts to %d, and tells of %d failures; want %d and %d", n.asked, told, c.asked, c.told)
				}
			})
		})
	}
}

// A member that leaves while it compacts reports no failure.
func TestCompactorLeavesInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		n := &leaving{compacting{store: kv.New(), leader: 1}, leave}
		(&compactor{node: n, keep: Retention{Revisions: 1}}).run(ctx, func(err error) {
			t.Errorf("a member that leaves tells of a compaction that failed: %v", err)
		})
		if len(n.asked) != 1 {
			t.Errorf("%d compactions, want the one in which it left", len(n.asked))
		}
	})
}

// A leaving node is told to stop while it compacts.
type leaving struct {
	compacting
	leave func()
}

func (n *leaving) Propose(ctx context.Context, r proto.Message) (proto.Message, error) {
	n.leave()
	n.compacting.Propose(ctx, r)
	return nil, ctx.Err()
}

// A member remembers revisions and their times while another leads: its first compaction as a
// leader does not wait for another period. While there is less history than is kept no member
// is asked.
func TestCompactorOfALeaderThatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &compacting{store: kv.New(), leader: 2, leads: time.Now().Add(119 * time.Minute)}
		ctx, cancel := context.WithTimeout(t.Context(), 121*time.Minute)
		defer cancel()
		(&compactor{node: n, keep: Retention{Period: time.Hour}}).run(ctx, func(err error) { t.Error(err) })
		// It looks every six minutes, of which the first sees revision 2.
		if want := []int64{11}; !slices.Equal(n.asked, want) {
			t.Errorf("after two hours, of which it led for two minutes, it has compacted to %d, want %d: what was present an hour ago", n.asked, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := &compacting{store: kv.New(), leader: 1}
		ctx, cancel := context.WithTimeout(t.Context(), 21*time.Minute)
		defer cancel()
		(&compactor{node: n, keep: Retention{Revisions: 5}}).run(ctx, func(err error) { t.Error(err) })
		if len(n.asked) != 0 {
			t.Errorf("with five revisions, all of which are kept, it has compacted to %d", n.asked)
		}
	})
}

// There is no look where all of history is kept.
func TestNothingIsCompactedByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &compacting{store: kv.New(), leader: 1}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		(&compactor{node: n}).run(ctx, func(err error) { t.Error(err) })
		if len(n.asked) != 0 || ctx.Err() != nil {
			t.Errorf("keeping all it looks for what to compact, and has compacted %d times", len(n.asked))
		}
	})
}
