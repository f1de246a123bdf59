package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Each member derives IDs by itself and keeps them on disk, so they never change.
func TestIDsAreForEver(t *testing.T) {
	a, b := memberID("http://10.0.0.1:2380", "token", ""), memberID("http://10.0.0.2:2380", "token", "")
	for _, tt := range []struct {
		name      string
		got, want uint64
	}{
		{"a member", uint64(a), 0x2bdd2be237230e2f},
		{"a member that joined", uint64(memberID("http://10.0.0.1:2380", "token", "nonce")), 0x270c58bab65a48b1},
		{"a cluster", clusterID([]machine.NodeID{a, b}, "token"), 0x504ce8b502079c40},
		{"a cluster of other members", clusterID([]machine.NodeID{b, a}, "token"), 0x61cb53c8ce8a07bc},
		{"a cluster of another token", clusterID([]machine.NodeID{a, b}, "other"), 0x6f12d2491f629e35},
	} {
		if tt.got != tt.want {
			t.Errorf("the ID of %s is %#x, want %#x", tt.name, tt.got, tt.want)
		}
	}
	// By the flags of each member all founders have the IDs that they derive for themselves.
	founders, err := roster(map[string]string{"a": "http://10.0.0.1:2380", "b": "http://10.0.0.2:2380"}, "token")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range founders {
		if want := memberID(m.PeerURLs[0], "token", ""); m.ID != uint64(want) {
			t.Errorf("member %s at %s has the ID %#x, and is %#x to itself", m.Name, m.PeerURLs[0], m.ID, uint64(want))
		}
	}
	for i := range 1000 { // JSON clients take it for an int64, and 0 is nobody's
		if id := memberID(fmt.Sprint(i), "", ""); int64(id) <= 0 {
			t.Fatalf("member %d has the ID %d", i, int64(id))
		}
	}
}

// A member describes its cluster to others: one line for each URL, the members that have started, and
// the voters.
func TestAMemberIntroducesItsCluster(t *testing.T) {
	n := &Node{cluster: 7, founders: []*pb.Member{{ID: 1, PeerURLs: []string{"http://a:1"}}, {ID: 2, PeerURLs: []string{"http://b:1"}}}}
	ro := replica.FoundedBy(n.founders)
	ro.Members = []*pb.Member{{ID: 1, Name: "a", PeerURLs: []string{"http://a:2", "http://a:3"}}, {ID: 2, PeerURLs: []string{"http://b:1"}}, {ID: 5, Name: "e", PeerURLs: []string{"http://e:1"}, IsLearner: true}}
	n.ahead.Store(&[]*state{{roster: ro}})
	const want = `{"cluster_id":7,"founders":[{"id":1,"peer_url":"http://a:1"},{"id":2,"peer_url":"http://b:1"}],` +
		`"members":[{"id":1,"peer_url":"http://a:2"},{"id":1,"peer_url":"http://a:3"},{"id":2,"peer_url":"http://b:1"},{"id":5,"peer_url":"http://e:1"}],` +
		`"started":[1,5],"voters":[1,2]}`
	if got := string(n.answerIntroduction(nil)); got != want {
		t.Errorf("it says\n%s, want\n%s", got, want)
	}
}

