package replica

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A follower learns from its leader's news which entries are released: all up to an index, and up to the
// horizon all that are not named as held. It goes no further than it knows the log to be committed,
// since the rest may be replaced. It looks again when it knows of more that is committed, or has other news.
func TestWhatIsLearntFromNews(t *testing.T) {
	type step struct {
		news    quorumlease.News
		commit  uint64
		through uint64
		apart   []uint64
	}
	news := func(term, released, horizon uint64, held ...uint64) quorumlease.News {
		return quorumlease.News{Term: term, Released: released, Horizon: horizon, Held: held}
	}
	keys := map[uint64]string{10: "a", 11: "b", 13: "c", 14: "b", 15: "d"} // that the entries put; 12 is a leader's first
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"nothing new", []step{{news(1, 9, 9), 15, 9, nil}}},
		{"a prefix", []step{{news(1, 11, 11), 15, 11, nil}}},
		{"a prefix beyond the commit", []step{{news(1, 13, 15), 11, 11, nil}, {news(1, 13, 13), 12, 12, nil}, {news(1, 13, 13), 15, 13, nil}}},
		{"a horizon beyond the commit", []step{{news(1, 9, 15, 10), 12, 9, []uint64{11, 12}}, {news(1, 9, 15, 10), 14, 9, []uint64{13, 14}}, {news(1, 9, 15, 10), 15, 9, []uint64{15}}}},
		{"a commit beyond the horizon", []step{{news(1, 9, 12, 10), 15, 9, []uint64{11, 12}}, {news(1, 9, 13, 10), 15, 9, []uint64{13}}}},
		{"an entry that is not held any more", []step{{news(1, 9, 15, 10, 15), 15, 9, []uint64{11, 12, 13, 14}}, {news(1, 9, 15, 15), 15, 14, nil}, {news(1, 9, 15), 15, 15, nil}}},
		{"a fence that is held", []step{{news(1, 9, 15, 12), 15, 11, []uint64{13, 14, 15}}, {news(1, 9, 15), 15, 15, nil}}},
		{"the news of another leader", []step{{news(1, 9, 13, 10), 13, 9, []uint64{11, 12, 13}}, {news(2, 9, 13, 11), 13, 13, nil}}},
		{"an entry that another depends on", []step{{news(1, 9, 15, 11, 14), 15, 10, []uint64{12, 13, 15}}, {news(1, 9, 15, 14), 15, 13, nil}}},
		{"all that was apart", []step{{news(1, 9, 15, 10), 15, 9, []uint64{11, 12, 13, 14, 15}}, {news(1, 15, 15), 15, 15, nil}}},
	} {
		k := &keyReader(9).reads.keys
		k.told = 9
		for i := uint64(10); i <= 15; i++ {
			if i == 12 {
				k.appended(&raftpb.Entry{Index: new(i), Term: new(uint64(1))})
			} else {
				k.appended(entryOfPuts(t, 1, i, keys[i]))
			}
		}
		for n, s := range tt.steps {
			k.news = s.news
			for _, again := range []bool{false, true} {
				before := k.through
				k.learn(s.commit)
				out, ok := k.report()
				if again && ok {
					t.Errorf("%s: step %d: what is released is learnt twice: %+v", tt.name, n, out)
				}
				if !again && (k.through != s.through || ok != (s.through > before || len(s.apart) > 0) || len(out.Apart)+len(s.apart) > 0 && !reflect.DeepEqual(out.Apart, s.apart)) {
					t.Errorf("%s: step %d: of a log committed up to %d and news %+v, all up to %d is released and %d apart, want %d and %d", tt.name, n, s.commit, s.news, k.through, out.Apart, s.through, s.apart)
				}
			}
		}
	}
}

// vouchers is a ledger of term 2 of three voters, of which some have reported the log up to an index and are bound to
// nobody, and member 3 to everybody that it names.
func vouchers(upTo map[machine.NodeID]uint64, bound ...quorumlease.Lifetime) *quorumlease.Ledger {
	l := new(quorumlease.Ledger)
	l.Begin(2, quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}})
	for _, m := range slices.Sorted(maps.Keys(upTo)) {
		report := quorumlease.Report{Boot: 1, Term: 2, Durable: upTo[m]}
		if m == 3 {
			report.Holders = bound
		}
		l.Report(m, report)
	}
	return l
}

