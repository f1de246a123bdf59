package node

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Each caller gets the outcome of its request.
func TestWhatCallersAreTold(t *testing.T) {
	ids := []uint64{3, 4, 20}
	for _, tt := range []struct {
		name   string
		leader machine.NodeID
		out    replica.Outcome
		told   map[uint64]error
	}{
		{"without a leader", 0, replica.Dropped{IDs: ids}, map[uint64]error{3: rpctypes.ErrGRPCNoLeader, 4: rpctypes.ErrGRPCNoLeader, 20: rpctypes.ErrGRPCNoLeader}},
		{"a leader has no room", 2, replica.Dropped{IDs: ids}, map[uint64]error{3: rpctypes.ErrGRPCRequestTooManyRequests, 4: rpctypes.ErrGRPCRequestTooManyRequests, 20: rpctypes.ErrGRPCRequestTooManyRequests}},
		{"done, perhaps", 2, replica.Dropped{IDs: ids[1:], Ambiguous: true}, map[uint64]error{4: rpctypes.ErrGRPCTimeoutDueToLeaderFail, 20: rpctypes.ErrGRPCTimeoutDueToLeaderFail}},
		{"done, perhaps, without a leader", 0, replica.Dropped{IDs: ids[:1], Ambiguous: true}, map[uint64]error{3: rpctypes.ErrGRPCTimeoutDueToLeaderFail}},
		{"refused", 2, replica.Rejected{ID: 4, Err: errDisk}, map[uint64]error{4: errDisk}},
	} {
		n, _, _ := linked(t)
		n.leadership.Store(&leadership{leader: tt.leader})
		answers := map[uint64]chan result{}
		for _, id := range ids {
			answers[id] = n.results.add(id, 1)
		}
		n.handle([]replica.Outcome{tt.out})
		for _, id := range ids {
			select {
			case r := <-answers[id]:
				if want, due := tt.told[id]; !due || !errors.Is(r.err, want) || r.response != nil {
					t.Errorf("%s: request %d is told %v, want %v", tt.name, id, r.err, want)
				}
			default:
				if want, due := tt.told[id]; due {
					t.Errorf("%s: request %d is told nothing, want %v", tt.name, id, want)
				}
			}
		}
	}
	n, _, _ := linked(t)
	n.asks, n.keyReads = newWaits[askResult](), newWaits[keysResult]()
	asked, read, other := n.asks.add(5, 0), n.keyReads.add(5, 0), n.results.add(5, 0)
	n.handle([]replica.Outcome{replica.AnswerLease{ID: 5, TTL: 9}, replica.KeysReady{ID: 5, Index: 8}})
	if len(asked) != 1 || len(read) != 1 {
		t.Fatalf("a question about a lease and a read of keys are told %d and %d things, want one each", len(asked), len(read))
	}
	if r := <-asked; r.err != nil || r.answer.TTL != 9 {
		t.Errorf("a question about a lease is told %+v", r)
	}
	if r := <-read; r.err != nil || r.ready.Index != 8 {
		t.Errorf("a read of keys is told %+v", r)
	}
	if len(other) > 0 {
		t.Error("a request is told what was meant for a question")
	}
}

// Readers have a lease from the clock reading that published it. An earlier reading of a reader may be
// older than the lease.
func TestLeasesLastFromTheTurnThatPublishedThem(t *testing.T) {
	n, _, _ := linked(t)
	n.reads.clock = func() machine.Mono { return 50 }
	n.clocks.turn = 40
	n.handle([]replica.Outcome{replica.ReadLease{Until: 90, Index: 3}, &replica.KeyLease{Until: 91}})
	if l := n.reads.lease.Load(); l == nil || l.since != 40 || l.Until != 90 || l.Index != 3 {
		t.Errorf("the lease is %+v, want one from 40 until 90", l)
	}
	if l := n.reads.keys.Load(); l == nil || l.since != 40 || l.Until != 91 {
		t.Errorf("the lease of key order is %+v, want one from 40 until 91", l)
	}
}