// A newcomer learns from an answer its own ID, the members that must confirm it, and the addresses of
// the others.
func TestWhatANewcomerMakesOfAnAnswer(t *testing.T) {
	says := introduction{
		Cluster: 7, Founders: []founder{{1, "http://a:1"}, {2, "http://b:1"}}, Started: []uint64{1, 3}, Voters: []uint64{1, 3, 4},
		Members: []founder{{1, "http://a:1"}, {2, "http://b:1"}, {3, "http://c:1"}, {4, "http://d:1"}},
	}
	other := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Int64
	var nonsense atomic.Bool
	tr, err := peer.New(peer.Config{
		Self: 9, ClusterID: 7, Listener: other, Logger: slog.New(slog.DiscardHandler), Deliver: func(machine.NodeID, [][]byte) {},
		Answer: func([]byte) []byte {
			if asked.Add(1) > 6 {
				cancel()
			}
			if nonsense.Load() {
				return []byte("nobody of that name")
			}
			p, _ := json.Marshal(says)
			return p
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for _, tt := range []struct {
		url, says string
	}{
		{"http://d:1", ""},
		{"http://x:1", "knows no member at http://x:1: `tenure member add n --peer-urls=http://x:1` first"},
		{"http://c:1", "has run before, and this directory is empty"},
		{"http://b:1", "is one of the first, which cannot join"},
	} {
		n := &Node{cfg: Config{Name: "n"}}
		id, err := introduced(t.Context(), n, other.Addr().String(), tt.url)
		if tt.says != "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) || errors.Is(err, errForgetful) == strings.Contains(tt.says, "knows no") {
				t.Errorf("at %s: %v, want %q", tt.url, err, tt.says)
			}
			continue
		}
		got, _ := json.Marshal(id)
		const want = `{"cluster_id":7,"member_id":4,"initial_voters":[1,2],"founders":[{"id":1,"peer_url":"http://a:1"},{"id":2,"peer_url":"http://b:1"}],"joined":true,"witnesses":[1,3]}`
		if err != nil || string(got) != want {
			t.Errorf("at %s: %s, %v, want %s", tt.url, got, err, want)
		}
		if len(n.contacts.heard) != 3 || n.contacts.heard[3] != "c:1" || n.contacts.heard[4] != "" {
			t.Errorf("at %s: it has heard of %v, want the others", tt.url, n.contacts.heard)
		}
	}
	// An answer that is not well formed says nothing about the members.
	nonsense.Store(true)
	_, err = introduced(t.Context(), &Node{cfg: Config{Name: "n"}}, other.Addr().String(), "http://d:1")
	if syntax := new(json.SyntaxError); !errors.As(err, &syntax) {
		t.Errorf("an answer that makes no sense is taken for one: %v", err)
	}
	nonsense.Store(false)
	// That its member has run before does not pass, and is not asked for again.
	n := &Node{cfg: Config{Name: "n", HeartbeatInterval: time.Nanosecond}}
	before := asked.Load()
	if _, err := n.askAll(ctx, map[machine.NodeID]string{9: other.Addr().String()}, "http://c:1"); !errors.Is(err, errForgetful) || asked.Load() != before+1 {
		t.Errorf("one that has run before asks %d times, and is told %v; want one question, and %v", asked.Load()-before, err, errForgetful)
	}
}

// The log advises the operator about each refusal.
func TestAdviceAboutRefusals(t *testing.T) {
	for reason, want := range map[error]string{
		peer.ErrDuplicateID: "stop the other process", peer.ErrWrongCluster: "--initial-cluster-token", peer.ErrUnknownMember: "--initial-cluster-token",
		peer.ErrWrongAddress: "--listen-peer-urls must agree", peer.ErrVersion: "the same version", peer.ErrUnconfirmed: "tenure member update",
		peer.ErrRemoved: "most of the others", errDisk: "see the other member's log",
	} {
		if got := refusalAdvice(fmt.Errorf("refused: %w", reason)); !strings.Contains(got, want) {
			t.Errorf("%v: the advice is %q, want %q", reason, got, want)
		}
	}
}

// Only confirmations of members that may give them count, and only once this member asks for them.
func TestWhoseConfirmationCounts(t *testing.T) {
	for _, tt := range []struct {
		name          string
		set           func(a *admission, g *greeting)
		by            uint64
		noted, enough bool
	}{
		{"of one that has to", func(*admission, *greeting) {}, 2, true, true},
		{"of another founder, which need not", func(*admission, *greeting) {}, 3, false, false},
		{"of one of two", func(a *admission, _ *greeting) { a.need = []uint64{2, 3} }, 2, true, false},
		{"of the last of two", func(a *admission, _ *greeting) { a.need = []uint64{2, 3}; a.confirmed[3] = []uint64{} }, 2, true, true},
		{"after all", func(a *admission, _ *greeting) { a.open.Store(true) }, 2, false, false},
		{"of a founder that waits itself", func(_ *admission, g *greeting) { g.First = true }, 2, true, true},
		{"a newcomer's, of the only other voter", func(a *admission, _ *greeting) { a.need, a.joins = nil, true }, 2, true, true},
		{"a newcomer's, of one of two", func(a *admission, g *greeting) { a.need, a.joins, g.Voters = nil, true, []uint64{1, 2, 3} }, 2, true, false},
		{"a newcomer's, of one that waits itself", func(a *admission, g *greeting) { a.need, a.joins, g.First = nil, true, true }, 2, false, false},
		{"a newcomer's, of an earlier version, which does not say who votes", func(a *admission, g *greeting) { a.need, a.joins, a.voted, g.Voters = nil, true, []uint64{2, 1}, nil }, 2, true, true},
		{"a newcomer's, of an earlier version, of two", func(a *admission, g *greeting) { a.need, a.joins, a.voted, g.Voters = nil, true, []uint64{3, 2}, nil }, 2, true, false},
	} {
		a := &admission{need: []uint64{2}, confirmed: map[uint64][]uint64{}}
		g := greeting{Voters: []uint64{1, 2}}
		tt.set(a, &g)
		enough := a.confirm(tt.by, g, 1)
		if _, noted := a.confirmed[tt.by]; noted != tt.noted || enough != tt.enough {
			t.Errorf("a confirmation %s: noted %v and enough %v, want %v and %v", tt.name, noted, enough, tt.noted, tt.enough)
		}
	}
}

// A waiting call is answered once and expires. When its caller leaves, it is forgotten unless it is
// costly.
func TestWaits(t *testing.T) {
	w := newWaits[int]()
	state := func() (waiting int, cost int64) {
		for i := range w.shards {
			waiting += len(w.shards[i].byID)
		}
		return waiting, w.cost.Load()
	}
	want := func(what string, waiting int, cost int64) {
		t.Helper()
		if gotWaiting, gotCost := state(); gotWaiting != waiting || gotCost != cost {
			t.Errorf("%s: %d wait at a cost of %d, want %d and %d", what, gotWaiting, gotCost, waiting, cost)
		}
	}
	got := func(c chan int) int {
		select {
		case v := <-c:
			return v
		default:
			return -1
		}
	}
	a, b, free := w.add(1, 10), w.add(17, 5), w.add(2, 0) // the first two are in one shard
	want("added", 3, 15)
	w.answer(1, 7)
	w.answer(1, 8) // again, and of nobody
	w.answer(99, 8)
	if v := got(a); v != 7 || got(a) != -1 || got(b) != -1 {
		t.Errorf("answered %d, want 7 once and nobody else", v)
	}
	want("answered", 2, 5)
	w.forget(17)
	w.forget(2)
	w.forget(99)
	want("forgotten", 1, 5) // what costs something stays
	w.answer(17, 9)
	if got(b) != -1 || got(free) != -1 {
		t.Error("a caller that has gone is answered")
	}
	want("answered after its caller has gone", 0, 0)

	old, oldFree, young := w.add(3, 4), w.add(4, 0), w.add(5, 6)
	for _, id := range []uint64{3, 4} {
		s := &w.shards[id%16]
		wait := s.byID[id]
		wait.since = time.Unix(1001, -1)
		s.byID[id] = wait
	}
	for range 2 {
		w.expire(time.Unix(1001, 0), func(since time.Time) int { return int(since.Unix()) })
		want("expired", 2, 10) // the bytes of the request are there until it is answered
		if w.shards[3].byID[3].answer != nil {
			t.Fatal("a call that has waited for too long, and was told so, would be answered again: there is no room for a second answer")
		}
	}
	if got(old) != 1000 || got(oldFree) != 1000 || got(old) != -1 || got(young) != -1 {
		t.Error("those that waited for long are to be answered once, by when they began to wait, and the others not")
	}
	w.expire(time.Unix(999, 0), func(time.Time) int { t.Error("none waits for so long"); return 0 })
	w.answer(3, 1)
	want("answered after it has expired", 1, 6)
}

// All waits end when their time is up: those of callers after the time of a request, those for an
// index of this member's log after an election timeout.
func TestHousekeepingLetsEverybodyGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l := parted(t)
		n.asks, n.keyReads = newWaits[askResult](), newWaits[keysResult]()
		n.cfg.RequestTimeout, n.cfg.ElectionTimeout, n.cfg.HeartbeatInterval = 10*time.Second, 3*time.Second, time.Second
		results, asks, reads := n.results.add(1, 5), n.asks.add(2, 0), n.keyReads.add(3, 0)
		n.barriers.join(n)
		question := n.barriers.waiting[0]
		far := func() uint64 { return 0 }
		logged, applied := n.barriers.awaitIndex(far, 9), n.applications.awaitIndex(far, 9)
		indexed := &barrier{index: 9, since: time.Now(), done: make(chan struct{})}
		n.barriers.indexed = append(n.barriers.indexed, indexed)
		n.reads.local.Add(1)
		n.done.Add(1)
		go n.housekeeping()
		began := time.Now()
		at := map[string]time.Duration{}
		for len(at) < 7 && time.Since(began) < time.Minute {
			time.Sleep(time.Second)
			synctest.Wait()
			now := time.Since(began)
			note := func(what string, over bool, err error) {
				if _, was := at[what]; over && !was {
					if at[what] = now; err == nil {
						t.Errorf("%s: let go without an error", what)
					}
				}
			}
			select {
			case r := <-results:
				note("a request", true, r.err)
			default:
			}
			select {
			case r := <-asks:
				note("a question about a lease", true, r.err)
			default:
			}
			select {
			case r := <-reads:
				note("a read of keys", true, r.err)
			default:
			}
			for what, b := range map[string]*barrier{"a read that asks": question, "a read that has an index": indexed, "a read of the own log": logged, "a read that waits for what is applied": applied} {
				if ended(b) {
					note(what, true, b.err)
				}
			}
		}
		for what, want := range map[string]time.Duration{
			"a request": 11 * time.Second, "a question about a lease": 11 * time.Second, "a read of keys": 11 * time.Second, "a read that asks": 11 * time.Second,
			"a read that has an index": 11 * time.Second, "a read of the own log": 4 * time.Second, "a read that waits for what is applied": 4 * time.Second,
		} {
			if at[what] != want {
				t.Errorf("%s is let go after %v, want %v", what, at[what], want)
			}
		}
		if !errors.Is(logged.err, errOverdue) || !errors.Is(applied.err, errOverdue) {
			t.Errorf("a call that waits for an index is told %v and %v, want %v", logged.err, applied.err, errOverdue)
		}
		if k := len(told[replica.Served](t, l)); k != 1 {
			t.Errorf("the replica is told %d times that a lease is of use, want once", k)
		}
		close(n.stop)
		n.done.Wait()
		n.cancel()
		n.driver.Stop()
	})
}

