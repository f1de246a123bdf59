package memberworld

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/world"
)

// Judges are shown errors, for a judge that cannot fail proves nothing.

// judged returns a judge's complaints, joined.
func judged(judge func(c *cluster)) string {
	c := &cluster{w: world.Rehearse()}
	judge(c)
	return strings.Join(c.w.Failures(), "; ")
}

// found wants that a judge has found one thing wrong, with these words, or nothing.
func found(t *testing.T, name, got, want string) {
	t.Helper()
	if (want == "") != (got == "") || !strings.Contains(got, want) {
		t.Errorf("%s: found %q, want %q", name, got, want)
	}
}

func TestHistories(t *testing.T) {
	const s = time.Second
	// did makes a request that is answered, between two times.
	did := func(from, to time.Duration, o op) op {
		o.key, o.began, o.ended, o.known = "k/0", from*s, to*s, true
		return o
	}
	lost := func(from time.Duration, o op) op {
		o.key, o.began, o.ended = "k/0", from*s, (from+4)*s
		return o
	}
	put := func(v string) op { return op{kind: "put", new: v} }
	get := func(v string) op { return op{kind: "get", got: v} }
	swap := func(old, v string, done bool, got string) op {
		return op{kind: "swap", old: old, new: v, done: done, got: got}
	}
	del := func(done bool) op { return op{kind: "delete", done: done} }
	other := func(o op) op { o.key = "k/1"; return o }
	for _, tt := range []struct {
		name    string
		written string // values in the log
		ops     []op
		want    string
	}{
		{"nothing", "", nil, ""},
		{"a value is read that was put", "a", []op{did(0, 1, put("a")), did(2, 3, get("a"))}, ""},
		{"a put is not seen", "a", []op{did(0, 1, put("a")), did(2, 3, get(""))}, `ends with client 0: get k/0 from 2s`},
		{"an older value is read", "a b", []op{did(0, 1, put("a")), did(2, 3, put("b")), did(4, 5, get("a")), did(6, 7, get("b"))}, "ends with client 0: get k/0 from 4s"},
		{"a value is read while another is put", "a b", []op{did(0, 1, put("a")), did(2, 6, put("b")), did(3, 4, get("a")), did(4, 5, get("b"))}, ""},
		{"values are read in two orders", "a b", []op{did(0, 9, put("a")), did(0, 9, put("b")), did(1, 2, get("a")), did(3, 4, get("b")), did(5, 6, get("a"))}, "not linearizable"},
		{"keys are apart", "a", []op{did(0, 1, put("a")), other(did(2, 3, get("")))}, ""},
		{"a put that was never answered is seen", "a", []op{lost(0, put("a")), did(2, 3, get("")), did(20, 21, get("a"))}, ""},
		{"and not any more", "a", []op{lost(0, put("a")), did(2, 3, get("a")), did(20, 21, get(""))}, "not linearizable"},
		{"a put that is not in the log is seen", "", []op{lost(0, put("a")), did(2, 3, get("a"))}, "not linearizable"},
		{"a get that was never answered", "a", []op{did(0, 1, put("a")), lost(2, get("zzz"))}, ""},
		{"a swap", "a b", []op{did(0, 1, put("a")), did(2, 3, swap("a", "b", true, "")), did(4, 5, get("b"))}, ""},
		{"a swap of what is not there", "a b", []op{did(0, 1, put("a")), did(2, 3, swap("x", "b", true, ""))}, "not linearizable"},
		{"a swap fails as it has to", "a", []op{did(0, 1, put("a")), did(2, 3, swap("x", "b", false, "a")), did(4, 5, get("a"))}, ""},
		{"a swap fails, and the value was the right one", "a", []op{did(0, 1, put("a")), did(2, 3, swap("a", "b", false, "a"))}, "not linearizable"},
		{"a swap fails, and reads what is not there", "a", []op{did(0, 1, put("a")), did(2, 3, swap("x", "b", false, "y"))}, "not linearizable"},
		{"a swap that was never answered may have been done", "a b", []op{did(0, 1, put("a")), lost(2, swap("a", "b", false, "")), did(4, 5, get("b"))}, ""},
		{"a swap that was never answered is done to another value", "a b c", []op{did(0, 1, put("a")), lost(2, swap("c", "b", false, "")), did(4, 5, get("b"))}, "not linearizable"},
		{"a delete", "a", []op{did(0, 1, put("a")), did(2, 3, del(true)), did(4, 5, get(""))}, ""},
		{"a delete of nothing", "", []op{did(2, 3, del(false)), did(4, 5, get(""))}, ""},
		{"a delete of nothing that has deleted", "", []op{did(2, 3, del(true))}, "not linearizable"},
		{"a delete that has deleted nothing", "a", []op{did(0, 1, put("a")), did(2, 3, del(false))}, "not linearizable"},
		{"a delete that was never answered may have been done", "a", []op{did(0, 1, put("a")), lost(2, del(false)), did(4, 5, get(""))}, ""},
		{"a delete that was never answered may not have been done", "a", []op{did(0, 1, put("a")), lost(2, del(false)), did(20, 21, get("a"))}, ""},
	} {
		written := map[string]bool{}
		for _, v := range strings.Fields(tt.written) {
			written[v] = true
		}
		var h history
		for _, o := range tt.ops {
			h.add(o)
		}
		got := ""
		if err := h.linearizable(written, 30*time.Second); err != nil {
			got = err.Error()
		}
		found(t, tt.name, got, tt.want)
	}

	// A history that is not decided in time is no proof. It takes for ever to see that none of
	// these is read.
	var h history
	written := map[string]bool{}
	for i := range 60 {
		h.add(did(0, 100, put(fmt.Sprint(i))))
		written[fmt.Sprint(i)] = true
	}
	h.add(did(0, 100, get("never")))
	got := fmt.Sprint(h.linearizable(written, 20*time.Millisecond))
	found(t, "a history that takes long", got, "not decided in 20ms")
}

