package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// behind is a cluster with a member that has to catch up by a snapshot, whose
// disk holds it up when that begins.
type behind struct {
	*crashing
	lead, away int
	held       chan struct{} // closed when the snapshot begins to be written
	release    chan struct{}
	value      []byte
}

func newBehind(t *testing.T) *behind {
	b := &behind{crashing: newCrashing(t, 3, 9), value: make([]byte, 2048), held: make(chan struct{}), release: make(chan struct{})}
	b.lead = b.leader()
	b.away = (b.lead + 1) % 3
	b.crash(b.away)
	b.fill(0, 200)
	disk := b.disks[b.away].FS()
	var once sync.Once
	disk.Fault = func(op, path string) error {
		if op == "write" && strings.Contains(path, "/snap/") {
			once.Do(func() {
				close(b.held)
				<-b.release
			})
		}
		return nil
	}
	b.cfgs[b.away].WAL.FS = disk
	b.start(b.away)
	b.wait(b.held, "a snapshot")
	return b
}

func (b *behind) wait(c chan struct{}, what string) {
	b.t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		b.t.Fatalf("no %s in 20 s", what)
	}
}

func (b *behind) fill(from, to int) {
	b.t.Helper()
	for i := from; i < to; i++ {
		b.put(b.lead, fmt.Sprintf("k%d", i%40), fmt.Sprintf("%d %s", i, b.value))
	}
}

// caughtUp wants the writes up to n at the member that was away, which has
// restarted from what it holds, and the snapshots to be no more than they should.
func (b *behind) caughtUp(n int) {
	b.t.Helper()
	check := func() {
		b.t.Helper()
		for i := n - 40; i < n; i++ {
			var got int
			fmt.Sscan(b.get(b.away, fmt.Sprintf("k%d", i%40)), &got)
			if got != i {
				b.t.Fatalf("k%d is %d at the member that was away, want %d", i%40, got, i)
			}
		}
	}
	check()
	b.crash(b.away)
	b.restart(b.away)
	check()
	for i, d := range b.disks {
		// Those that are being made take the place of older ones in the end. A
		// crash between the two leaves one more, until the next is made.
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			names, err := d.FS().ReadDir("/data/snap")
			if err == nil && len(names) <= 3 {
				break
			}
			if err != nil || time.Since(began) > 10*time.Second {
				b.t.Fatalf("member %d has snapshots %v, %v; want two or three", i, names, err)
			}
		}
	}
}

func TestSnapshotThatIsPrunedWhileItIsSent(t *testing.T) {
	b := newBehind(t)
	before, err := b.nodes[b.lead].storage.log.Snapshots().List()
	if err != nil {
		t.Fatal(err)
	}
	b.fill(200, 500) // writes go on, and newer snapshots are made
	after, err := b.nodes[b.lead].storage.log.Snapshots().List()
	if err != nil || len(after) == 0 || after[0] <= before[len(before)-1] {
		t.Fatalf("snapshots %v became %v, %v; want those before to be gone", before, after, err)
	}
	close(b.release)
	b.caughtUp(500)
}

func TestFollowerDiesWhileItReceivesASnapshot(t *testing.T) {
	b := newBehind(t)
	b.disks[b.away].Crash(b.rand)
	close(b.release)
	b.crash(b.away)
	b.fill(200, 240)
	b.restart(b.away)
	b.caughtUp(240)
}

func TestLeaderDiesWhileItSendsASnapshot(t *testing.T) {
	b := newBehind(t)
	died := b.lead
	go func() { // the two others elect one, of which one is held up by its disk
		time.Sleep(100 * time.Millisecond)
		close(b.release)
	}()
	b.crash(died)
	b.lead = b.leader()
	b.fill(200, 240)
	b.restart(died)
	b.caughtUp(240)
}

func TestLeaderChangesWhileASnapshotIsSent(t *testing.T) {
	b := newBehind(t)
	if err := b.nodes[b.lead].HandOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.lead = 3 - b.away - b.lead
	b.fill(200, 240)
	close(b.release)
	b.caughtUp(240)
}

