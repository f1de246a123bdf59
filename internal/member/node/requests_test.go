package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A request is accepted up to its limits and not beyond.
func TestRequestsAtTheirLimits(t *testing.T) {
	for _, tt := range []struct {
		name    string
		bytes   int
		pending int64 // bytes that may wait
		waiting int64 // and that do
		want    error // nil: it is proposed
	}{
		{"the largest", maxRequestBytes, 1 << 30, 0, nil},
		{"one byte more", maxRequestBytes + 1, 1 << 30, 0, rpctypes.ErrGRPCRequestTooLarge},
		{"the last that there is room for", 1000, 1000 + requestOverhead + 50, 50, nil},
		{"one byte more than there is room for", 1001, 1000 + requestOverhead + 50, 50, rpctypes.ErrGRPCRequestTooManyRequests},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := linked(t)
			defer n.end()
			n.cfg.MaxPendingBytes = tt.pending
			n.results.add(999, tt.waiting)
			ctx, cancel := context.WithCancel(t.Context())
			body := make([]byte, tt.bytes)
			var err error
			over := false
			go func() { _, err = n.propose(ctx, body); over = true }()
			synctest.Wait()
			if !errors.Is(err, tt.want) || over != (tt.want != nil) {
				t.Errorf("%s: it is over: %v, with %v; want %v", tt.name, over, err, tt.want)
			}
			if tt.want != nil {
				cancel()
				if got := l.heard(); len(got) > 0 {
					t.Errorf("%s: and it is proposed", tt.name)
				}
				return
			}
			asked := told[replica.Propose](t, l)
			if len(asked) != 1 || !bytes.Equal(asked[0].Body, body) {
				t.Errorf("%s: %d requests are proposed", tt.name, len(asked))
			}
			if cost := n.results.cost.Load() - tt.waiting; cost != int64(tt.bytes)+requestOverhead {
				t.Errorf("%s: while it waits it costs %d", tt.name, cost)
			}
			cancel()
			if synctest.Wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: its caller goes and is told %v", tt.name, err)
			}
			n.results.answer(asked[0].ID, result{})
			if cost := n.results.cost.Load(); cost != tt.waiting {
				t.Errorf("%s: when it was answered %d bytes are left", tt.name, cost-tt.waiting)
			}
		})
	}
}

// A lease has the requested ID and TTL, if these are allowed. The client's request is not modified.
func TestWhatIsGranted(t *testing.T) {
	n, _, _ := linked(t)
	n.cfg.ElectionTimeout, n.cfg.MaxLeases = 3*time.Second, 10
	for _, tt := range []struct{ id, ttl, want int64 }{{7, 60, 60}, {7, 5, 5}, {7, 4, 5}, {0, 60, 60}, {-3, 0, 5}} {
		req := &pb.LeaseGrantRequest{ID: tt.id, TTL: tt.ttl}
		got, err := n.grant(req)
		if err != nil || got.TTL != tt.want || tt.id != 0 && got.ID != tt.id || got.ID == 0 || tt.id == 0 && got.ID < 0 {
			t.Errorf("asked for lease %d of %d s: %v, %v; want %d s", tt.id, tt.ttl, got, err, tt.want)
		}
		if req.ID != tt.id || req.TTL != tt.ttl {
			t.Errorf("asked for lease %d of %d s: the request became %v", tt.id, tt.ttl, req)
		}
	}
	// Applied entries count, released or not.
	w := write(t, &pb.LeaseGrantRequest{ID: 5, TTL: 60}, &pb.LeaseGrantRequest{ID: 6, TTL: 60})
	n.ahead.Store(&[]*state{{}, {view: w.state(w.at[1]).Store().View()}})
	for _, tt := range []struct {
		most, granting int64
		want           error
	}{{3, 1, nil}, {2, 0, nil}, {2, 1, rpctypes.ErrGRPCRequestTooManyRequests}, {3, 2, rpctypes.ErrGRPCRequestTooManyRequests}} {
		n.cfg.MaxLeases = tt.most
		n.granting.Store(tt.granting)
		if _, err := n.grant(&pb.LeaseGrantRequest{TTL: 60}); !errors.Is(err, tt.want) {
			t.Errorf("two leases exist, %d are being granted and %d may be: %v, want %v", tt.granting, tt.most, err, tt.want)
		}
	}
}