// Callers that wait for the same index of the log wait together, and no longer than needed.
func TestWhoWaitsForAnIndex(t *testing.T) {
	bs := &barriers{}
	now := uint64(5)
	at := func() uint64 {
		if bs.mu.TryLock() {
			bs.mu.Unlock()
			t.Error("how far the log has come is looked at without the lock: a call that is let go in between is not seen")
		}
		return now
	}
	if b := bs.awaitIndex(at, 5); !ended(b) || b.err != nil || len(bs.leased) != 0 {
		t.Errorf("the index is there: ended %v with %v, and %d wait", ended(b), b.err, len(bs.leased))
	}
	a, same, b := bs.awaitIndex(at, 7), bs.awaitIndex(at, 7), bs.awaitIndex(at, 9)
	if a != same || a == b || ended(a) || ended(b) {
		t.Error("a call for the same index does not share the wait, or another does")
	}
	c := bs.awaitIndex(at, 6) // the log was cut
	bs.published(6)
	if !ended(c) || ended(a) || ended(b) {
		t.Errorf("6 is published: ended %v, and of 7 and 9 %v and %v", ended(c), ended(a), ended(b))
	}
	bs.published(7)
	if !ended(a) || a.err != nil || ended(b) || len(bs.leased) != 1 {
		t.Errorf("7 is published: ended %v with %v, and of 9 %v", ended(a), a.err, ended(b))
	}
	bs.overdue(b.since)
	if ended(b) {
		t.Error("it has waited since then, and not before")
	}
	if bs.overdue(b.since.Add(1)); !ended(b) || !errors.Is(b.err, errOverdue) || len(bs.leased) != 0 {
		t.Errorf("9 is overdue: ended %v with %v", ended(b), b.err)
	}
}

