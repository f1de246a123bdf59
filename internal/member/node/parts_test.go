package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// A replica is built from the configuration, from the disk, and from the promises of earlier lives.
func TestWhatAReplicaIsMadeFrom(t *testing.T) {
	n, _, _ := linked(t)
	n.cfg.HeartbeatInterval, n.cfg.ElectionTimeout = 100*time.Millisecond, 1250*time.Millisecond
	n.cfg.ReadLease, n.cfg.ReadLeaseTTL = "all", 300*time.Millisecond
	n.cfg.MaxTailBytes, n.cfg.MaxLearners = 1<<20, 3
	n.cfg.Older = true
	index := uint64(9)
	log := replica.Log{HardState: &raftpb.HardState{Commit: &index}}
	start := replica.Restored{Index: 9, Term: 4}
	want := replica.Config{
		ID: 1, Boot: 5<<32 | 7, Log: log, Restored: start, Tick: 100 * time.Millisecond, ElectionTicks: 12,
		ReadLeases:   replica.ReadLeases{Policy: quorumlease.All, TTL: 300 * time.Millisecond, EarlierTTL: 2 * time.Second},
		MaxTailBytes: 1 << 20, MaxLearners: 3, Older: true, Logger: raftLogger{n.logger},
	}
	if got := n.stepping(log, start, 5<<32|7, 2*time.Second); !reflect.DeepEqual(got, want) {
		t.Errorf("it is made from\n%+v, want\n%+v", got, want)
	}
}