// A renewal begins with the call. A query does not renew. No call waits for ever.
func TestQuestionsAboutLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := linked(t)
		defer n.end()
		n.asks = newWaits[askResult]()
		wait := n.KeepAlive(77)
		synctest.Wait()
		if len(l.heard()) == 0 {
			t.Fatal("before anybody waits the replica is told nothing")
		}
		asked := told[replica.AskLease](t, l)
		if len(asked) != 1 || asked[0].Lease != 77 || !asked[0].Renew {
			t.Errorf("before anybody waits the replica is told %+v, want that lease 77 is to be renewed", asked)
		}
		n.asks.answer(asked[0].ID, askResult{answer: replica.AnswerLease{TTL: 9999, Remaining: 1}})
		if ttl, err := wait(t.Context()); ttl != 9 || err != nil {
			t.Errorf("a lease of 9999 ms is renewed for %d s, %v", ttl, err)
		}
		var left, granted int64
		var err error
		ctx, cancel := context.WithCancel(t.Context())
		go func() { left, granted, err = n.TimeToLive(ctx, 78) }()
		synctest.Wait()
		asked = told[replica.AskLease](t, l)
		if len(asked) != 2 || asked[1].Lease != 78 || asked[1].Renew {
			t.Errorf("asked about lease 78 the replica is told %+v", asked[1:])
		}
		n.asks.answer(asked[1].ID, askResult{answer: replica.AnswerLease{TTL: 9000, Remaining: 4001}})
		if synctest.Wait(); left != 4 || granted != 9 || err != nil {
			t.Errorf("of a lease of 9000 ms of which 4001 are left: %d of %d s, %v", left, granted, err)
		}
		go func() { left, granted, err = n.TimeToLive(ctx, 79) }()
		synctest.Wait()
		cancel()
		if synctest.Wait(); left != 0 || granted != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("when the caller goes: %d of %d, %v", left, granted, err)
		}
		if _, asks, _, _ := held(n); asks != 0 {
			t.Errorf("%d questions are kept of callers that have gone", asks)
		}
	})
}

// As long as there is another voter, leadership is handed over until another member leads.
func TestLeadershipIsHandedOverUntilAnotherLeads(t *testing.T) {
	stopped, _, _ := linked(t)
	stopped.cfg.HeartbeatInterval = time.Hour
	stopped.halt()
	if err := stopped.await(t.Context(), "wait"); !errors.Is(err, errStopped) {
		t.Fatalf("a member that was stopped waits: %v, want %v", err, errStopped)
	}
	for _, tt := range []struct {
		name  string
		ids   []uint64
		play  func(n *Node, cancel func())
		over  bool // at once
		want  error
		hands int
	}{
		{"alone", []uint64{1}, nil, true, nil, 0},
		{"of two", []uint64{1, 2}, func(n *Node, _ func()) { n.leadership.Store(&leadership{leader: 2}) }, false, nil, 1},
		{"of three, and nobody leads for a moment", []uint64{1, 2, 3}, func(n *Node, _ func()) { n.leadership.Store(&leadership{}) }, false, nil, 1},
		{"again", []uint64{1, 2}, func(n *Node, _ func()) {
			time.Sleep(n.cfg.HeartbeatInterval / 2)
			synctest.Wait()
			n.leadership.Store(&leadership{leader: 2})
		}, false, nil, 2},
		{"until the caller goes", []uint64{1, 2}, func(_ *Node, cancel func()) { cancel() }, false, context.Canceled, 1},
		{"until the member ends", []uint64{1, 2}, func(n *Node, _ func()) { n.halt() }, false, errStopped, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := linked(t)
			defer n.end()
			n.is(rosterOf(tt.ids))
			n.leadership.Store(&leadership{leader: 1})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var err error
			over := false
			go func() { err = n.HandOver(ctx); over = true }()
			if synctest.Wait(); over != tt.over {
				t.Errorf("%s: over at once: %v", tt.name, over)
			}
			if tt.play != nil {
				tt.play(n, cancel)
			}
			time.Sleep(n.cfg.HeartbeatInterval/2 + 1)
			if synctest.Wait(); !over || !errors.Is(err, tt.want) {
				t.Errorf("%s: over: %v, with %v, want %v", tt.name, over, err, tt.want)
			}
			hands := 0
			for _, in := range l.heard() {
				if in == any(replica.HandOver{}) {
					hands++
				}
			}
			if hands != tt.hands || len(l.heard()) != hands {
				t.Errorf("%s: the replica is told %v, want %d times to hand over to anybody", tt.name, l.heard(), tt.hands)
			}
		})
	}
	n, _, _ := linked(t)
	n.leadership.Store(&leadership{leader: 2})
	if err := n.MoveLeader(t.Context(), 99); !errors.Is(err, rpctypes.ErrGRPCNotLeader) {
		t.Errorf("one that does not lead is to move leadership to a stranger: %v, want %v", err, rpctypes.ErrGRPCNotLeader)
	}
}