// The leader finds out by reports what is released, and takes nobody's word. A follower takes the leader's word. One that
// has the reports does both, but leaves to the leader what that keeps, and trusts no report before it knows its
// own state. None goes beyond what is committed here.
func TestWhoFindsOutWhatIsReleased(t *testing.T) {
	all, leader := map[machine.NodeID]uint64{1: 14, 2: 14}, keeper{1, 2}
	told := func(upTo uint64, held ...uint64) quorumlease.News {
		return quorumlease.News{Term: 2, Released: 9, Horizon: upTo, Held: held}
	}
	for _, tt := range []struct {
		name    string
		vouch   map[machine.NodeID]uint64 // nil: without reports
		left    keeper
		news    quorumlease.News
		commit  uint64
		change  func(k *keyOrder)
		through uint64
		apart   []uint64
	}{
		{"the leader by reports", all, keeper{}, told(14, 11), 14, nil, 14, nil},
		{"the leader, up to the commit", all, keeper{}, told(14), 12, nil, 12, nil},
		{"the leader, before a majority has vouched", map[machine.NodeID]uint64{1: 14, 2: 11}, keeper{}, told(14), 14, nil, 11, nil},
		{"the leader, with a holder that lacks an entry", map[machine.NodeID]uint64{1: 14, 3: 14}, keeper{}, told(14), 14, nil, 9, nil},
		{"a follower without reports", nil, keeper{}, told(14, 11), 14, nil, 10, []uint64{12, 13, 14}},
		{"a follower without reports, up to the commit", nil, keeper{}, told(14, 11), 13, nil, 10, []uint64{12, 13}},
		{"one that has reports", all, leader, told(9), 14, nil, 11, []uint64{13, 14}},
		{"one that has reports, up to the commit", all, leader, told(9), 13, nil, 11, []uint64{13}},
		{"one that has reports and the leader's word", all, leader, told(14), 14, nil, 14, nil},
		{"one that has reports, of another leader", all, keeper{3, 2}, told(9), 14, nil, 14, nil},
		{"one that has reports and not its state", all, leader, told(9), 14, func(k *keyOrder) { k.blind, k.loading = true, true }, 9, nil},
		{"one that has reports, and knows its state by now", all, leader, told(9), 14, func(k *keyOrder) { k.blind = true }, 11, []uint64{13, 14}},
	} {
		k := &keyReader(9).reads.keys
		k.told = 9
		for i := uint64(10); i <= 14; i++ {
			e := entryOfPuts(t, 2, i, string(rune('a'+i-10)))
			if i == 12 {
				keep(e.Data)
			}
			k.appended(e)
		}
		k.news = tt.news
		if tt.change != nil {
			tt.change(k)
		}
		by := reports{left: tt.left}
		if tt.vouch != nil {
			by.ledger = vouchers(tt.vouch, quorumlease.Lifetime{Member: 2, Boot: 1})
		}
		out, ok := k.reported(positions{committed: tt.commit, handedOut: tt.commit}, by)
		if want := (Released{Through: tt.through, Apart: tt.apart}); k.through != tt.through || len(out.Apart)+len(tt.apart) > 0 && !reflect.DeepEqual(out, want) || ok != (tt.through > 9 || len(tt.apart) > 0) {
			t.Errorf("%s: %+v is released, %v, all up to %d; want %+v", tt.name, out, ok, k.through, want)
		}
	}
}

// An entry that touches nothing is released as far as a majority has the log in this term, for the next leader has it.
func TestEntriesThatTouchNothing(t *testing.T) {
	k := &keyReader(9).reads.keys
	for i := uint64(10); i <= 13; i++ {
		k.appended(entryOf(i, bodyOf(t, kindCheckpoint, listOf([]int64{7}))))
	}
	k.reported(positions{committed: 13}, reports{ledger: vouchers(map[machine.NodeID]uint64{1: 13, 2: 11, 3: 10})})
	if k.through != 11 || len(k.missed) > 0 {
		t.Errorf("a majority has the log up to 11, and all up to %d is released; holders may lack %+v", k.through, k.missed)
	}
}