// A member announces its name again when the known name differs.
func TestWhatIsAnnouncedAgain(t *testing.T) {
	me := &pb.Member{ID: 1, Name: "a", ClientURLs: []string{"http://x", "http://y"}}
	for _, tt := range []struct {
		name string
		told []*pb.Member
		want bool
	}{
		{"nothing", nil, false},
		{"the same", []*pb.Member{{ID: 2}, {ID: 1, Name: "a", ClientURLs: []string{"http://x", "http://y"}}}, true},
		{"another name", []*pb.Member{{ID: 1, Name: "b", ClientURLs: []string{"http://x", "http://y"}}}, false},
		{"fewer client URLs", []*pb.Member{{ID: 1, Name: "a", ClientURLs: []string{"http://x"}}}, false},
		{"another client URL", []*pb.Member{{ID: 1, Name: "a", ClientURLs: []string{"http://x", "http://z"}}}, false},
		{"another member's", []*pb.Member{{ID: 2, Name: "a", ClientURLs: []string{"http://x", "http://y"}}}, false},
	} {
		if got := announced(tt.told, me); got != tt.want {
			t.Errorf("%s is known: announced %v, want %v", tt.name, got, tt.want)
		}
	}
}

// The clock of leases is the one that counts suspend, and not the time of day, which may be set.
func TestAMemberReadsTheClocksOfItsHost(t *testing.T) {
	before := clock.Now()
	now := hostNow()
	if after := clock.Now(); now.Mono < before || now.Mono > after {
		t.Errorf("leases are timed by a clock that shows %d between the readings %d and %d of the host's", now.Mono, before, after)
	}
	if apart := time.Since(time.Unix(0, int64(now.Wall))); apart.Abs() > time.Hour {
		t.Errorf("the time of day is read as %v, which is %v ago", time.Unix(0, int64(now.Wall)), apart)
	}
}