// A snapshot is sent as it is in its file, after the message that announces it, until the member ends.
// The replica learns whether it was sent.
func TestWhatASnapshotIsSentAs(t *testing.T) {
	for _, fails := range []bool{false, true} {
		n, l, links := linked(t)
		n.storage, _ = storageOn(t, waltest.NewDisk().FS())
		conf := &raftpb.ConfState{Voters: []uint64{1, 2}}
		n.storage.save(t, 9, 3, conf)
		n.storage.save(t, 12, 3, conf)
		file, _, err := n.storage.log.Snapshots().Export(9)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(file)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		links.streams = func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Error("it is cut short before the member ends")
			}
			n.cancel()
			if ctx.Err() == nil {
				t.Error("it goes on when the member has ended")
			}
			if fails {
				return errDisk
			}
			return nil
		}
		index, term := uint64(9), uint64(3)
		out := replica.SendSnapshot{To: 2, Message: &raftpb.Message{
			Type: raftpb.MsgSnap.Enum(), To: new(uint64(2)), From: new(uint64(1)), Term: &term,
			Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: conf}},
		}}
		header, err := replica.EncodeBody(out.Message)
		if err != nil {
			t.Fatal(err)
		}
		n.snapshots.send(n, out)
		n.snapshots.wait()
		if len(links.streamed) != 1 || links.streamed[0].to != 2 || !bytes.Equal(links.streamed[0].message, header) || links.streamed[0].rest != string(whole) {
			t.Errorf("sent are %d streams, want the file of snapshot 9, with its message, to member 2", len(links.streamed))
		}
		if got, want := told[replica.SnapshotSent](t, l), (replica.SnapshotSent{To: 2, OK: !fails}); len(got) != 1 || got[0] != want {
			t.Errorf("the replica is told %+v, want %+v", got, want)
		}
		n.storage.log.Close()
	}
}

// A snapshot is saved with the members, the term and the index of its own state, whatever has been
// applied since.
func TestWhatASnapshotIsSavedAs(t *testing.T) {
	w := write(t, &pb.PutRequest{Key: []byte("k"), Value: []byte("1")}, replica.AddMember(77, []string{"http://127.0.0.1:77"}, true))
	n, l, _ := w.resume(t, w.state(w.at[0]), w.at[0])
	n.storage, _ = storageOn(t, waltest.NewDisk().FS())
	defer n.storage.log.Close()
	snap := n.applier.state.Snapshot()
	n.do(t, replica.Committed{Entries: w.some(w.at[0], w.at[1])})
	n.applied().term += 5
	n.snapshots.start(n, snap)
	n.snapshots.wait()
	want := replica.Snapshotted{Index: w.at[0], Term: snap.Term, ConfState: snap.ConfState()}
	if got := told[replica.Snapshotted](t, l); len(got) != 1 || got[0].Index != want.Index || got[0].Term != want.Term || len(got[0].ConfState.Learners) != 0 {
		t.Errorf("the replica is told %+v, want %+v", got, want)
	}
	info, err := n.storage.log.Snapshots().Verify(w.at[0])
	if err != nil || info.Term != snap.Term {
		t.Errorf("the file is of %+v, %v, want term %d", info, err, snap.Term)
	}
	if md, err := metadataOf(info); err != nil || len(md.GetConfState().GetLearners()) != 0 || len(md.GetConfState().GetVoters()) != 1 {
		t.Errorf("the file is of members %v, %v, want those of its state", md.GetConfState(), err)
	}
	if n.storage.newest != w.at[0] {
		t.Errorf("snapshot %d is in use, want %d", n.storage.newest, w.at[0])
	}
}