func TestAcknowledgedIsInTheLog(t *testing.T) {
	log := []event{{rev: 2, key: "k/0", value: "a"}, {rev: 3, key: "k/0", deleted: true}, {rev: 4, key: "k/1", value: "b"}}
	for _, tt := range []struct {
		name string
		o    op
		want string
	}{
		{"a put", op{kind: "put", key: "k/0", new: "a", known: true, rev: 2}, ""},
		{"a delete", op{kind: "delete", key: "k/0", known: true, done: true, rev: 3}, ""},
		{"a delete of nothing", op{kind: "delete", key: "k/0", known: true}, ""},
		{"a read", op{kind: "get", key: "k/1", known: true, got: "b", gotRev: 4}, ""},
		{"a put that was never answered", op{kind: "put", key: "k/0", new: "x", rev: 9}, ""},
		{"a put that is not there", op{kind: "put", key: "k/0", new: "x", known: true, rev: 9}, "an acknowledged write is lost"},
		{"a put of another value", op{kind: "put", key: "k/0", new: "x", known: true, rev: 2}, "an acknowledged write is lost"},
		{"a put of another key", op{kind: "put", key: "k/1", new: "a", known: true, rev: 2}, "an acknowledged write is lost"},
		{"a put where there is a delete", op{kind: "put", key: "k/0", known: true, rev: 3}, "an acknowledged write is lost"},
		{"a delete where there is a put", op{kind: "delete", key: "k/0", new: "a", known: true, rev: 2}, "an acknowledged write is lost"},
		{"a read of another value", op{kind: "get", key: "k/1", known: true, got: "x", gotRev: 4}, "a value was read that is not in the log"},
		{"a read of another key's value", op{kind: "get", key: "k/0", known: true, got: "b", gotRev: 4}, "a value was read that is not in the log"},
		{"a read of what is nowhere", op{kind: "get", key: "k/0", known: true, got: "x", gotRev: 9}, "a value was read that is not in the log"},
	} {
		found(t, tt.name, judged(func(c *cluster) { c.history.add(tt.o); c.acknowledged(log) }), tt.want)
	}
}