// The clocks are compared twenty times a second, and at once when the two that each turn reads
// diverge.
func TestHowOftenClocksAreCompared(t *testing.T) {
	const ms = machine.Mono(time.Millisecond)
	var mono, wall machine.Mono
	looks := 0
	c := &clocks{
		n:   &Node{logger: slog.New(slog.DiscardHandler)},
		now: func() machine.Now { return machine.Now{Mono: mono, Wall: machine.Wall(wall)} },
		look: func() clock.Evidence {
			looks++
			return clock.Evidence{Now: mono, Wall: machine.Wall(wall), Running: time.Duration(mono), Raw: time.Duration(mono)}
		},
	}
	for _, tt := range []struct {
		mono, wall machine.Mono // how far they go
		want       int          // looks by then
	}{
		{1000 * ms, 1000 * ms, 1}, // the first
		{0, 0, 1}, {49 * ms, 49 * ms, 1}, {ms, ms, 2}, {49 * ms, 49 * ms, 2}, {ms, ms, 3},
		{ms, 2 * ms, 3}, {0, ms - 1, 3}, {0, 1, 4}, // ahead by two
		{5 * ms, 4 * ms, 4}, {ms, 0, 5}, // behind by two
		{40 * ms, 40 * ms, 5},
	} {
		mono, wall = mono+tt.mono, wall+tt.wall
		if got := c.read(); got.Mono != mono || c.turn != mono {
			t.Errorf("it reads %v and the turn is of %v, want %v", got.Mono, c.turn, mono)
		}
		if looks != tt.want {
			t.Errorf("at %v, with the time of day at %v: %d looks, want %d", time.Duration(mono), time.Duration(wall), looks, tt.want)
		}
	}
	c = &clocks{now: func() machine.Now { return machine.Now{Mono: 7} }} // with nothing to compare with
	if got := c.read(); got.Mono != 7 || c.turn != 7 {
		t.Errorf("it reads %v and the turn is of %v, want 7", got.Mono, c.turn)
	}
}

