package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A member remembers its confirmations after a power cut at any time.
func TestTheMemoryOfDirectoriesSurvivesPowerCuts(t *testing.T) {
	for at := 1; at < 40; at++ {
		for seed := range uint64(3) {
			disk := waltest.NewDisk()
			fsys, calls := disk.FS(), 0
			fsys.Fault = func(string, string) error {
				if calls++; calls == at {
					disk.Kill()
				}
				return nil
			}
			confirmed := map[uint64]origin{}
			if d, err := openDirectories("/data", 5, fsys); err == nil {
				for i := range uint64(4) {
					if d.met(i%2, origin{Directory: i % 2, Boot: i << 32}, nil) != nil {
						break
					}
					confirmed[i%2] = d.get().Known[i%2]
				}
			}
			disk.Crash(rand.New(rand.NewPCG(seed, uint64(at))))
			d, err := openDirectories("/data", 5, disk.FS())
			if err != nil {
				t.Fatalf("call %d, seed %d: after a power cut: %v", at, seed, err)
			}
			for id, want := range confirmed {
				if got := d.get().Known[id]; !got.follows(want) {
					t.Errorf("call %d, seed %d: member %d was confirmed at %v and is remembered at %v", at, seed, id, want, got)
				}
			}
		}
	}
}

func TestADamagedMemoryIsRefused(t *testing.T) {
	disk := waltest.NewDisk()
	fsys := disk.FS()
	d, err := openDirectories("/data", 5, fsys)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.met(7, origin{Directory: 1 << 60, Boot: 3 << 32}, nil); err != nil {
		t.Fatal(err)
	}
	good := disk.ReadFile(d.path)
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		disk.WriteFile(d.path, bad)
		if _, err := openDirectories("/data", 5, fsys); err == nil || !strings.Contains(err.Error(), "replace the member") {
			t.Errorf("bit 0 of byte %d turned: %v, want an error that says what to do", i, err)
		}
		disk.WriteFile(d.path, good[:i])
		if _, err := openDirectories("/data", 5, fsys); err == nil {
			t.Errorf("cut to %d bytes it is taken", i)
		}
	}
}

// A removed member is forgotten. Otherwise the memory would grow without end.
func TestRemovedMembersAreForgotten(t *testing.T) {
	d, err := openDirectories("/data", 5, waltest.NewDisk().FS())
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i < 9; i++ {
		if err := d.met(i, origin{Directory: i, Boot: 1}, []uint64{2, 3, 5}); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(d.get().Known); strings.Contains(got, " 5:") || strings.Contains(got, " 3:") || !strings.Contains(got, " 4:") {
		t.Errorf("it remembers %s", got)
	}
}

// The number of a member's starts, and the length of its promises, are durable before it sends
// anything.
func TestAStartIsDurableBeforeItPromises(t *testing.T) {
	for seed := range uint64(20) {
		b := newBench(t)
		var last uint64
		for i := range 4 {
			ttl := time.Duration(5-i) * time.Second
			boot, earlier, err := b.s.begin(ttl, false)
			if err != nil {
				t.Fatal(err)
			}
			if boot>>32 <= last>>32 {
				t.Fatalf("seed %d: boot %x after %x: it does not grow over a power cut", seed, boot, last)
			}
			if i > 0 && earlier != 5*time.Second {
				t.Fatalf("seed %d: an earlier start may have promised %v, want 5s: the power cut made it forget", seed, earlier)
			}
			last = boot
			b.disk.Crash(rand.New(rand.NewPCG(seed, uint64(i))))
			b.start()
		}
	}
}

// A new directory stays new until it is confirmed, even if the power fails at any time.
func TestANewDirectoryStaysNew(t *testing.T) {
	for at := 1; at < 60; at++ {
		disk := waltest.NewDisk()
		fsys, calls := disk.FS(), 0
		fsys.Fault = func(string, string) error {
			if calls++; calls == at {
				disk.Kill()
			}
			return nil
		}
		start := func(fsys wal.FS) (*storage, error) {
			s, _, err := openStorage("/data", testIdentity, wal.Options{FS: fsys, SegmentBytes: 8 << 10}, slog.New(slog.DiscardHandler))
			if err == nil {
				_, _, err = s.begin(time.Second, false)
			}
			return s, err
		}
		start(fsys)
		disk.Crash(rand.New(rand.NewPCG(uint64(at), 0)))
		for range 2 {
			s, err := start(disk.FS())
			if err != nil {
				t.Fatalf("call %d: %v", at, err)
			}
			if !s.founding {
				t.Fatalf("a power cut at call %d: a directory that nobody has confirmed is taken for the member's first", at)
			}
			s.log.Close()
		}
	}
	b := newBench(t)
	if _, _, err := b.s.begin(time.Second, true); err != nil || b.s.founding {
		t.Errorf("a directory that was confirmed has to be confirmed again: %v", err)
	}
}

// A member that greets from another directory than before is ignored until it greets from the right
// one.
func TestAForgetfulMemberIsNotListenedTo(t *testing.T) {
	c := newCluster(t, 2, nimble)
	c.leader()
	n, other := c.nodes[0], c.nodes[1]
	id := machine.NodeID(other.ID())
	c.until("it is known", func() bool { return n.directories.get().Known[other.ID()].Directory != 0 })
	known := n.directories.get().Known[other.ID()]
	greet := func(from origin) {
		n.deliver(id, [][]byte{fmt.Appendf([]byte{wireGreeting}, `{"from":{"directory":%d,"boot":%d}}`, from.Directory, from.Boot)})
	}
	for _, from := range []origin{{known.Directory + 1, 1 << 32}, {known.Directory, known.Boot + 1}} {
		greet(from)
		if n.listensTo(id) {
			t.Errorf("a member is listened to that greets from %v and did from %v before", from, known)
		}
		st, _ := n.Status()
		term, by, to := st.Term+9, uint64(id), n.ID()
		p, err := replica.EncodeBody(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: &term, From: &by, To: &to})
		if err != nil {
			t.Fatal(err)
		}
		n.deliver(id, [][]byte{p})
		if st, ok := n.Status(); !ok || st.Term >= term {
			t.Errorf("it goes by a message of a member that has forgotten what it did: term %d", st.Term)
		}
		greet(known)
		if !n.listensTo(id) {
			t.Error("a member is not listened to that greets as it did before")
		}
	}
	greet(origin{known.Directory, known.Boot + 1<<32})
	if got := n.directories.get().Known[other.ID()]; got.Boot != known.Boot+1<<32 {
		t.Errorf("its next start is remembered as %v", got)
	}
}