// A snapshot that names another member as its sender is refused.
func TestASnapshotInAnothersNameIsNotTaken(t *testing.T) {
	n, _, _ := linked(t)
	n.admission.open.Store(true)
	index, term := uint64(9), uint64(3)
	header, err := replica.EncodeBody(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), To: new(uint64(1)), From: new(uint64(3)), Term: &term,
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.storage, _ = storageOn(t, waltest.NewDisk().FS())
	defer n.storage.log.Close()
	if err := n.receive(2, header, strings.NewReader("")); err == nil || strings.Contains(err.Error(), "damaged") {
		t.Errorf("member 2 sends a snapshot in the name of 3: %v, want it refused unread", err)
	}
}

// Flags belong to a directory's member if they name a member of its cluster that is not another known
// one.
func TestWhoseFlagsTheseAre(t *testing.T) {
	for _, tt := range []struct {
		name     string
		own      string
		others   []string
		now      replica.Roster
		says     string
		warnings int
	}{
		{"as on the first day", "http://f:1", []string{"http://f:2"}, founded(1, 2, 3), "", 0},
		{"one that has moved", "http://m:1", []string{"http://f:2"}, moved(founded(1, 2, 3), 1, "http://m:1"), "", 0},
		{"one that has moved, with its old flags", "http://f:1", []string{"http://f:2"}, moved(founded(1, 2, 3), 1, "http://m:1"), "", 1},
		{"one at a URL that nobody knows", "http://x:1", []string{"http://f:2"}, founded(1, 2, 3), "", 1},
		{"another member's", "http://f:2", []string{"http://f:1"}, founded(1, 2, 3), "belongs to member 1, but the flags describe member 2", 0},
		{"at the URL of a founder that is gone", "http://f:2", []string{"http://f:1"}, moved(founded(1, 3), 1, "http://f:2"), "", 0},
		{"at the old URL of a founder that is gone", "http://f:2", []string{"http://f:3"}, founded(1, 3), "", 1},
		{"at the old URL of a founder that has moved", "http://f:2", []string{"http://f:3"}, moved(founded(1, 2, 3), 2, "http://m:2"), "belongs to member 1, but the flags describe member 2", 0},
		{"at a URL that was a founder's and is this one's", "http://f:2", []string{"http://f:3"}, moved(moved(founded(1, 2, 3), 2, "http://m:2"), 1, "http://f:2"), "", 0},
		{"of another cluster", "http://x:1", []string{"http://y:2"}, founded(1, 2, 3), "but the flags describe another", 0},
		{"of one that is alone, at another URL", "http://x:1", nil, founded(1), "", 1},
		{"of another that is alone", "http://x:1", nil, named(founded(1), "other"), "but the flags describe another", 0},
	} {
		n, _, _ := linked(t)
		var log strings.Builder
		n.logger = slog.New(slog.NewTextHandler(&log, nil))
		n.founders = nil
		for id := uint64(1); id <= 3; id++ {
			n.founders = append(n.founders, &pb.Member{ID: id, PeerURLs: []string{fmt.Sprintf("http://f:%d", id)}})
		}
		n.is(tt.now)
		n.cfg.Peers = map[string]string{"a": tt.own}
		flags := []*pb.Member{{ID: 101, Name: "a", PeerURLs: []string{tt.own}}}
		for i, url := range tt.others {
			flags = append(flags, &pb.Member{ID: uint64(102 + i), PeerURLs: []string{url}})
		}
		err := n.recognize(flags, nil)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
		if got := strings.Count(log.String(), "level=WARN"); got != tt.warnings {
			t.Errorf("%s: %d warnings, want %d: %s", tt.name, got, tt.warnings, log.String())
		}
	}
	for at := range 4 { // of those by ID, the two may be any
		url := fmt.Sprintf("http://x:%d", at)
		peers := map[string]string{"c": "http://x:0", "d": "http://x:1", "e": "http://x:2", "f": "http://x:3"}
		maps.DeleteFunc(peers, func(_, other string) bool { return other == url })
		peers["a"], peers["b"] = url, url
		if _, err := roster(peers, ""); err == nil || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("two members at %s: %v, want both names", url, err)
		}
	}
	list, err := roster(map[string]string{"a": "http://x:1", "b": "http://x:2", "c": "http://x:3", "d": "http://x:4"}, "")
	for i := range list {
		if err != nil || i > 0 && list[i-1].ID >= list[i].ID {
			t.Errorf("the members are %v, %v, want them by ID", list, err)
		}
	}
}