// A member starts from its newest snapshot, with its founders, and publishes the released part of its
// log.
func TestAMemberGoesOnFromItsSnapshot(t *testing.T) {
	w := write(t, &pb.PutRequest{Key: []byte("k"), Value: []byte("1")}, &pb.PutRequest{Key: []byte("k"), Value: []byte("2")})
	from := w.state(w.at[0])
	from.Released(w.at[0])
	snap := from.Snapshot()
	defer snap.Release()
	n, _, _ := linked(t)
	var err error
	if n.storage, _, err = openStorage("/data", testIdentity, wal.Options{FS: waltest.NewDisk().FS()}, n.logger); err != nil {
		t.Fatal(err)
	}
	defer n.storage.log.Close()
	if err := n.cfg.setDefaults(); err != nil {
		t.Fatal(err)
	}
	if err := n.storage.saveSnapshot(w.at[0], snap.Term, snap.ConfState(), func(w io.Writer) error { _, err := snap.WriteTo(w); return err }); err != nil {
		t.Fatal(err)
	}
	log := replica.Log{
		HardState: &raftpb.HardState{Term: &snap.Term, Commit: &w.at[0]}, Entries: w.some(w.at[0], w.at[1]),
		Snapshot: &raftpb.SnapshotMetadata{Index: &w.at[0], Term: &snap.Term, ConfState: snap.ConfState()}, Released: w.at[0],
	}
	if err := n.restart(log, 7, time.Second); err != nil {
		t.Fatal(err)
	}
	if n.State().index != w.at[0] || n.appliedIndex() != w.at[0] || n.View().Revision() != from.Store().View().Revision() {
		t.Errorf("it shows state %d of revision %d and has applied %d, want that of the snapshot at %d", n.State().index, n.View().Revision(), n.appliedIndex(), w.at[0])
	}
	log.Released--
	held := w.state(w.at[0]).Snapshot() // which says less, too
	defer held.Release()
	less, _, _ := linked(t)
	if less.storage, _, err = openStorage("/data", testIdentity, wal.Options{FS: waltest.NewDisk().FS()}, n.logger); err != nil {
		t.Fatal(err)
	}
	defer less.storage.log.Close()
	if err := less.cfg.setDefaults(); err != nil {
		t.Fatal(err)
	}
	if err := less.storage.saveSnapshot(w.at[0], snap.Term, snap.ConfState(), func(w io.Writer) error { _, err := held.WriteTo(w); return err }); err != nil {
		t.Fatal(err)
	}
	if err := less.restart(log, 7, time.Second); err != nil {
		t.Fatal(err)
	}
	if less.State().index == w.at[0] || less.appliedIndex() != w.at[0] {
		t.Errorf("with less that is released, as snapshot and log say, it shows state %d and has applied %d", less.State().index, less.appliedIndex())
	}
	if st := n.replica.Status(); st.Commit != w.at[0] || st.Applied != w.at[0] {
		t.Errorf("its replica begins with %+v, want what was restored at %d", st, w.at[0])
	}
	if n.applier.state.Store().Pause == nil {
		t.Error("long work gives way to nobody")
	}
	fresh, _, _ := linked(t)
	fresh.storage = n.storage
	if err := fresh.cfg.setDefaults(); err != nil {
		t.Fatal(err)
	}
	if err := fresh.restart(replica.Genesis(nodeIDs([]uint64{1, 2, 3})), 7, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := len(fresh.applied().roster.Members), 3; got != want {
		t.Errorf("a new member knows %d founders, want %d", got, want)
	}
}

// A member promises for the configured time, passes the configured settings on to the cluster, and
// uses the given clock. A later life respects the promises of the earlier one.
func TestWhatAStartPassesOn(t *testing.T) {
	cfg := single(t, t.TempDir())
	nimble(&cfg)
	cfg.ClientURLs, cfg.ReadLeaseTTL, cfg.Watch = []string{"http://x:1"}, 700*time.Millisecond, watch.Config{MaxWatchers: 1}
	var off atomic.Int64
	cfg.Now = func() machine.Now {
		now := hostNow()
		now.Mono = now.Mono.Add(time.Duration(off.Load()))
		return now
	}
	off.Store(int64(1000 * time.Hour))
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	if _, _, lost := n.Leader(); lost > time.Hour {
		t.Errorf("when it starts there has been no leader for %v", lost)
	}
	if got := n.storage.life.PromiseTTL; got != cfg.ReadLeaseTTL {
		t.Errorf("it may promise for %v, want %v", got, cfg.ReadLeaseTTL)
	}
	if got := n.reads.clock(); got < machine.Mono(999*time.Hour) {
		t.Errorf("readers go by another clock: it shows %v", time.Duration(got))
	}
	end := time.Now().Add(20 * time.Second)
	for len(n.Members()) == 0 || n.Members()[0].Name != "a" {
		if time.Sleep(time.Millisecond); time.Now().After(end) {
			t.Fatal("in 20 s it has not told its name")
		}
	}
	if m := n.Members()[0]; len(m.ClientURLs) != 1 || m.ClientURLs[0] != "http://x:1" {
		t.Errorf("it has told the client URLs %q", m.ClientURLs)
	}
	stream := n.Watches().NewStream(0)
	defer stream.Close()
	for i := range 2 {
		if err := stream.Create(t.Context(), &pb.WatchCreateRequest{Key: []byte("k")}); err != nil {
			t.Fatal(err)
		}
		if r, err := stream.Next(t.Context()); err != nil || r.Canceled != (i == 1) {
			t.Errorf("watch %d, of one at most: %+v, %v", i+1, r, err)
		}
	}
	n.Stop()
	cfg.ReadLeaseTTL = 300 * time.Millisecond
	if n, err = Start(cfg); err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	if got := n.storage.life.PromiseTTL; got != 700*time.Millisecond {
		t.Errorf("with a shorter lease it remembers promises of %v, want those of its earlier life", got)
	}
	n.Stop()
	if err := noteRemoval(cfg.DataDir, wal.OS{}, "removed"); err != nil {
		t.Fatal(err)
	}
	if n, err := Start(cfg); !errors.Is(err, ErrRemoved) {
		t.Errorf("a member that was removed starts: %v", err)
		if err == nil {
			n.Stop()
		}
	}
}

// A member that fails releases its callers and stops its replica before its process is informed. The
// process is informed once, and not before all parts exist.
func TestAFailureIsToldWhenNothingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := linked(t)
		n.running = make(chan struct{})
		var failed []error
		n.cfg.Fail = func(err error) {
			failed = append(failed, err)
			select {
			case <-n.stop:
			default:
				t.Error("callers still wait")
			}
			if n.ctx.Err() == nil {
				t.Error("what is under way goes on")
			}
			if n.driver.Do(func() {}) {
				t.Error("the replica is still stepped")
			}
		}
		go n.fail(errDisk)
		synctest.Wait()
		if len(failed) > 0 {
			t.Error("it fails before all parts are there")
		}
		close(n.running)
		synctest.Wait()
		n.fail(errStopped)
		synctest.Wait()
		if len(failed) != 1 || !errors.Is(failed[0], errDisk) {
			t.Errorf("it fails with %v, want once, with the first", failed)
		}
		if got := l.heard(); len(got) > 0 {
			t.Errorf("the replica is told %v", got)
		}
		n.driver.Stop()
	})
}