// Greetings from processes that are not members are not remembered.
func TestStrangersAreNotRemembered(t *testing.T) {
	c := newCluster(t, 2, nimble)
	c.leader()
	n := c.nodes[0]
	n.deliver(12345, [][]byte{[]byte("\x40" + `{"from":{"directory":1,"boot":4294967296}}`)})
	n.deliver(12345, [][]byte{[]byte("\x40nonsense"), {wireGreeting}})
	if got := n.directories.get().Known; len(got) > 1 {
		t.Errorf("it remembers %v", got)
	}
}

// A member whose log lacks the records that a release rewrites would not know how it voted.
func TestALogWithoutItsBeginningIsRefused(t *testing.T) {
	b := newBench(t)
	b.now.term, b.now.vote = 5, 3
	b.write(replica.Record{HardState: b.hard()}, true)
	for range 30 {
		b.append(b.now.last+1, 5, true)
	}
	names, err := b.disk.FS().ReadDir("/data/wal")
	if err != nil || len(names) < 3 {
		t.Fatalf("segments %v, %v; want some", names, err)
	}
	b.kill()
	b.remove("/data/wal/" + names[0])
	if err := b.open(); err == nil || !strings.Contains(err.Error(), "how the member voted") {
		t.Errorf("its first segment deleted by hand: %v, want that it does not know how it voted", err)
	}
}

// TestAMemoryIsReadWhileADiskHangs: greetings of connections need the memory of directories, and a
// slow write must not keep all of them waiting.
func TestAMemoryIsReadWhileADiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := waltest.NewDisk().FS()
		d, err := openDirectories("/data", 1, fsys)
		if err != nil {
			t.Fatal(err)
		}
		fsys.Fault = func(op, _ string) error {
			if op == "sync" {
				time.Sleep(time.Minute)
			}
			return nil
		}
		written := make(chan error)
		go func() { written <- d.met(2, origin{Directory: 7}, nil) }()
		synctest.Wait()
		if d.mu.TryLock() {
			d.mu.Unlock()
		} else {
			t.Error("the memory cannot be read while a disk hangs")
		}
		go func() { written <- d.met(3, origin{Directory: 8}, nil) }()
		for range 2 {
			if err := <-written; err != nil {
				t.Error(err)
			}
		}
		if known := d.get().Known; len(known) != 2 {
			t.Errorf("of two changes at once %d are remembered: %v", len(known), known)
		}
	})
}