// TestReceivedSnapshots are streams that a member must not act on.
func TestReceivedSnapshots(t *testing.T) {
	n := lonely(t, func(cfg *Config) {
		cfg.DataDir = "/data"
		cfg.WAL = wal.Options{FS: waltest.NewDisk().FS(), SegmentBytes: 8 << 10}
	})
	from := machine.NodeID(n.founders[0].ID)
	if from == n.id {
		from = machine.NodeID(n.founders[1].ID)
	}
	other := wal.Options{FS: waltest.NewDisk().FS(), SegmentBytes: 8 << 10}
	log, err := wal.Create("/other", nil, other)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	meta := fmt.Appendf(nil, `{"voters":[%d]}`, from)
	if err := log.Snapshots().Save(wal.SnapshotInfo{Index: 9, Term: 3, Meta: meta}, func(w io.Writer) error {
		_, err := replica.NewApplier(from, 1).Snapshot().WriteTo(w)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r, _, err := log.Snapshots().Export(9)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	message := func(typ raftpb.MessageType, index uint64) []byte {
		term, to, by := uint64(1), uint64(n.id), uint64(from)
		p, err := replica.EncodeBody(&raftpb.Message{Type: &typ, Term: &term, From: &by, To: &to,
			Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{by, to}}}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if err := n.receive(from, message(raftpb.MsgSnap, 9), bytes.NewReader(whole)); err == nil || !strings.Contains(err.Error(), "not listened to") {
		t.Errorf("before this member's directory is confirmed: %v, want that it takes no snapshot", err)
	}
	n.admission.open.Store(true) // as if the others had been met
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	for _, tt := range []struct {
		name   string
		header []byte
		body   []byte
		want   string
	}{
		{"no header", nil, whole, "no sense"},
		{"another message", message(raftpb.MsgApp, 9), whole, "not a snapshot"},
		{"another index", message(raftpb.MsgSnap, 8), whole, "snapshot 8 was announced"},
		{"another term", message(raftpb.MsgSnap, 9), whole, "came with the file of"},
		{"cut off", message(raftpb.MsgSnap, 9), whole[:len(whole)-1], "damaged"},
		{"damaged", message(raftpb.MsgSnap, 9), damaged, "damaged"},
		{"nothing", message(raftpb.MsgSnap, 9), nil, "damaged"},
	} {
		if err := n.receive(from, tt.header, bytes.NewReader(tt.body)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if left, err := n.cfg.WAL.FS.ReadDir("/data/snap"); err != nil || len(left) > 0 {
			t.Errorf("%s: files %q are left, %v", tt.name, left, err)
		}
	}
	// A message that announces a snapshot and comes without one.
	n.deliver(from, [][]byte{message(raftpb.MsgSnap, 50)})
	if st, ok := n.Status(); !ok || st.Commit != 1 || n.State().index != 1 {
		t.Errorf("status %+v, applied %d: want that nothing was restored", st, n.State().index)
	}
}

// newestIndex is that of the newest snapshot that is in use.
func (s *storage) newestIndex() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// TestSnapshotsLetGo: what a snapshot held still can be given back when it is written.
func TestSnapshotsLetGo(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes[0]
	var revision int64
	for range 5 {
		for range 20 {
			revision = c.put(0, "k", "v")
		}
		before := n.storage.newestIndex()
		n.applier.put(replica.WantSnapshot{})
		c.eventually("a snapshot", func() bool { return n.storage.newestIndex() > before })
		if _, err := n.Propose(t.Context(), &pb.CompactionRequest{Revision: revision}); err != nil {
			t.Fatal(err)
		}
	}
	few := func() bool { return n.Stats().Versions <= 3 }
	for end := time.Now().Add(10 * time.Second); !few() && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if !few() {
		t.Errorf("behind five snapshots and compactions one key has %d versions, want its last one", n.Stats().Versions)
	}
}

// counted counts the files of snapshots, and the notes of removals, that are open.
type counted struct {
	wal.FS
	open atomic.Int64
}

func (c *counted) OpenFile(path string, flag int, perm fs.FileMode) (wal.File, error) {
	f, err := c.FS.OpenFile(path, flag, perm)
	if err == nil && (strings.Contains(path, "/snap/") || strings.HasSuffix(path, "/"+removedFile)) {
		c.open.Add(1)
		f = &countedFile{File: f, of: c}
	}
	return f, err
}

type countedFile struct {
	wal.File
	of     *counted
	closed sync.Once
}

func (f *countedFile) Close() error {
	f.closed.Do(func() { f.of.open.Add(-1) })
	return f.File.Close()
}

// TestSentSnapshotsAreClosed: a snapshot that could not be sent leaves no file open, which
// would keep its room on the disk.
func TestSentSnapshotsAreClosed(t *testing.T) {
	disk := &counted{FS: waltest.NewDisk().FS()}
	n := lonely(t, func(cfg *Config) { cfg.DataDir, cfg.WAL = "/data", wal.Options{FS: disk, SegmentBytes: 8 << 10} })
	if err := n.storage.saveSnapshot(9, 3, &raftpb.ConfState{}, func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	typ, index := raftpb.MsgSnap, uint64(9)
	out := replica.SendSnapshot{To: 99, Message: &raftpb.Message{
		Type: &typ, Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index}},
	}}
	if err := n.snapshots.stream(n, out); !errors.Is(err, peer.ErrUnknownMember) {
		t.Errorf("a snapshot for nobody: got %v, want ErrUnknownMember", err)
	}
	if k := disk.open.Load(); k != 0 {
		t.Errorf("%d files of snapshots are open, and none is being sent", k)
	}
}

// TestSnapshotThatCannotBeSaved: a disk that does not take a snapshot ends the member, which
// says why.
func TestSnapshotThatCannotBeSaved(t *testing.T) {
	disk := waltest.NewDisk().FS()
	disk.Fault = func(op, path string) error {
		if op == "write" && strings.Contains(path, "/snap/") {
			return errDisk
		}
		return nil
	}
	ended := make(chan error, 1)
	cfg := single(t, "/data")
	cfg.WAL, cfg.Fail = wal.Options{FS: disk, SegmentBytes: 8 << 10}, func(err error) { ended <- err }
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	n.applier.put(replica.WantSnapshot{})
	select {
	case err := <-ended:
		if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "save a snapshot") {
			t.Errorf("the member ends because of %v, want that a snapshot was not saved", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a member whose snapshots cannot be saved goes on")
	}
}

// TestSnapshotDoesNotStallWrites makes snapshots of a larger state and looks how
// long writes take meanwhile.
func TestSnapshotDoesNotStallWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while; `go test ./internal/member/node` runs it")
	}
	size := 100 << 20
	if raceDetector {
		size /= 4
	}
	c := newCluster(t, 1)
	n := c.nodes[0]
	value := make([]byte, 1000)
	for at := 0; at < size/len(value); {
		var ops []*pb.RequestOp
		for range 1000 {
			ops = append(ops, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: fmt.Appendf(nil, "big/%08d", at), Value: value}}})
			at++
		}
		if _, err := n.Propose(t.Context(), &pb.TxnRequest{Success: ops}); err != nil {
			t.Fatal(err)
		}
	}
	newest := n.storage.newestIndex
	measure := func(until func() bool) (worst time.Duration, puts int) {
		for ; !until() || puts < 20; puts++ {
			began := time.Now()
			c.put(0, "small", "x")
			worst = max(worst, time.Since(began))
		}
		return worst, puts
	}
	quiet, _ := measure(func() bool { return true })
	before := newest()
	began := time.Now()
	n.applier.put(replica.WantSnapshot{})
	worst, puts := measure(func() bool { return newest() > before })
	t.Logf("a snapshot of %d MB took %v; the longest of %d writes meanwhile %v, of 20 before %v", size>>20, time.Since(began), puts, worst, quiet)
	if worst > time.Second {
		t.Errorf("a write took %v during a snapshot", worst)
	}
}