// The storage records that raft has taken a snapshot before the applier restores it and gives the file
// its name.
func TestASnapshotIsTakenBeforeItIsRestored(t *testing.T) {
	n, _, _ := linked(t)
	n.applier = &applier{n: n, wake: make(chan struct{}, 1)}
	n.storage.arrivals.mu.Lock()
	done := make(chan struct{})
	go func() { n.handle([]replica.Outcome{replica.Restore{Index: 7, Term: 2}}); close(done) }()
	for range 50 {
		if items := n.applier.take(); len(items) > 0 {
			t.Errorf("the applier is told %v, which is not noted yet", items)
		}
		time.Sleep(time.Millisecond)
	}
	n.storage.arrivals.mu.Unlock()
	<-done
	if items := n.applier.take(); len(items) != 1 || items[0] != any(replica.Restore{Index: 7, Term: 2}) {
		t.Errorf("the applier is told %v, want what is to be restored", items)
	}
}

// Of a batch from an ignored member, only greetings are processed, wherever they stand. Of other
// members' batches, all valid messages are stepped under the sender's ID, except a snapshot without
// its file.
func TestWhatIsHeardOfABatch(t *testing.T) {
	term := uint64(3)
	message := func(typ raftpb.MessageType) []byte {
		p, err := replica.EncodeBody(&raftpb.Message{Type: typ.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: &term})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	hello := []byte(`@{"from":{"directory":22,"boot":4294967296},"yours":{"directory":0,"boot":0},"ask":true}`)
	batch := [][]byte{message(raftpb.MsgHeartbeat), {}, {63, 1}, message(raftpb.MsgSnap), message(raftpb.MsgApp), hello}
	for _, tt := range []struct {
		name string
		set  func(n *Node)
		want int
	}{
		{"of a member that is listened to", func(n *Node) { n.admission.open.Store(true) }, 2},
		{"of one that has forgotten", func(n *Node) { n.admission.open.Store(true); n.admission.refused.Store(machine.NodeID(2), true) }, 0},
		{"by one that is not admitted", awaiting(3), 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l, links := linked(t)
			defer n.end()
			tt.set(n)
			n.deliver(2, batch)
			synctest.Wait()
			var got []string
			for _, in := range l.heard() {
				env, ok := in.(machine.Envelope)
				if !ok || env.From != 2 || env.To != 1 {
					t.Errorf("%s: the replica is told %+v, want what member 2 has said to 1", tt.name, in)
					continue
				}
				got = append(got, env.Body.(*raftpb.Message).GetType().String())
			}
			if want := []string{"MsgHeartbeat", "MsgApp"}[:tt.want]; !reflect.DeepEqual(got, append([]string(nil), want...)) {
				t.Errorf("%s: the replica is told %v, want %v", tt.name, got, want)
			}
			if n.directories.get().Known[2].Directory != 22 || len(links.take()) != 1 {
				t.Errorf("%s: a greeting at the end of a batch is not answered", tt.name)
			}
		})
	}
}

// A member's messages are sent unchanged, each to its receiver, once it is admitted.
func TestWhatIsSent(t *testing.T) {
	n, _, links := linked(t)
	term := uint64(3)
	var envs []machine.Envelope
	for _, to := range []machine.NodeID{2, 3} {
		envs = append(envs, machine.Envelope{From: 1, To: to, Body: &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(1)), To: new(uint64(to)), Term: &term}})
	}
	n.send(envs)
	if sent := links.take(); len(sent) > 0 {
		t.Fatalf("before it is admitted it sends %v", sent)
	}
	n.admission.open.Store(true)
	n.send(envs)
	sent := links.take()
	for i, m := range sent {
		body, err := replica.DecodeBody(m.message)
		if err != nil || m.to != envs[i].To || body.(*raftpb.Message).GetTo() != uint64(m.to) {
			t.Errorf("message %d goes to %d: %v, %v", i+1, m.to, body, err)
		}
	}
	if len(sent) != len(envs) {
		t.Errorf("of %d messages %d are sent", len(envs), len(sent))
	}
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("without connections it sends: %v", p)
		}
	}()
	n.peers = nil
	n.send(envs)
}