// A record of this file is not announced before it is durable, for others take it for a confirmation.
func TestNothingIsRememberedBeforeItIsDurable(t *testing.T) {
	fsys := waltest.NewDisk().FS()
	d, err := openDirectories("/data", 1, fsys)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.met(2, origin{Directory: 7}, nil); err != nil {
		t.Fatal(err)
	}
	fsys.Fault = func(op, _ string) error {
		if known := d.get().Known; len(known) != 1 {
			t.Errorf("before %s it remembers %v: the last of these would be confirmed, and is not durable", op, known)
		}
		return nil
	}
	if err := d.met(3, origin{Directory: 8}, nil); err != nil || len(d.get().Known) != 2 {
		t.Errorf("it remembers %v, %v", d.get().Known, err)
	}
}

// A doubt about a directory is over when all members that had it have withdrawn it for the start that
// they doubted. The present start is then announced.
func TestADoubtIsWithdrawnByAllWhoHadIt(t *testing.T) {
	b := newBench(t)
	d, err := openDirectories("/data", b.s.log.ID(), b.disk.FS())
	if err != nil {
		t.Fatal(err)
	}
	start := func(boot uint64) *Node {
		n := &Node{id: 1, storage: b.s, directories: d, logger: slog.New(slog.DiscardHandler)}
		if err := n.admit(boot); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const doubted, next = 4<<32 | 1, 5<<32 | 1
	n := start(doubted)
	if !n.admission.open.Load() {
		t.Fatal("a directory that nobody doubts is not admitted")
	}
	for _, by := range []machine.NodeID{2, 3} {
		if err := n.judged(by, greeting{Yours: origin{b.s.log.ID(), 9 << 32}}); !errors.Is(err, errForgetful) {
			t.Errorf("one has heard of a later start: %v, want %v", err, errForgetful)
		}
	}
	n = start(next)
	a := &n.admission
	for _, by := range []uint64{3, 2} {
		if a.open.Load() || a.me.Boot != doubted {
			t.Errorf("before member %d withdraws its doubt the directory is admitted: %v, and start %x is told, want %x", by, a.open.Load(), a.me.Boot, uint64(doubted))
		}
		if err := n.confirmedBy(by, greeting{Yours: a.me}); err != nil {
			t.Error(err)
		}
	}
	if m := d.get(); !a.open.Load() || a.me.Boot != next || m.Doubt != nil {
		t.Errorf("all doubts were withdrawn: admitted %v, start %x is told, want %x, and there is still %v", a.open.Load(), a.me.Boot, uint64(next), m.Doubt)
	}
}

// A doubt replaces no other condition. A founder that still needs confirmations is not admitted by the
// member that doubted it, and a newcomer is not admitted without a majority.
func TestADoubtIsNoAdmission(t *testing.T) {
	for _, joined := range []bool{false, true} {
		b := newBench(t)
		b.s.founding = true
		b.s.identity = identity{Member: 1, Voters: []uint64{1, 2, 3, 4}, Joined: joined, Witnesses: []uint64{2, 3, 4}}
		d, err := openDirectories("/data", b.s.log.ID(), b.disk.FS())
		if err != nil {
			t.Fatal(err)
		}
		const boot = 4<<32 | 1
		if err := d.change(func(m *memory) { m.Doubt = &doubt{By: []uint64{2}, Boot: boot} }); err != nil {
			t.Fatal(err)
		}
		n := &Node{id: 1, storage: b.s, directories: d, logger: slog.New(slog.DiscardHandler)}
		if err := n.admit(5<<32 | 1); err != nil {
			t.Fatal(err)
		}
		a := &n.admission
		confirmed := func(by uint64) {
			t.Helper()
			if err := n.confirmedBy(by, greeting{Yours: a.me, Voters: []uint64{2, 3, 4}}); err != nil {
				t.Error(err)
			}
		}
		if joined { // a majority without the doubter does not withdraw the doubt
			confirmed(3)
			confirmed(4)
		} else {
			confirmed(2)
			confirmed(3)
		}
		if a.open.Load() {
			t.Errorf("joined %v: admitted by %v, and member 2 doubted it", joined, slices.Sorted(maps.Keys(a.confirmed)))
		}
		confirmed(2)
		confirmed(4)
		if !a.open.Load() {
			t.Errorf("joined %v: not admitted by all", joined)
		}
	}
}

// TestAnAdmissionIsNotedWhileADiskHangs: greetings go on in both directions while a member writes its
// admission to disk.
func TestAnAdmissionIsNotedWhileADiskHangs(t *testing.T) {
	fsys := waltest.NewDisk().FS()
	d, err := openDirectories("/data", 1, fsys)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{id: 1, directories: d, logger: slog.New(slog.DiscardHandler)}
	a := &n.admission
	a.need, a.confirmed = []uint64{2}, map[uint64][]uint64{}
	written := false
	fsys.Fault = func(op, _ string) error {
		written = written || op == "sync"
		if !a.mu.TryLock() {
			t.Errorf("nobody can be greeted while a disk hangs in %s", op)
			return nil
		}
		a.mu.Unlock()
		if a.open.Load() {
			t.Errorf("the member takes part before that is durable: %s", op)
		}
		return nil
	}
	if err := n.confirmedBy(2, greeting{}); err != nil || !a.open.Load() || !written {
		t.Errorf("confirmed, and admitted: %v, %v, written: %v", a.open.Load(), err, written)
	}
}

// The records of a start and of a vote are in the oldest segment. It is released only when newer
// copies of them are durable.
func TestStartAndVoteOutliveTheReleaseOfTheirSegment(t *testing.T) {
	released := false
	for at, more := 1, true; more; at++ {
		b := newBench(t)
		first, _, err := b.s.begin(5*time.Second, false)
		if err != nil {
			t.Fatal(err)
		}
		b.now.term, b.now.vote = 5, 3
		b.write(replica.Record{HardState: b.hard()}, true)
		b.ops, b.crashAt = 0, at
		func() {
			defer func() {
				if r := recover(); r != nil && r != waltest.ErrCrashed {
					panic(r)
				}
			}()
			for range 6 {
				b.append(b.now.last+1, 20, true)
			}
			b.save(100)
			b.save(118)
			b.append(b.now.last+1, 1, true)
			more, released = false, b.s.log.FirstSeq() > 1
		}()
		b.disk.Crash(rand.New(rand.NewPCG(uint64(at), 0)))
		b.crashAt = 0
		if err := b.open(); err != nil {
			t.Fatalf("a power cut at call %d: %v: the release took the vote", at, err)
		}
		if hard := b.log.HardState; hard.GetTerm() != 5 || hard.GetVote() != 3 {
			t.Fatalf("a power cut at call %d: %v, not term 5 and a vote for 3: the release took the vote", at, hard)
		}
		boot, earlier, err := b.s.begin(time.Second, false)
		if err != nil {
			t.Fatal(err)
		}
		if boot>>32 <= first>>32 || earlier != 5*time.Second {
			t.Fatalf("a power cut at call %d: start %d follows start %d, and earlier ones promised %v, not 5s: the release took the record of the start", at, boot>>32, first>>32, earlier)
		}
		b.s.log.Close()
	}
	if !released {
		t.Error("nothing was released")
	}
}

// A memory that cannot be read does not count as missing. Otherwise the member would trust others that
// have lost their data.
func TestAMemoryThatCannotBeReadIsRefused(t *testing.T) {
	for _, op := range []string{"open", "size", "read"} {
		disk := waltest.NewDisk()
		fsys := disk.FS()
		d, err := openDirectories("/data", 5, fsys)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.met(7, origin{Directory: 1, Boot: 3 << 32}, nil); err != nil {
			t.Fatal(err)
		}
		broken := errors.New("broken")
		fsys.Fault = func(did, _ string) error {
			if did == op {
				return broken
			}
			return nil
		}
		if d, err := openDirectories("/data", 5, fsys); !errors.Is(err, broken) || d != nil {
			t.Errorf("%s fails: a memory is read, with the error %v; want %v and none", op, err, broken)
		}
		if left := fsys.Open(); len(left) > 0 {
			t.Errorf("%s fails: %v is left open", op, left)
		}
	}
}

// Leftovers of an earlier write do not damage the next.
func TestWhatAWriteLeftBehind(t *testing.T) {
	disk := waltest.NewDisk()
	fsys := disk.FS()
	d, err := openDirectories("/data", 5, fsys)
	if err != nil {
		t.Fatal(err)
	}
	disk.WriteFile(d.path+".tmp", make([]byte, 4096)) // a longer one
	if err := d.met(7, origin{Directory: 1, Boot: 3 << 32}, nil); err != nil {
		t.Fatal(err)
	}
	if d, err = openDirectories("/data", 5, fsys); err != nil || d.get().Known[7].Directory != 1 {
		t.Errorf("after a write that took the place of a longer one: %v", err)
	}
}

// A memory that cannot be written is an error, and is not used.
func TestEveryFailedWriteOfAMemoryIsTold(t *testing.T) {
	broken := errors.New("broken")
	for at := 1; ; at++ {
		fsys, calls := waltest.NewDisk().FS(), 0
		d, err := openDirectories("/data", 5, fsys)
		if err != nil {
			t.Fatal(err)
		}
		var failed string
		fsys.Fault = func(op, path string) error {
			if calls++; calls == at {
				failed = op + " " + path
				return broken
			}
			return nil
		}
		err = d.met(7, origin{Directory: 1, Boot: 3 << 32}, nil)
		if failed == "" {
			break
		}
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), directoriesFile) {
			t.Errorf("%s fails: %v, want %v, with the file's name", failed, err, broken)
		}
		if len(d.get().Known) > 0 {
			t.Errorf("%s fails, and the member remembers %v", failed, d.get().Known)
		}
		if left := fsys.Open(); len(left) > 0 {
			t.Errorf("%s fails: %v is left open", failed, left)
		}
		fsys.Fault = nil
		if err := d.met(7, origin{Directory: 1, Boot: 3 << 32}, nil); err != nil {
			t.Errorf("after %s failed once: %v", failed, err)
		}
	}
}