// All is released up to the first entry that is held, a fence or not. Nothing that is released is remembered
// then, and of divisions the last released one and those behind it are. A released index stays released.
func TestHowFarAllIsReleased(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(k *keyOrder)
		upTo    uint64
		through uint64
		known   string
	}{
		{"nothing", func(*keyOrder) {}, 15, 9, "divisions [9 13], missed [10 14], fences [12 13], kept [10 14]"},
		{"the first", func(k *keyOrder) { k.release(10) }, 15, 11, "divisions [9 13], missed [14], fences [12 13], kept [14]"},
		{"the first, and as much is known", func(k *keyOrder) { k.release(10) }, 10, 10, "divisions [9 13], missed [14], fences [12 13], kept [14]"},
		{"the first and a fence", func(k *keyOrder) { k.release(10); k.fences = k.fences[1:] }, 15, 12, "divisions [9 13], missed [14], fences [13], kept [14]"},
		{"all but the last", func(k *keyOrder) { k.releaseThrough(13) }, 15, 13, "divisions [13], missed [14], fences [], kept [14]"},
		{"all fences but the last", func(k *keyOrder) { k.releaseThrough(12) }, 15, 12, "divisions [9 13], missed [14], fences [13], kept [14]"},
		{"all", func(k *keyOrder) { k.releaseThrough(13); k.release(14) }, 15, 15, "divisions [13], missed [], fences [], kept []"},
		{"more than is known", func(k *keyOrder) { k.releaseThrough(14) }, 11, 14, "divisions [13], missed [], fences [], kept []"},
		{"while a snapshot hides it", func(k *keyOrder) { k.release(10); k.blind, k.loading = true, true }, 15, 9, "divisions [9 13], missed [10 14], fences [12 13], kept [10 14]"},
	} {
		k := &keyReader(9).reads.keys
		cells, err := EncodeRequest(wrapperspb.Bytes(division(t).Encode()))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []*raftpb.Entry{
			entryOfPuts(t, 1, 10, "a"), entryOf(11, bodyOf(t, kindCheckpoint, listOf([]int64{7}))), {Index: new(uint64(12)), Term: new(uint64(1))}, entryOf(13, cells), entryOfPuts(t, 1, 14, "b"),
		} {
			k.appended(e)
		}
		k.own = []uint64{10, 14}
		tt.change(k)
		k.advance(tt.upTo)
		var divisions, missed []uint64
		for _, c := range k.confs {
			divisions = append(divisions, c.index)
		}
		for _, m := range k.missed {
			missed = append(missed, m.entries...)
		}
		if known := fmt.Sprintf("divisions %d, missed %d, fences %d, kept %d", divisions, missed, k.fences, k.own); k.through != tt.through || known != tt.known {
			t.Errorf("%s is released, with %d known: all up to %d; %s; want %d; %s", tt.name, tt.upTo, k.through, known, tt.through, tt.known)
		}
		if len(k.missed) > 0 && len(missed) == 0 {
			t.Errorf("%s is released, and %d groups of holders lack nothing", tt.name, len(k.missed))
		}
	}
}

// While a part of a snapshot is not known to be released, only the leader's word for what is released whole counts. It
// ends the blindness once the snapshot is loaded. An entry is reported as released once.
func TestBehindASnapshotOnlyThePrefixCounts(t *testing.T) {
	k := &keyReader(9).reads.keys
	k.start(20, 15, readSetting{policy: quorumlease.AllByKey}, []*raftpb.Entry{entryOfPuts(t, 2, 21, "k"), entryOfPuts(t, 2, 22, "m")})
	k.told, k.loading = 15, true
	for n, step := range []struct {
		news    quorumlease.News
		loaded  bool
		through uint64
		apart   []uint64
		blind   bool
	}{
		{quorumlease.News{Term: 2, Released: 16, Horizon: 22, Held: []uint64{18}}, false, 16, nil, true},
		{quorumlease.News{Term: 2, Released: 17, Horizon: 22, Held: []uint64{18}}, true, 17, nil, true},
		{quorumlease.News{Term: 2, Released: 18, Horizon: 22, Held: []uint64{19}}, false, 18, nil, true},
		{quorumlease.News{Term: 2, Released: 20, Horizon: 22, Held: []uint64{21}}, false, 20, nil, true},
		{quorumlease.News{Term: 2, Released: 20, Horizon: 22, Held: []uint64{21}}, true, 20, []uint64{22}, false},
		{quorumlease.News{Term: 2, Released: 22, Horizon: 22}, true, 22, nil, false},
	} {
		k.loading = !step.loaded
		k.news = step.news
		k.learn(22)
		out, _ := k.report()
		if k.through != step.through || len(out.Apart)+len(step.apart) > 0 && !slices.Equal(out.Apart, step.apart) || k.blind != step.blind {
			t.Errorf("step %d: loaded %v, and news %+v: all up to %d is released, and %d apart; blind: %v; want %d, %d, %v", n, step.loaded, step.news, k.through, out.Apart, k.blind, step.through, step.apart, step.blind)
		}
	}
	k = &keyReader(9).reads.keys
	k.told = 9
	k.appended(entryOfPuts(t, 2, 10, "a"))
	k.appended(entryOfPuts(t, 2, 11, "b"))
	for _, want := range [][]uint64{{11}, {}} {
		k.assured(11)
		if out, _ := k.report(); len(out.Apart) != len(want) {
			t.Errorf("that no holder lacks entry 11 is found out again, and %d is reported, want %d", out.Apart, want)
		}
	}
}