// A snapshot's file and its message say the same of index, term and members.
func TestAnnouncedSo(t *testing.T) {
	info := wal.SnapshotInfo{Index: 9, Term: 3, Meta: []byte(`{"voters":[1,2],"learners":[3]}`)}
	said, err := metadataOf(info)
	if err != nil {
		t.Fatal(err)
	}
	if err := announcedSo(info, said); err != nil {
		t.Errorf("of its own message: %v", err)
	}
	for name, change := range map[string]func(md *raftpb.SnapshotMetadata){
		"another index":    func(md *raftpb.SnapshotMetadata) { md.Index = new(uint64(8)) },
		"another term":     func(md *raftpb.SnapshotMetadata) { md.Term = new(uint64(2)) },
		"another voter":    func(md *raftpb.SnapshotMetadata) { md.ConfState.Voters = []uint64{1, 4} },
		"a voter more":     func(md *raftpb.SnapshotMetadata) { md.ConfState.Voters = []uint64{1, 2, 4} },
		"another learner":  func(md *raftpb.SnapshotMetadata) { md.ConfState.Learners = []uint64{4} },
		"no learner":       func(md *raftpb.SnapshotMetadata) { md.ConfState.Learners = nil },
		"a learner voting": func(md *raftpb.SnapshotMetadata) { md.ConfState.Voters, md.ConfState.Learners = []uint64{1, 2, 3}, nil },
	} {
		said, err := metadataOf(info)
		if err != nil {
			t.Fatal(err)
		}
		change(said)
		if err := announcedSo(info, said); err == nil {
			t.Errorf("a file of %s than its message is taken", name)
		}
	}
}