func TestWatchersAreToldOfAll(t *testing.T) {
	log := []event{{rev: 2, key: "k/0", value: "a"}, {rev: 3, key: "l/0/1", value: "held"}, {rev: 4, key: "k/0", deleted: true}, {rev: 5, key: "k/1", value: "b"}}
	a, gone, b := log[0], log[2], log[3]
	for _, tt := range []struct {
		name   string
		told   []event
		missed [][2]int64
		want   string
	}{
		{"all", []event{a, gone, b}, nil, ""},
		{"not yet all", []event{a, gone}, nil, ""},
		{"a gap", []event{a, b}, nil, "was told of {rev:5"},
		{"the first one is missing", []event{gone, b}, nil, "was told of {rev:4"},
		{"one twice", []event{a, a, gone, b}, nil, "was told of {rev:2"},
		{"another order", []event{gone, a}, nil, "was told of {rev:4"},
		{"another value", []event{{rev: 2, key: "k/0", value: "x"}}, nil, "value:x"},
		{"more than there is", []event{a, gone, b, {rev: 6, key: "k/0", value: "c"}}, nil, "where the log has nothing"},
		{"a gap that was compacted", []event{a, b}, [][2]int64{{3, 4}}, ""},
		{"a gap beyond what was compacted", []event{b}, [][2]int64{{3, 4}}, "was told of {rev:5"},
		{"all was compacted", []event{b}, [][2]int64{{1, 2}, {3, 4}}, ""},
		{"one that was compacted", []event{a, gone, b}, [][2]int64{{4, 4}}, "was told of {rev:4"},
	} {
		found(t, tt.name, judged(func(c *cluster) {
			c.watches = []*watcher{{name: "w0"}, {name: "w1", events: tt.told, missed: tt.missed}}
			c.watched(log)
		}), tt.want)
	}
}

// A watcher that meets a compaction goes on behind it, and has missed no more than that.
func TestWatchersBehindACompaction(t *testing.T) {
	for _, tt := range []struct {
		name            string
		asked           int64 // of a compaction
		told            []event
		next, compacted int64
		want            string
		missed          [2]int64
	}{
		{"it wanted what was compacted", 9, nil, 3, 9, "", [2]int64{3, 9}},
		{"the client has gone on by itself", 9, []event{{rev: 5}}, 3, 9, "", [2]int64{6, 9}},
		{"it wanted the last revision that was compacted", 9, nil, 9, 9, "", [2]int64{9, 9}},
		{"nobody has asked for that", 8, nil, 3, 9, "none was asked for beyond 8", [2]int64{3, 9}},
		{"it wanted more than was compacted", 9, nil, 10, 9, "wanted revision 10", [2]int64{10, 9}},
	} {
		wt := &watcher{name: "w0", events: tt.told}
		found(t, tt.name, judged(func(c *cluster) {
			c.chronicle.add(nil, tt.asked)
			c.miss(wt, tt.next, tt.compacted)
		}), tt.want)
		if len(wt.missed) != 1 || wt.missed[0] != tt.missed || wt.from != tt.compacted+1 {
			t.Errorf("%s: it has missed %v and goes on at %d, want %v and %d", tt.name, wt.missed, wt.from, tt.missed, tt.compacted+1)
		}
	}
	wt := watcher{missed: [][2]int64{{3, 5}}}
	for rev, want := range map[int64]bool{2: true, 3: false, 4: false, 5: false, 6: true} {
		if got := wt.due(event{rev: rev}); got != want {
			t.Errorf("an event at revision %d of which 3 to 5 were missed is due: %v, want %v", rev, got, want)
		}
	}
}

func TestLogsAgree(t *testing.T) {
	x := []event{{rev: 2, key: "k/0", value: "a"}, {rev: 3, key: "k/0", value: "b"}}
	y := []event{x[0], {rev: 3, key: "k/0", value: "c"}}
	for _, tt := range []struct {
		name string
		x, y []event
		want string
	}{
		{"the same", x, slices.Clone(x), ""},
		{"another value", x, y, "now, the logs of members differ: event 1 is {rev:3 key:k/0 value:b deleted:false} at m0 and {rev:3 key:k/0 value:c deleted:false} at m1"},
		{"fewer", x, x[:1], "2 events at m0, 1 at m1"},
	} {
		found(t, tt.name, judged(func(c *cluster) { c.agree("now", "m0", tt.x, "m1", tt.y) }), tt.want)
	}
}

func TestNoTermHasTwoLeaders(t *testing.T) {
	found(t, "one leader of each term", judged(func(c *cluster) {
		c.terms.leader = map[uint64]uint64{}
		for _, seen := range [][2]uint64{{1, 7}, {2, 8}, {1, 7}, {3, 7}} {
			c.judgeLeader(seen[0], seen[1])
		}
		if n := c.w.Counter("elections"); n != 3 || !maps.Equal(c.terms.all(), map[uint64]uint64{1: 7, 2: 8, 3: 7}) {
			t.Errorf("%d elections and %v, want three terms", n, c.terms.all())
		}
	}), "")
	found(t, "two leaders of a term", judged(func(c *cluster) {
		c.terms.leader = map[uint64]uint64{}
		c.judgeLeader(4, 7)
		c.judgeLeader(4, 8)
	}), "two leaders of term 4: 7 and 8")
}