// Committed entries are applied at once, and held. While the log turns to strict order, what is released is: as far as
// this member or its leader knows. Here only what is committed is released.
func TestWhatIsAppliedInKeyOrder(t *testing.T) {
	for _, tt := range []struct {
		through, released, committed uint64
		ending                       bool
		upTo, here                   uint64
	}{
		{9, 9, 14, false, 14, 9},
		{12, 9, 14, true, 12, 12},
		{9, 12, 14, true, 12, 9},
		{15, 15, 14, false, 14, 14},
	} {
		k := &keyReader(9).reads.keys
		k.through = tt.through
		at := positions{released: tt.released, committed: tt.committed, handedOut: tt.committed}
		if upTo, held := k.committed(at, tt.ending); upTo != tt.upTo || !held || k.releasedHere(at) != tt.here || k.visible(99) != tt.through {
			t.Errorf("committed up to %d, released up to %d, by the leader %d, the order ends: %v: entries up to %d are given, held %v; here %d is released, and %d visible; want %d, %d, %d",
				tt.committed, tt.through, tt.released, tt.ending, upTo, held, k.releasedHere(at), k.visible(99), tt.upTo, tt.here, tt.through)
		}
	}
}

// A leader may keep a batch of keys of which it holds some, if the keys are in the batch itself.
func TestWhichBatchesMayBeKept(t *testing.T) {
	for _, tt := range []struct {
		name   string
		bodies [][]byte
		writes keyspan.Set
		want   bool
	}{
		{"of a key that it holds", [][]byte{putOf(t, "a")}, key("a"), true},
		{"of a key that another holds", [][]byte{putOf(t, "x")}, key("x"), false},
		{"of keys of both", [][]byte{putOf(t, "x"), putOf(t, "a")}, append(key("x"), key("a")...), true},
		{"with the end of a lease", [][]byte{putOf(t, "a"), bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7})}, key("a"), false},
		{"of nothing", [][]byte{bodyOf(t, kindCheckpoint, listOf([]int64{7}))}, nil, false},
	} {
		k := &keyReader(9).reads.keys
		k.confs = []conf{{8, readSetting{policy: quorumlease.AllByKey}}, {9, readSetting{quorumlease.Static, division(t)}}}
		writes, may := k.mayKeep(1, 1, entryOf(10, tt.bodies...).Data)
		if may != tt.want || writes.String() != tt.writes.String() {
			t.Errorf("a batch %s, which changes %v, may be kept: %v; want %v, %v", tt.name, writes, may, tt.writes, tt.want)
		}
	}
}

// The leader releases an entry that no holder lacks once what that depends on is released. An entry that changes no key
// waits for no holder.
func TestWhatIsJudgedWaitsForWhatItDependsOn(t *testing.T) {
	k := &keyReader(9).reads.keys
	k.confs = []conf{{9, readSetting{quorumlease.Static, division(t)}}} // both hold a, and member 2 x
	k.told = 9
	guarded := bodyOf(t, kindTxn, &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("a")}}, Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: []byte("x")})}})
	for _, e := range []*raftpb.Entry{
		entryOfPuts(t, 1, 10, "a"), entryOf(11, guarded), entryOfPuts(t, 1, 12, "y"), entryOf(13, EncodeRead(key("z"))),
	} {
		k.appended(e)
	}
	l := vouchers(map[machine.NodeID]uint64{2: 13, 3: 13}, quorumlease.Lifetime{Member: 1, Boot: 1}) // member 1 may lack what it holds
	k.reported(positions{committed: 13}, reports{ledger: l})
	if k.through != 9 || !k.log.held(10) || !k.log.held(11) || k.log.held(12) || k.log.held(13) {
		t.Errorf("member 1 may lack entry 10, of its keys: all up to %d is released; held are 10: %v, 11, which depends on it: %v, 12, of other keys: %v, 13, which changes none: %v",
			k.through, k.log.held(10), k.log.held(11), k.log.held(12), k.log.held(13))
	}
	l.Report(1, quorumlease.Report{Boot: 1, Term: 2, Durable: 13})
	if k.reported(positions{committed: 13}, reports{ledger: l}); k.through != 13 {
		t.Errorf("no member lacks anything, and all up to %d is released, want 13", k.through)
	}
}