// A stopped process is distinguished from a suspended machine.
func TestClockReports(t *testing.T) {
	c := &clocks{}
	c.n = &Node{logger: slog.New(slog.DiscardHandler)}
	for i, odd := range []clock.Oddity{{Kind: clock.Slept, By: time.Hour}, {Kind: clock.Slept, By: time.Minute}, {Kind: clock.Paused, By: time.Second}} {
		c.note(odd, 1, 2)
		r := c.told()
		if r.Last != odd.String() || time.Since(r.At) > time.Minute || r.Pauses+r.Suspends != uint64(i)+1 {
			t.Errorf("noted %v, and the report is %+v", odd, r)
		}
	}
	if r := c.told(); r.Pauses != 1 || r.Suspends != 2 || r.Doubts != 0 {
		t.Errorf("one pause and two suspends are reported as %+v", r)
	}
}

// A snapshot's file agrees with its message in each respect.
func TestSnapshotsSayWhatTheirMessagesSay(t *testing.T) {
	says := func(index, term uint64, voters, learners []uint64) *raftpb.SnapshotMetadata {
		return &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: voters, Learners: learners}}
	}
	file := says(5, 2, []uint64{1, 2}, []uint64{3})
	meta, err := json.Marshal(snapshotMeta{Voters: []uint64{1, 2}, Learners: []uint64{3}})
	if err != nil {
		t.Fatal(err)
	}
	for i, md := range []*raftpb.SnapshotMetadata{
		file, says(6, 2, []uint64{1, 2}, []uint64{3}), says(5, 3, []uint64{1, 2}, []uint64{3}), says(5, 2, []uint64{1}, []uint64{3}),
		says(5, 2, []uint64{1, 2}, nil), says(5, 2, []uint64{1, 3}, []uint64{2}),
	} {
		if err := announcedSo(wal.SnapshotInfo{Index: 5, Term: 2, Meta: meta}, md); (err == nil) != (i == 0) {
			t.Errorf("with a message of %v the file of %v: %v", md, file, err)
		}
	}
	if err := announcedSo(wal.SnapshotInfo{Index: 5, Term: 2, Meta: []byte("nonsense")}, file); err == nil || !strings.Contains(err.Error(), "does not list the members") {
		t.Errorf("a file that does not list the members: %v", err)
	}
}

func TestOthers(t *testing.T) {
	for _, tt := range []struct {
		list []uint64
		but  uint64
		want []uint64
	}{{nil, 1, []uint64{}}, {[]uint64{3, 1, 2, 3}, 1, []uint64{2, 3}}, {[]uint64{1}, 1, []uint64{}}, {[]uint64{2, 1}, 0, []uint64{1, 2}}} {
		if got := others(tt.list, tt.but); got == nil || !slices.Equal(got, tt.want) {
			t.Errorf("of %v the others but %d are %v, want %v", tt.list, tt.but, got, tt.want)
		}
	}
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3} {
		if got := majorityOf(n); got != want {
			t.Errorf("a majority of %d is %d, want %d", n, got, want)
		}
	}
}

// A group may be founded by any number of voters, and its log begins with all of them.
func TestAllVotersFoundTheGroup(t *testing.T) {
	ids := []uint64{11, 12, 13, 14, 15, 16, 17, 18, 19}
	voters := replica.Genesis(nodeIDs(ids)).Snapshot.GetConfState().GetVoters()
	if !slices.Equal(voters, ids) {
		t.Errorf("founded by %v, the group has the voters %v", ids, voters)
	}
}