// The policy is set before the cells that it needs. Cells may use the names of all members, and the
// leader holds keys beside the members that they name.
func TestCellsAreSetBehindTheirPolicy(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := linked(t)
			defer n.end()
			n.cfg.MaxPendingBytes = 1 << 20
			now := rosterOf([]uint64{1, 2, 3})
			for i, name := range []string{"a", "b", "c"} {
				now.Members[i].Name = name
			}
			n.is(now)
			n.leadership.Store(&leadership{leader: 3})
			var err error
			over := false
			go func() { err = n.SetReadCells(t.Context(), "key:x = a; default = b"); over = true }()
			synctest.Wait()
			policy, _ := replica.EncodeRequest(wrapperspb.String("static/key"))
			first := told[replica.Propose](t, l)
			if len(first) != 1 || string(first[0].Body) != string(policy) {
				t.Fatalf("first %v is proposed, want the policy", first)
			}
			if fails {
				n.results.answer(first[0].ID, result{err: errDisk})
				if synctest.Wait(); !over || !errors.Is(err, errDisk) || len(told[replica.Propose](t, l)) != 1 {
					t.Errorf("the policy cannot be set, and the keys: %v, %v", over, err)
				}
				return
			}
			n.results.answer(first[0].ID, result{})
			synctest.Wait()
			conf, err2 := n.parseCells("key:x = a; default = b", 3)
			if err2 != nil {
				t.Fatal(err2)
			}
			cells, _ := replica.EncodeRequest(wrapperspb.Bytes(conf.Encode()))
			if both := told[replica.Propose](t, l); len(both) != 2 || string(both[1].Body) != string(cells) {
				t.Fatalf("then %v is proposed, want the holders of the keys", both)
			} else {
				n.results.answer(both[1].ID, result{})
			}
			if synctest.Wait(); !over || err != nil {
				t.Errorf("when all is done: %v, %v", over, err)
			}
		})
	}
}

// Keys that were read are reported to the replica once.
func TestKeysThatWereReadAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := linked(t)
		defer n.end()
		keys := replica.AppendReads(nil, &pb.RangeRequest{Key: []byte("k")})
		n.reads.seen.add(n, keys)
		n.reads.look(n) // nothing was answered
		n.reads.count(true, false)
		n.reads.look(n)
		n.reads.look(n)
		synctest.Wait()
		if got, want := l.heard(), []any{replica.Served{Keys: keys}}; !reflect.DeepEqual(got, want) {
			t.Errorf("the replica is told %+v, want %+v", got, want)
		}
	})
}