// A removed member ends once its end could be reported, even if its removal cannot be recorded.
func TestAMemberThatWasRemovedEnds(t *testing.T) {
	for _, broken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, _, _ := linked(t)
			disk := waltest.NewDisk().FS()
			disk.Fault = func(string, string) error {
				if broken {
					return errDisk
				}
				return nil
			}
			n.cfg.WAL.FS = disk
			ended := make(chan error, 1)
			n.cfg.Fail = func(err error) { ended <- err }
			n.removed()
			time.Sleep(n.cfg.HeartbeatInterval - 1)
			if synctest.Wait(); len(ended) > 0 {
				t.Errorf("disk broken: %v: it ends with %v, before that could be told", broken, <-ended)
			}
			time.Sleep(time.Nanosecond)
			if synctest.Wait(); len(ended) != 1 {
				t.Errorf("disk broken: %v: it ends with nothing, want %v", broken, ErrRemoved)
			} else if err := <-ended; !errors.Is(err, ErrRemoved) {
				t.Errorf("disk broken: %v: it ends with %v, want %v", broken, err, ErrRemoved)
			}
			n.driver.Stop()
		})
	}
}

// A member announces its name and its client URLs until they are known.
func TestANameIsToldUntilItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := linked(t)
		defer n.end()
		n.cfg.MaxPendingBytes = 1 << 20
		n.cfg.ClientURLs = []string{"http://x:1"}
		me := &pb.Member{ID: 1, Name: "a", PeerURLs: []string{n.cfg.Peers["a"]}, ClientURLs: n.cfg.ClientURLs}
		body, err := replica.EncodeRequest(me)
		if err != nil {
			t.Fatal(err)
		}
		n.admission.open.Store(true)
		n.done.Add(1)
		ended := false
		go func() { n.announce(); ended = true }()
		for tries := range 3 {
			synctest.Wait()
			got := told[replica.Propose](t, l)
			if len(got) != tries+1 {
				t.Fatalf("after %d tries it has proposed %v, want its name again", tries, got)
			}
			if !bytes.Equal(got[tries].Body, body) {
				t.Errorf("it proposes %q, want its name and where clients find it: %q", got[tries].Body, body)
			}
			if tries < 2 {
				n.results.answer(got[tries].ID, result{err: rpctypes.ErrGRPCNoLeader})
				time.Sleep(n.cfg.ElectionTimeout)
				continue
			}
			n.results.answer(got[tries].ID, result{response: me})
		}
		if synctest.Wait(); !ended {
			t.Error("it goes on though its name is known")
		}
		now := replica.FoundedBy(n.founders)
		now.Members[0] = me
		n.is(now)
		n.done.Add(1)
		go n.announce()
		if synctest.Wait(); len(told[replica.Propose](t, l)) != 3 {
			t.Error("it tells again what is known")
		}
	})
}

// Housekeeping covers missing confirmations, refusals, and the addresses of other members, if there
// can be other members.
func TestHousekeepingLooksAfterOthers(t *testing.T) {
	reason := refusalOf(t, answers["duplicate"])
	synctest.Test(t, func(t *testing.T) {
		n, _, links := linked(t)
		awaiting(2, 3)(n)
		n.asks, n.keyReads = newWaits[askResult](), newWaits[keysResult]()
		n.cfg.RequestTimeout = time.Hour
		links.stats = map[machine.NodeID]peer.Stats{2: {LastError: reason}, 3: {LastError: reason}}
		var failed error
		n.cfg.Fail = func(err error) { failed = err }
		var dials atomic.Int64
		n.cfg.Dial = func(context.Context, string) (net.Conn, error) { dials.Add(1); return nil, errDisk }
		n.leadership.Store(&leadership{at: time.Now().Add(-time.Hour)})
		n.done.Add(1)
		go n.housekeeping()
		time.Sleep(n.cfg.HeartbeatInterval)
		synctest.Wait()
		if got := len(links.take()); got != 2 {
			t.Errorf("at a heartbeat %d others are asked to confirm, want two", got)
		}
		if got := dials.Load(); got != 2 {
			t.Errorf("without a leader %d others are asked for the members, want two", got)
		}
		time.Sleep(11 * n.cfg.ElectionTimeout)
		if synctest.Wait(); !errors.Is(failed, peer.ErrDuplicateID) {
			t.Errorf("while another process has its ID it ends with %v, want %v", failed, peer.ErrDuplicateID)
		}
		n.end()
	})
}