// A member's directory lists the members that must confirm its start, and those that doubted it.
func TestWhatAStartWaitsFor(t *testing.T) {
	const boot = 5<<32 | 1
	founds := identity{Member: 1, Voters: []uint64{1, 2, 3}}
	joined := identity{Member: 9, Voters: []uint64{1, 2}, Joined: true, Witnesses: []uint64{2, 4}}
	for _, tt := range []struct {
		name        string
		id          identity
		founding    bool
		m           memory
		need, voted []uint64
		open        bool
		fails       bool
	}{
		{"of a founder, in a new directory", founds, true, memory{}, []uint64{2, 3}, nil, false, false},
		{"of one that joins, in a new directory", joined, true, memory{}, nil, []uint64{2, 4}, false, false},
		{"of a founder", founds, false, memory{Own: 1, Admitted: true}, nil, nil, true, false},
		{"of one that joined", joined, false, memory{Own: 1, Admitted: true}, nil, nil, true, false},
		{"of a founder whose directory was doubted", founds, false, memory{Own: 1, Admitted: true, Doubt: &doubt{By: []uint64{3}, Boot: 4}}, []uint64{3}, nil, false, false},
		{"with another log", founds, false, memory{Own: 2, Admitted: true}, nil, nil, false, true},
		{"with another log, in a new directory", founds, true, memory{Own: 2}, nil, nil, false, true},
	} {
		n, _, _ := linked(t)
		n.admission.boot, n.admission.me = 0, origin{}
		b := newBench(t)
		n.storage = b.s
		b.s.identity, b.s.founding = tt.id, tt.founding
		if tt.m.Own == 1 { // its own
			tt.m.Own = b.s.log.ID()
		}
		n.directories.now = tt.m
		if err := n.admit(boot); (err != nil) != tt.fails || tt.fails && !errors.Is(err, errForgetful) {
			t.Errorf("a start %s: %v, want that it is refused: %v", tt.name, err, tt.fails)
		}
		if tt.fails {
			continue
		}
		a := &n.admission
		if a.open.Load() != tt.open || !slices.Equal(a.need, tt.need) || !slices.Equal(a.voted, tt.voted) || a.joins != (tt.voted != nil) {
			t.Errorf("a start %s: it takes part at once: %v, it needs %v and a majority of %v: %v; want %v, %v, %v", tt.name, a.open.Load(), a.need, a.voted, a.joins, tt.open, tt.need, tt.voted)
		}
		var g greeting
		if err := json.Unmarshal(n.greeting(2, greeting{})[1:], &g); err != nil || g.First != tt.founding {
			t.Errorf("a start %s: others are told that it has done nothing yet: %v, %v; want %v", tt.name, g.First, err, tt.founding)
		}
	}
}