// A read of keys waits for the state that the replica names. It asks again if that state does not come
// in time. It ends with its caller or the member.
func TestAReadOfKeysWaitsForItsState(t *testing.T) {
	w := write(t, &pb.PutRequest{Key: []byte("k"), Value: []byte("1")}, &pb.PutRequest{Key: []byte("k"), Value: []byte("2")})
	views := map[uint64]kv.View{5: w.state(w.at[0]).Store().View(), 6: w.state(w.at[1]).Store().View()}
	shows := func(n *Node, index uint64) { // to itself, and an older state to others
		n.state.Store(&state{index: 4})
		n.ahead.Store(&[]*state{n.State(), {index: index, view: views[index], users: auth.New()}})
		n.applications.published(index)
	}
	for _, tt := range []struct {
		name string
		play func(n *Node, answer func(replica.KeysReady), cancel func())
		asks int
		want error
		from uint64 // which state it is answered from
	}{
		{"the state is there", func(n *Node, answer func(replica.KeysReady), _ func()) {
			answer(replica.KeysReady{Index: 5, UpTo: 5})
		}, 1, nil, 5},
		{"the state comes", func(n *Node, answer func(replica.KeysReady), _ func()) {
			answer(replica.KeysReady{Index: 6, UpTo: 6})
			shows(n, 6)
		}, 1, nil, 6},
		{"the state does not come in time", func(n *Node, answer func(replica.KeysReady), _ func()) {
			answer(replica.KeysReady{Index: 6, UpTo: 6})
			time.Sleep(time.Minute)
			n.applications.overdue(time.Now())
			synctest.Wait()
			answer(replica.KeysReady{Index: 5, UpTo: 5})
		}, 2, nil, 5},
		{"the caller goes while the replica is asked", func(_ *Node, _ func(replica.KeysReady), cancel func()) { cancel() }, 1, context.Canceled, 0},
		{"the caller goes while it waits", func(_ *Node, answer func(replica.KeysReady), cancel func()) {
			answer(replica.KeysReady{Index: 6, UpTo: 6})
			synctest.Wait()
			cancel()
		}, 1, context.Canceled, 0},
		{"the member ends while it waits", func(n *Node, answer func(replica.KeysReady), _ func()) {
			answer(replica.KeysReady{Index: 6, UpTo: 6})
			synctest.Wait()
			close(n.stop)
		}, 1, errStopped, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := linked(t)
			defer n.driver.Stop()
			n.keyReads = newWaits[keysResult]()
			n.order.Store(1)
			shows(n, 5)
			ctx, cancel := context.WithCancel(t.Context())
			var view kv.View
			var err error
			over := false
			go func() {
				view, err = n.ReadView(ctx, &pb.RangeRequest{Key: []byte("k")})
				over = true
			}()
			synctest.Wait()
			asked := func() []replica.ReadKeys { return told[replica.ReadKeys](t, l) }
			answer := func(r replica.KeysReady) {
				list := asked()
				n.keyReads.answer(list[len(list)-1].ID, keysResult{ready: r})
				synctest.Wait()
			}
			tt.play(n, answer, cancel)
			synctest.Wait()
			if !over || !errors.Is(err, tt.want) {
				t.Errorf("%s: the read is over: %v, with %v; want %v", tt.name, over, err, tt.want)
			}
			if want := views[tt.from].Revision(); over && view.Revision() != want {
				t.Errorf("%s: it is answered from revision %d, want %d", tt.name, view.Revision(), want)
			}
			list := asked()
			if len(list) != tt.asks || len(list) > 1 && list[0].ID == list[1].ID {
				t.Errorf("%s: the replica is asked %+v, want %d times", tt.name, list, tt.asks)
			}
			cancel()
			synctest.Wait()
			if !over {
				close(n.stop)
			}
		})
	}
}

// A read of keys that needs a place in the log is answered from the state there, whatever is
// published.
func TestAReadByTheLogIsOfItsPlace(t *testing.T) {
	w := write(t, &pb.PutRequest{Key: []byte("k"), Value: []byte("1")}, &pb.PutRequest{Key: []byte("k"), Value: []byte("2")})
	there := &state{index: 5, view: w.state(w.at[0]).Store().View(), users: auth.New()}
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := linked(t)
		defer n.end()
		n.keyReads, n.cfg.MaxPendingBytes = newWaits[keysResult](), 1<<20
		n.order.Store(1)
		n.state.Store(&state{index: 6, view: w.state(w.at[1]).Store().View(), users: auth.New()})
		n.leadership.Store(&leadership{leader: 2})
		request := &pb.RangeRequest{Key: []byte("k")}
		var view kv.View
		var err error
		go func() { view, err = n.ReadView(t.Context(), request) }()
		synctest.Wait()
		keys := replica.AppendReads(nil, request)
		asked := told[replica.ReadKeys](t, l)
		if !reflect.DeepEqual(asked[0].Keys, keys) {
			t.Errorf("the replica is asked for %v, want %v", asked[0].Keys, keys)
		}
		n.keyReads.answer(asked[0].ID, keysResult{ready: replica.KeysReady{ByLog: true}})
		synctest.Wait()
		place := told[replica.Propose](t, l)
		if !bytes.Equal(place[0].Body, replica.EncodeRead(keys)) {
			t.Errorf("%q is proposed, want a place for the keys", place[0].Body)
		}
		n.results.answer(place[0].ID, result{state: there})
		if synctest.Wait(); err != nil || view.Revision() != there.view.Revision() {
			t.Errorf("it is answered from revision %d, %v, want %d", view.Revision(), err, there.view.Revision())
		}
		if local, rounds, forwarded := n.ReadCounts(); local != 0 || rounds != 0 || forwarded != 1 {
			t.Errorf("reads were counted as %d, %d and %d, want one for which the leader was asked", local, rounds, forwarded)
		}
	})
}