// A change of the members is proposed as requested, and its outcome is returned.
func TestMembersAreChangedAsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := linked(t)
		defer n.end()
		n.cfg.MaxPendingBytes, n.cfg.ClusterToken = 1<<20, "token"
		var ids []uint64
		for i, learner := range []bool{true, false} {
			var m *pb.Member
			var list []*pb.Member
			var err error
			go func() { m, list, err = n.AddMember(t.Context(), []string{"http://m:9"}, learner) }()
			synctest.Wait()
			asked := told[replica.Propose](t, l)
			var got raftpb.ConfChange
			if len(asked) != i+1 || proto.Unmarshal(asked[i].Body[1:], &got) != nil {
				t.Fatalf("the replica is told %v", asked)
			}
			id := got.GetNodeId()
			want, err2 := replica.EncodeRequest(replica.AddMember(id, []string{"http://m:9"}, learner))
			if err2 != nil || !bytes.Equal(asked[i].Body, want) {
				t.Errorf("learner: %v: %v is proposed, want that it is added", learner, &got)
			}
			if id == uint64(memberID("http://m:9", "token", "")) {
				t.Error("a later member has the ID of a founder at its URL")
			}
			ids = append(ids, id)
			members := []*pb.Member{{ID: 1}, {ID: id, Name: "it"}, {ID: id + 1}}
			n.results.answer(asked[i].ID, result{response: &pb.MemberListResponse{Members: members}})
			if synctest.Wait(); err != nil || m != members[1] || len(list) != 3 {
				t.Errorf("learner: %v: the new member is %v of %v, %v", learner, m, list, err)
			}
		}
		if ids[0] == ids[1] {
			t.Error("two members that were added at one URL have the same ID")
		}
		for _, tt := range []struct {
			name string
			do   func() ([]*pb.Member, error)
			want *raftpb.ConfChange
		}{
			{"removed", func() ([]*pb.Member, error) { return n.RemoveMember(t.Context(), 3) }, replica.RemoveMember(3)},
			{"promoted", func() ([]*pb.Member, error) { return n.PromoteMember(t.Context(), 3) }, replica.PromoteMember(3)},
			{"moved", func() ([]*pb.Member, error) { return n.UpdateMember(t.Context(), 3, []string{"http://m:8"}) }, replica.UpdateMember(3, []string{"http://m:8"})},
		} {
			var list []*pb.Member
			var err error
			go func() { list, err = tt.do() }()
			synctest.Wait()
			asked := told[replica.Propose](t, l)
			last := asked[len(asked)-1]
			if want, err := replica.EncodeRequest(tt.want); err != nil || !bytes.Equal(last.Body, want) {
				t.Errorf("a member is %s: %q is proposed, want %q, %v", tt.name, last.Body, want, err)
			}
			n.results.answer(last.ID, result{response: &pb.MemberListResponse{Members: []*pb.Member{{ID: 1}, {ID: 2}}}})
			if synctest.Wait(); err != nil || len(list) != 2 {
				t.Errorf("a member is %s: told are %v, %v", tt.name, list, err)
			}
		}
		n.peers = nil
		if _, _, err := n.AddMember(t.Context(), []string{"http://m:9"}, true); err == nil || !strings.Contains(err.Error(), "PeerListener") {
			t.Errorf("without a listener for others: %v", err)
		}
	})
}

// A member describes its cluster as applied, and its founders as long as it lives.
func TestFoundersAreToldForEver(t *testing.T) {
	n, _, _ := linked(t)
	n.is(rosterOf([]uint64{1, 9}, 2, 3))
	const want = `{"cluster_id":7,"founders":[{"id":1,"peer_url":"http://127.0.0.1:1"},{"id":2,"peer_url":"http://127.0.0.1:2"},{"id":3,"peer_url":"http://127.0.0.1:3"}],` +
		`"members":[{"id":1,"peer_url":"http://m:1"},{"id":9,"peer_url":"http://m:9"}],"started":null,"voters":[1,9]}`
	if got := string(n.introduction()); got != want {
		t.Errorf("it says\n%s, want\n%s", got, want)
	}
}
