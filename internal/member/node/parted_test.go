package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3/raftpb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Parts of a member are tested with a replica that only listens.

// listener is a machine that notes what it is told.
type listener struct {
	mu     sync.Mutex
	inputs []any
}

func (l *listener) Step(_ machine.Now, input replica.Input) { l.record(input) }

func (l *listener) Receive(_ machine.Now, e machine.Envelope) { l.record(e) }

func (l *listener) Wake(machine.Now) {}

func (l *listener) record(input any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inputs = append(l.inputs, input)
}

func (l *listener) Ready() machine.Ready[replica.Outcome] {
	return machine.Ready[replica.Outcome]{Alarm: machine.Never}
}

// told waits until the replica has received an input of this type, and returns all of them.
func told[T any](t *testing.T, l *listener) (list []T) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); len(list) == 0; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		for _, in := range l.inputs {
			if in, ok := in.(T); ok {
				list = append(list, in)
			}
		}
		l.mu.Unlock()
		if time.Now().After(end) {
			t.Fatalf("in 20 s the replica was not told of a %T", *new(T))
		}
	}
	return list
}

// parted is member 1 of three. Its replica only listens, and nothing else runs.
func parted(t *testing.T) (*Node, *listener) {
	t.Helper()
	n := &Node{
		id: 1, cluster: 7, logger: slog.New(slog.DiscardHandler), calls: calls{results: newWaits[result]()},
		published: published{shown: make(chan struct{})}, lifecycle: lifecycle{running: make(chan struct{}), stop: make(chan struct{}), named: make(chan struct{})},
		cfg: Config{Name: "a", Peers: map[string]string{"a": "http://127.0.0.1:1"}, HeartbeatInterval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)},
	}
	close(n.running)
	n.ctx, n.cancel = context.WithCancel(t.Context())
	founders := []*pb.Member{{ID: 1, PeerURLs: []string{"http://127.0.0.1:1"}}, {ID: 2, PeerURLs: []string{"http://127.0.0.1:2"}}, {ID: 3, PeerURLs: []string{"http://127.0.0.1:3"}}}
	st := &state{roster: replica.FoundedBy(founders)}
	n.ahead.Store(&[]*state{st})
	n.state.Store(st)
	n.leadership.Store(&leadership{})
	l := &listener{}
	n.driver = driver.Start(driver.Config[replica.Input, replica.Outcome]{Machine: l, Now: hostNow, Send: n.send, Outcome: n.handle, Fail: func(err error) { t.Error(err) }})
	t.Cleanup(n.driver.Stop)
	t.Cleanup(n.cancel)
	return n, l
}

// A snapshot that could not be sent is reported as failed.
func TestASnapshotThatWasNotSentIsToldSo(t *testing.T) {
	n, l := parted(t)
	var err error
	n.storage, _, err = openStorage("/data", testIdentity, wal.Options{FS: waltest.NewDisk().FS()}, n.logger)
	if err != nil {
		t.Fatal(err)
	}
	defer n.storage.log.Close()
	index := uint64(77) // there is no such snapshot
	n.snapshots.send(n, replica.SendSnapshot{To: 2, Message: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), To: new(uint64(2)), Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index}}}})
	n.snapshots.wait()
	if got := told[replica.SnapshotSent](t, l); len(got) != 1 || got[0] != (replica.SnapshotSent{To: 2}) {
		t.Errorf("the replica is told %+v, want that nothing was sent to member 2", got)
	}
}