func founded(ids ...uint64) replica.Roster {
	var members []*pb.Member
	for _, id := range ids {
		members = append(members, &pb.Member{ID: id, PeerURLs: []string{fmt.Sprintf("http://f:%d", id)}})
	}
	ro := replica.FoundedBy(members)
	return named(ro, "a")
}

func named(ro replica.Roster, name string) replica.Roster {
	ro.Members[0].Name = name
	return ro
}

func moved(ro replica.Roster, id uint64, url string) replica.Roster {
	ro.Find(id).PeerURLs = []string{url}
	return ro
}

// A snapshot is listed before raft receives its message, for raft takes it by its name.
func TestAnArrivalIsListedBeforeItIsTold(t *testing.T) {
	from, _ := storageOn(t, waltest.NewDisk().FS())
	defer from.log.Close()
	conf := &raftpb.ConfState{Voters: []uint64{1, 2, 3}}
	from.save(t, 9, 3, conf)
	file, _, err := from.log.Snapshots().Export(9)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n, l, _ := linked(t)
	n.storage, _ = storageOn(t, waltest.NewDisk().FS())
	defer n.storage.log.Close()
	n.admission.open.Store(true)
	index, term := uint64(9), uint64(3)
	header, err := replica.EncodeBody(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), To: new(uint64(1)), From: new(uint64(2)), Term: &term,
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: conf}},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.storage.arrivals.mu.Lock()
	done := make(chan error)
	go func() { done <- n.receive(2, header, file) }()
	for range 50 {
		if got := l.heard(); len(got) > 0 {
			t.Errorf("the replica is told %T of a snapshot that is not listed yet", got[0])
			break
		}
		time.Sleep(time.Millisecond)
	}
	n.storage.arrivals.mu.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := told[machine.Envelope](t, l); len(got) != 1 || got[0].From != 2 || got[0].To != 1 {
		t.Errorf("the replica is told %+v, want the message of member 2", got)
	}
	if list, err := n.storage.log.Snapshots().List(); err != nil || len(list) > 0 || len(n.storage.arrivals.list) > 0 {
		t.Errorf("raft has not gone on from it, and kept are %v, %v, listed %d", list, err, len(n.storage.arrivals.list))
	}
}

// The progress of others, and a member's knowledge of itself, are reported for the right member and
// state.
func TestWhatIsToldOfAMember(t *testing.T) {
	n, _, links := linked(t)
	links.stats = map[machine.NodeID]peer.Stats{1: {RTT: 1}, 2: {RTT: 2}}
	if a, b := n.RoundTrip(2), n.RoundTrip(3); a != 2 || b != 0 {
		t.Errorf("the distances to members 2 and 3 are %d and %d, want 2 and none", a, b)
	}
	n.peers = nil
	if d := n.RoundTrip(2); d != 0 {
		t.Errorf("without connections the distance is %d", d)
	}
	n.state.Store(&state{roster: rosterOf([]uint64{1, 2})})
	n.ahead.Store(&[]*state{n.State(), {roster: rosterOf([]uint64{1, 2, 3})}})
	if got := len(n.Members()); got != 2 {
		t.Errorf("members that may not be seen yet are told: %d, want 2", got)
	}
	if n.ID() != 1 || n.ClusterID() != 7 {
		t.Errorf("it is member %d of cluster %d", n.ID(), n.ClusterID())
	}
}

// Checking whether the member was removed leaves no file open.
func TestANoteOfRemovalIsClosed(t *testing.T) {
	disk := &counted{FS: waltest.NewDisk().FS()}
	if err := noteRemoval("/data", disk, "gone"); err != nil {
		t.Fatal(err)
	}
	if err := checkRemoved("/data", disk); !errors.Is(err, ErrRemoved) {
		t.Errorf("the note of a removal reads %v", err)
	}
	if k := disk.open.Load(); k != 0 {
		t.Errorf("%d files are open", k)
	}
}