// TestStopWaitsForASnapshot: nothing is written to the directory of a member that was stopped: the
// next one may have it by then.
func TestStopWaitsForASnapshot(t *testing.T) {
	disk := waltest.NewDisk().FS()
	writes, stopped := make(chan struct{}), make(chan struct{})
	var first sync.Once
	var late atomic.Bool
	disk.Fault = func(op, path string) error {
		if op == "write" && strings.Contains(path, "/snap/") {
			first.Do(func() {
				close(writes)
				select {
				case <-stopped:
					late.Store(true)
				case <-time.After(500 * time.Millisecond):
				}
			})
		}
		return nil
	}
	n := lonely(t, func(cfg *Config) { cfg.DataDir, cfg.WAL = "/data", wal.Options{FS: disk, SegmentBytes: 8 << 10} })
	n.applier.put(replica.WantSnapshot{})
	<-writes
	n.Stop()
	close(stopped)
	if open := disk.Open(); len(open) > 0 || late.Load() {
		t.Errorf("a member was stopped, and a snapshot is still being written: %v, open are %q", late.Load(), open)
	}
}

// TestAStopLeavesNoPartOfASnapshot: a member that stops writes no more of a snapshot, and what it has
// written is none. Taken for whole, it would be the newest, and the next start would fail by it.
func TestAStopLeavesNoPartOfASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := linked(t)
		defer n.end()
		var failed error
		n.cfg.Fail = func(err error) { failed = err }
		n.storage, _ = storageOn(t, waltest.NewDisk().FS())
		defer n.storage.log.Close()
		state := replica.NewApplier(n.id, 1)
		state.Found(replica.FoundedBy(n.founders))
		save := func() (saved []uint64) {
			n.snapshots.start(n, state.Snapshot())
			n.snapshots.wait()
			synctest.Wait()
			saved, err := n.storage.log.Snapshots().List()
			if err != nil {
				t.Fatal(err)
			}
			return saved
		}
		close(n.stop)
		if saved := save(); len(saved) > 0 || failed != nil || len(l.heard()) > 0 {
			t.Errorf("stopped while a snapshot is saved: there are snapshots %d, it fails with %v, and the replica is told %v", saved, failed, l.heard())
		}
		n.stop = make(chan struct{})
		if saved := save(); len(saved) != 1 || len(l.heard()) != 1 {
			t.Errorf("not stopped: there are snapshots %d, and the replica is told %v; want one, and that it is there", saved, l.heard())
		}
		if n, err := (untilStop{stop: n.stop, r: strings.NewReader("abc")}).Read(make([]byte, 9)); n != 3 || err != nil {
			t.Errorf("%d bytes are read, %v; want three", n, err)
		}
	})
}

// TestStopDoesNotWaitForARestore: a member that stops loads no more of a snapshot, however large.
func TestStopDoesNotWaitForARestore(t *testing.T) {
	n := lonely(t, func(*Config) {})
	if err := n.storage.saveSnapshot(1<<40, 3, &raftpb.ConfState{}, func(w io.Writer) error {
		_, err := w.Write([]byte("not the form of a state, for nobody comes to read it"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	n.Stop()
	a := newApplier(n, replica.NewApplier(n.id, 1), 0)
	if err := a.restore(replica.Restore{Index: 1 << 40, Term: 3}); !errors.Is(err, errStopped) {
		t.Errorf("a snapshot is loaded though the member was stopped: %v, want %v", err, errStopped)
	}
}