func TestLeasesEndInTime(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name           string
		l              lease
		now            time.Duration
		early, overdue bool
	}{
		{"before its end", lease{}, 100*s - time.Millisecond, false, false},
		{"long before its end", lease{}, 99*s - time.Millisecond, true, false},
		{"as much earlier as clocks may differ", lease{}, 99 * s, false, false},
		{"it was revoked", lease{revoked: true}, 50 * s, false, false},
		{"long after its end", lease{}, 204 * s, false, true},
		{"not yet long after its end", lease{}, 204*s - 1, false, false},
		{"somebody renews it", lease{owned: true}, 300 * s, false, false},
		{"it was seen to end", lease{gone: true}, 300 * s, false, false},
		{"it was revoked, and is there", lease{revoked: true}, 300 * s, false, true},
	} {
		tt.l.ttl, tt.l.sure = 100*s, 100*s
		if early, overdue := tt.l.tooEarly(tt.now), tt.l.overdue(tt.now); early != tt.early || overdue != tt.overdue {
			t.Errorf("%s: its end is early: %v, its life too long: %v; want %v and %v", tt.name, early, overdue, tt.early, tt.overdue)
		}
	}
}

func TestTheRemovedHaveEnded(t *testing.T) {
	ended := &life{ended: make(chan struct{})}
	close(ended.ended)
	removed := errors.New("node: the member has been permanently removed from the cluster")
	for _, tt := range []struct {
		name string
		h    *host
		want string
	}{
		{"one that was not removed", &host{name: "m1"}, ""},
		{"one that has ended for that", &host{name: "m1", removed: true, life: ended, lastErr: removed}, ""},
		{"one that ended for another reason", &host{name: "m1", removed: true, life: ended, lastErr: syscall.EIO}, "m1 was removed from the cluster and goes on"},
		{"one that has not said why", &host{name: "m1", removed: true, life: ended}, "m1 was removed from the cluster and goes on"},
	} {
		found(t, tt.name, judged(func(c *cluster) { c.hosts = []*host{tt.h}; c.dismissed() }), tt.want)
	}
}

// A member may end because of its disk or its data, and nothing that a stranger says.
func TestWhatExcusesAnEnd(t *testing.T) {
	for _, tt := range []struct {
		err                error
		refused, itsExcuse bool
	}{
		{errors.New("node: the member has been permanently removed from the cluster: add it again"), true, true},
		{errors.New("this data directory lacks records that the member made"), true, true},
		{errors.New("entries up to 9 were committed but the log ends at 5. Replace the member; do not empty the directory"), true, true},
		{errors.New("keep a copy of the data directory and replace the member"), true, true},
		{errors.New("if its disk was lost, remove it and add it again"), true, true},
		{fmt.Errorf("write: %w", syscall.EIO), false, true},
		{fmt.Errorf("write: %w", syscall.ENOSPC), false, true},
		{fmt.Errorf("write: %w", waltest.ErrCrashed), false, true},
		{fmt.Errorf("write: %w", world.ErrDead), false, true},
		{errors.New("a member says that this one is wrong"), false, false},
		{syscall.EPERM, false, false},
		{nil, false, false},
	} {
		if refused(tt.err) != tt.refused || excused(tt.err) != tt.itsExcuse {
			t.Errorf("%v: refused %v and excused %v, want %v and %v", tt.err, refused(tt.err), excused(tt.err), tt.refused, tt.itsExcuse)
		}
	}
}

// Compacted events are in the chronicle, and copies of them elsewhere stay as they are.
func TestChronicle(t *testing.T) {
	var ch chronicle
	ch.add([]event{{rev: 2, key: "k/0", value: "a"}, {rev: 3, key: "k/1", value: "x"}}, 3)
	early, upTo := ch.has()
	if len(early) != 2 || upTo != 3 {
		t.Errorf("it has %v up to %d", early, upTo)
	}
	ch.add([]event{{rev: 4, key: "k/0", value: "b"}, {rev: 6, key: "k/0", deleted: true}}, 6)
	_ = append(early, event{rev: 99})
	all, upTo := ch.has()
	if len(all) != 4 || upTo != 6 || all[2].rev != 4 {
		t.Errorf("it has %v up to %d", all, upTo)
	}
	for rev, want := range map[int64]string{1: "", 2: "a", 3: "a", 4: "b", 5: "b", 6: "", 7: ""} {
		if got := valueAt(all, "k/0", rev); got != want {
			t.Errorf("k/0 was %q at revision %d, want %q", got, rev, want)
		}
	}
}