// The replica is informed when the connection to a member breaks.
func TestTheReplicaHearsOfConnections(t *testing.T) {
	n, l := parted(t)
	var err error
	n.storage, _, err = openStorage("/data", testIdentity, wal.Options{FS: waltest.NewDisk().FS()}, n.logger)
	if err != nil {
		t.Fatal(err)
	}
	defer n.storage.log.Close()
	if n.directories, err = openDirectories("/data", 5, waltest.NewDisk().FS()); err != nil {
		t.Fatal(err)
	}
	own, other := listen(t), listen(t)
	n.cfg.PeerListener, n.cfg.Peers["a"] = own, "http://"+own.Addr().String()
	n.ahead.Store(&[]*state{{roster: replica.FoundedBy([]*pb.Member{{ID: 1, PeerURLs: []string{n.cfg.Peers["a"]}}, {ID: 2, PeerURLs: []string{"http://" + other.Addr().String()}}})}})
	met := make(chan struct{}, 100)
	tr, err := peer.New(peer.Config{
		Self: 2, ClusterID: 7, Listener: other, Peers: map[machine.NodeID]string{1: own.Addr().String()}, Logger: n.logger,
		Deliver: func(machine.NodeID, [][]byte) { met <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.connect(); err != nil {
		t.Fatal(err)
	}
	defer n.peers.Close()
	<-met
	for !tr.Stats(1).Connected { // a process has died when the connections of both ways end
		time.Sleep(time.Millisecond)
	}
	tr.Close()
	for _, down := range told[replica.Down](t, l) {
		if down.Node != 2 {
			t.Errorf("the replica is told that member %d is down, want 2", down.Node)
		}
	}
}

// While leadership moves there is no leader for a moment. That does not end the move.
func TestMovesOfLeadership(t *testing.T) {
	for _, tt := range []struct {
		name string
		then []machine.NodeID // who leads after this member
		want error
	}{
		{"to the one that was asked for", []machine.NodeID{2}, nil},
		{"with no leader for a moment", []machine.NodeID{0, 2}, nil},
		{"after an attempt that failed", []machine.NodeID{0, 1, 0, 2}, nil},
		{"to another", []machine.NodeID{0, 3}, rpctypes.ErrGRPCNotLeader},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l := parted(t)
			n.leadership.Store(&leadership{leader: 1})
			moved := make(chan error, 1)
			go func() { moved <- n.MoveLeader(t.Context(), 2) }()
			for _, leader := range tt.then {
				time.Sleep(time.Second)
				n.leadership.Store(&leadership{leader: leader})
			}
			time.Sleep(time.Second)
			select {
			case err := <-moved:
				if !errors.Is(err, tt.want) {
					t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
				}
			default:
				t.Errorf("%s: it is still under way", tt.name)
			}
			for _, in := range told[replica.HandOver](t, l) {
				if in.To != 2 {
					t.Errorf("%s: the replica is to hand over to member %d, want 2", tt.name, in.To)
				}
			}
			n.cancel()
			n.driver.Stop()
		})
	}
	n, _ := parted(t)
	for _, tt := range []struct {
		leader machine.NodeID
		to     uint64
		want   error
	}{{0, 2, rpctypes.ErrGRPCNotLeader}, {2, 3, rpctypes.ErrGRPCNotLeader}, {1, 9, rpctypes.ErrGRPCBadLeaderTransferee}, {1, 1, nil}} {
		n.leadership.Store(&leadership{leader: tt.leader})
		if err := n.MoveLeader(t.Context(), tt.to); !errors.Is(err, tt.want) {
			t.Errorf("from member 1 to %d while %d leads: %v, want %v", tt.to, tt.leader, err, tt.want)
		}
	}
}

// While an entry is held, the published state is an older one, and none of its memory is given back.
// Afterwards it is.
func TestNothingThatIsShownIsGivenBack(t *testing.T) {
	// A log with a key of many versions, and with a compaction of these at its end.
	dir := t.TempDir()
	whole, err := Start(single(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := whole.Propose(t.Context(), &pb.PutRequest{Key: []byte("k"), Value: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	last := whole.View().Revision()
	compaction := whole.State().index + 1
	for range 2 { // with something behind it
		if _, err := whole.Propose(t.Context(), &pb.CompactionRequest{Revision: last}); err != nil && compaction == whole.State().index {
			t.Fatal(err)
		}
	}
	whole.Stop()
	s, log, err := openStorage(dir, whole.storage.identity, wal.Options{FS: wal.OS{}}, whole.logger)
	if err != nil {
		t.Fatal(err)
	}
	s.log.Close()
	at := slices.IndexFunc(log.Entries, func(e *raftpb.Entry) bool { return e.GetIndex() == compaction })
	if at < 0 || len(log.Entries) < at+2 {
		t.Fatalf("the log has %d entries, and the compaction is not the last but one: %d", len(log.Entries), at)
	}

	n, _ := parted(t)
	st := replica.NewApplier(1, 1)
	st.Found(replica.FoundedBy(whole.founders))
	n.applier = newApplier(n, st, 0)
	n.done.Add(1)
	go n.applier.run()
	defer func() { close(n.stop); n.done.Wait() }()
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("in 20 s not: %s", what)
			}
		}
	}
	n.applier.put(replica.Committed{Entries: log.Entries[:at]})
	until("the versions are shown", func() bool { return n.View().Revision() == last })
	n.applier.put(replica.Committed{Entries: log.Entries[at : at+1], Held: true})
	until("the compaction is applied", func() bool { return n.appliedIndex() >= compaction })
	// With this the applier has gone round once more.
	n.applier.put(replica.Committed{Entries: log.Entries[at+1 : at+2], Held: true})
	until("what is behind it is applied", func() bool { return n.appliedIndex() > compaction })
	if n.State().index >= compaction {
		t.Fatal("what is held is shown")
	}
	for rev := last - 49; rev <= last; rev++ {
		resp, err := n.View().Range(&pb.RangeRequest{Key: []byte("k"), Revision: rev})
		if err != nil || len(resp.Kvs) != 1 || resp.Kvs[0].ModRevision != rev {
			t.Fatalf("what is shown has given back revision %d: %v, %v", rev, resp, err)
		}
	}
	n.applier.put(replica.Released{Through: compaction + 1})
	until("what was compacted is given back", func() bool { return n.View().CompactRevision() == last && n.View().Stats().Versions < 10 })
}

// Ended leases and finished grants leave room for others.
func TestLeasesThatEndedLeaveRoom(t *testing.T) {
	cfg := single(t, t.TempDir())
	cfg.MaxLeases = 2
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	for i := range 6 {
		resp, err := n.Propose(t.Context(), &pb.LeaseGrantRequest{TTL: 60})
		if err != nil {
			t.Fatalf("grant %d, when there is no other lease: %v", i, err)
		}
		if _, err := n.Propose(t.Context(), &pb.LeaseRevokeRequest{ID: resp.(*pb.LeaseGrantResponse).ID}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		_, _ = n.Propose(t.Context(), &pb.LeaseGrantRequest{TTL: 60}) // three of them are refused
	}
	if k := n.granting.Load(); k != 0 {
		t.Errorf("%d grants are under way, want none", k)
	}
}

// A stream is accepted only if it is a snapshot from an admitted member.
func TestStreamsThatAreNoSnapshots(t *testing.T) {
	n, l := parted(t)
	term := uint64(1)
	heartbeat, err := replica.EncodeBody(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: &term})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		open   bool
		from   machine.NodeID
		header []byte
		want   string
	}{
		{"a member that is not admitted", false, 2, heartbeat, "node: member 2 is not listened to, for data directories are to be set right first"},
		{"one that has forgotten", true, 3, heartbeat, "node: member 3 is not listened to, for data directories are to be set right first"},
		{"another message", true, 2, heartbeat, "node: a stream from member 2 is not a snapshot"},
	} {
		n.admission.open.Store(tt.open)
		n.admission.refused.Store(machine.NodeID(3), true)
		if err := n.receive(tt.from, tt.header, io.LimitReader(nil, 0)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	n.admission.open.Store(true)
	if err := n.receive(2, []byte{63}, nil); err == nil {
		t.Error("a stream that makes no sense is taken")
	}
	if l.mu.Lock(); len(l.inputs) > 0 {
		t.Errorf("the replica is told %v", l.inputs)
	}
	l.mu.Unlock()
}