// Each outcome of the replica reaches the part of the member that processes it.
func TestOutcomesReachTheirParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := linked(t)
		defer n.end()
		n.applier = &applier{n: n, wake: make(chan struct{}, 1)}
		n.storage, _ = storageOn(t, waltest.NewDisk().FS())
		defer n.storage.log.Close()
		var failed error
		n.cfg.Fail = func(err error) { failed = err }
		n.state.Store(&state{index: 5})
		waiting := n.barriers.join(n)
		synctest.Wait()
		list := []replica.Outcome{replica.Committed{Held: true}, replica.Released{Through: 7}, replica.WantSnapshot{}}
		n.handle(append(list, replica.ReadReady{Number: waiting.number, Index: 5}, replica.LeaderChanged{Leader: 3, Term: 8}))
		if got, want := n.applier.take(), []any{list[0], list[1], list[2]}; !reflect.DeepEqual(got, want) {
			t.Errorf("the applier is told %+v, want %+v", got, want)
		}
		if !ended(waiting) {
			t.Error("a call that waits for the leader's word does not hear of it")
		}
		if id, term, lost := n.Leader(); id != 3 || term != 8 || lost != 0 {
			t.Errorf("member %d leads in term %d, lost for %v; want 3 in term 8", id, term, lost)
		}
		index := uint64(77) // there is no such snapshot
		n.handle([]replica.Outcome{replica.SendSnapshot{To: 2, Message: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), To: new(uint64(2)), Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index}}}}})
		n.snapshots.wait()
		synctest.Wait()
		if got := l.heard(); len(got) == 0 || got[len(got)-1] != any(replica.SnapshotSent{To: 2}) {
			t.Errorf("asked for a snapshot that there is not the replica is told %+v", got)
		}
		n.handle([]replica.Outcome{replica.Removed{}})
		time.Sleep(n.cfg.HeartbeatInterval)
		if synctest.Wait(); !errors.Is(failed, ErrRemoved) {
			t.Errorf("a member that was removed ends with %v, want %v", failed, ErrRemoved)
		}
	})
}

// The time since which a member leads begins anew in each term. A caller that has waited since an
// earlier term may have lost its request.
func TestSinceWhenAMemberLeads(t *testing.T) {
	n, _, _ := linked(t)
	before := time.Now().Add(-time.Hour)
	n.leadership.Store(&leadership{leader: 2, term: 3, at: before})
	n.handle([]replica.Outcome{replica.LeaderChanged{Leader: 2, Term: 4}})
	if l := n.leadership.Load(); l.leader != 2 || l.term != 4 || !l.at.After(before.Add(time.Minute)) {
		t.Errorf("member %d leads in term %d since %v, want 2 in term 4 since now", l.leader, l.term, l.at)
	}
	if err := n.timeout(before.Add(time.Minute)); !errors.Is(err, rpctypes.ErrGRPCTimeoutDueToLeaderFail) {
		t.Errorf("a call that has waited since the term before is told %v, want %v", err, rpctypes.ErrGRPCTimeoutDueToLeaderFail)
	}
}