// Compacted revisions cannot be read, and the others read as before.
func TestReadsOfThePast(t *testing.T) {
	past := []event{{rev: 2, key: "k/0", value: "a"}, {rev: 4, key: "k/0", value: "b"}}
	for _, tt := range []struct {
		name  string
		judge func(c *cluster) error
		want  string
		err   error
	}{
		{"what was there", func(c *cluster) error { c.leftAt(3, "k/0", "a"); return nil }, "", nil},
		{"what came later", func(c *cluster) error { c.leftAt(3, "k/0", "b"); return nil }, `k/0 reads "b" at that revision, and was "a"`, nil},
		{"nothing", func(c *cluster) error { c.leftAt(4, "k/0", ""); return nil }, `k/0 reads "" at that revision, and was "b"`, nil},
		{"a read before it", func(c *cluster) error { return c.goneBefore(4, "k/0", nil) }, "k/0 can be read at revision 3", nil},
		{"a read before it that is refused", func(c *cluster) error { return c.goneBefore(4, "k/0", rpctypes.ErrCompacted) }, "", nil},
		{"a read before it that fails", func(c *cluster) error { return c.goneBefore(4, "k/0", syscall.EIO) }, "", syscall.EIO},
	} {
		found(t, tt.name, judged(func(c *cluster) {
			c.chronicle.add(past, 4)
			if err := tt.judge(c); !errors.Is(err, tt.err) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
			}
		}), tt.want)
	}
}

// A watcher is told of events in order, and of none behind its progress.
func TestEventsComeInOrder(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shown int64
		revs  []int64
		want  string
	}{
		{"in order", 0, []int64{2, 3, 7}, ""},
		{"one twice", 0, []int64{2, 2}, "was told of {rev:2"},
		{"one that is older", 0, []int64{2, 7, 3}, "was told of {rev:3"},
		{"one ahead of its progress", 5, []int64{6}, ""},
		{"one behind its progress", 5, []int64{4}, "all up to revision 5, and then of {rev:4"},
		{"the one that its progress names", 5, []int64{5}, "all up to revision 5, and then of {rev:5"},
	} {
		wt := &watcher{name: "w0", shown: tt.shown}
		found(t, tt.name, judged(func(c *cluster) {
			for _, rev := range tt.revs {
				c.told(wt, event{rev: rev})
			}
		}), tt.want)
		if len(wt.events) != len(tt.revs) {
			t.Errorf("%s: it has %v", tt.name, wt.events)
		}
	}
}

// All log lines of members reach their host: those on which an operator would act, and the
// confirmation of a directory.
func TestWhatAHostIsTold(t *testing.T) {
	for _, tt := range []struct {
		text              string
		advised, admitted bool
	}{
		{"a follower has less than it acknowledged: its disk has lost acknowledged entries", true, false},
		{"the data directory is confirmed, and this member takes part", false, true},
		{"another text in which the data directory is confirmed", false, false},
		{"leader", false, false},
	} {
		var h host
		h.told(tt.text)
		if h.advised.Load() != tt.advised || h.admitted.Load() != tt.admitted {
			t.Errorf("told that %s: to be replaced %v, admitted %v", tt.text, h.advised.Load(), h.admitted.Load())
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	found(t, "as much as is allowed", judged(func(c *cluster) { c.judgeMemory(heapPeak) }), "")
	found(t, "too much, twice", judged(func(c *cluster) { c.judgeMemory(heapPeak + 1<<20); c.judgeMemory(heapPeak + 5<<20) }), "1025 MiB are in use, more than 1024")
	if used := heap(); used < 1<<10 || used > 1<<40 {
		t.Errorf("this program uses %d bytes", used)
	}
}

// A request that no member may grant has to be refused, by an error that is not about the
// member.
func TestDemandsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"granted", nil, "a client demanded granted, and got it"},
		{"refused", rpctypes.ErrTooManyOps, ""},
		{"refused by gRPC", status.Error(codes.ResourceExhausted, "larger than max"), ""},
		{"not answered", context.DeadlineExceeded, ""},
		{"no leader", rpctypes.ErrNoLeader, ""},
		{"a fault", status.Error(codes.Internal, "panic"), "that is an error of the member"},
		{"not known", status.Error(codes.Unknown, "EOF"), "that is an error of the member"},
	} {
		found(t, tt.name, judged(func(c *cluster) { (&stranger{c: c}).refused(tt.name, tt.err) }), tt.want)
	}
}
