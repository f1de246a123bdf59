package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
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
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// The applier is woken only after its work was queued. Otherwise it would find nothing and wait.
func TestTheApplierIsWokenBehindWhatItIsToDo(t *testing.T) {
	a := &applier{wake: make(chan struct{}, 1)}
	a.mu.Lock()
	done := make(chan struct{})
	go func() { a.put(replica.WantSnapshot{}); close(done) }()
	for range 1000 {
		if runtime.Gosched(); len(a.wake) > 0 {
			t.Error("the applier is woken before what it is to do is queued")
			break
		}
	}
	a.mu.Unlock()
	if <-done; len(a.wake) != 1 || len(a.take()) != 1 {
		t.Error("the applier is not woken for what is queued")
	}
}

// A caller does not wait for a long queue behind its own request: applied entries are published after
// a slice of time.
func TestWhatIsAppliedIsShownAfterASlice(t *testing.T) {
	var ops []*pb.RequestOp
	for i := range 1000 { // so many changes call Pause
		ops = append(ops, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", i)}}})
	}
	w := write(t, &pb.TxnRequest{Success: ops}, &pb.TxnRequest{Success: ops}, &pb.TxnRequest{Success: ops})
	synctest.Test(t, func(t *testing.T) {
		n, _, _ := w.resume(t, w.state(0), 0)
		defer n.end()
		pauses := 0
		n.applier.state.Store().Pause = func() {
			time.Sleep(sliceTime + 1)
			if pauses++; pauses > 1 && n.State().index < w.at[pauses-2] {
				t.Errorf("while request %d is applied, slices after request %d was, state %d is shown, want %d", pauses, pauses-1, n.State().index, w.at[pauses-2])
			}
		}
		n.do(t, replica.Committed{Entries: w.some(0, w.at[2])})
		if pauses != 3 || n.State().index != w.at[2] {
			t.Errorf("in three long requests it paused %d times, and state %d is shown, want %d", pauses, n.State().index, w.at[2])
		}
	})
}

// A published state is always among the states that the member itself uses.
func TestWhatIsShownIsKnownToTheMember(t *testing.T) {
	n, _, _ := linked(t)
	v := visible{n: n}
	v.begin(&state{index: 1}, 1)
	var ends atomic.Bool
	var looking sync.WaitGroup
	looking.Go(func() {
		for !ends.Load() {
			if shown, applied := n.State().index, n.appliedIndex(); applied < shown {
				t.Errorf("state %d is shown, and the member has applied %d by what it knows itself", shown, applied)
				return
			}
		}
	})
	for i := uint64(2); i < 300_000; i++ {
		v.Add(&state{index: i}, false)
		v.show()
	}
	ends.Store(true)
	looking.Wait()
	if n.State().index != 299_999 {
		t.Errorf("state %d is shown, want the last", n.State().index)
	}
}

// A read under a lease in key order loads its state last. Entries that were released while the clock
// was read are in that state.
func TestAReadLooksForItsStateLast(t *testing.T) {
	w := write(t, &pb.PutRequest{Key: []byte("k"), Value: []byte("1")}, &pb.PutRequest{Key: []byte("k"), Value: []byte("2")})
	n, _, _ := linked(t)
	shows := func(i int) {
		n.ahead.Store(&[]*state{{index: w.at[i], view: w.state(w.at[i]).Store().View()}})
	}
	shows(0)
	n.reads.keys.Store(&keyLease{&replica.KeyLease{Until: 100}, 1})
	n.reads.clock = func() machine.Mono { shows(1); return 50 }
	view, ok := n.readHere(replica.AppendReads(nil, &pb.RangeRequest{Key: []byte("k")}))
	if want := n.applied().view.Revision(); !ok || view.view.Revision() != want {
		t.Errorf("while the clock was read revision %d was released; the read is of revision %d, %v", want, view.view.Revision(), ok)
	}
}

// Memory that a snapshot pins is not given back while the snapshot is written.
func TestASnapshotHoldsStillWhileItIsWritten(t *testing.T) {
	w := write(t, &pb.PutRequest{Key: []byte("k")}, &pb.PutRequest{Key: []byte("k")}, &pb.PutRequest{Key: []byte("k")})
	n, _, _ := linked(t)
	st := w.state(w.at[2])
	versions := func() int64 {
		st.Store().Reclaim(1 << 20)
		return st.Store().View().Stats().Versions
	}
	disk := waltest.NewDisk().FS()
	n.storage, _ = storageOn(t, disk)
	defer n.storage.log.Close()
	snap := st.Snapshot()
	before := versions()
	if err := st.Store().Compact(st.Store().Revision()); err != nil {
		t.Fatal(err)
	}
	writes := 0
	disk.Fault = func(op, path string) error {
		if op == "write" && strings.Contains(path, "/snap/") {
			writes++
			if now := versions(); now != before {
				t.Errorf("while a snapshot is written %d of the %d versions that it holds still are left", now, before)
			}
		}
		return nil
	}
	n.snapshots.start(n, snap)
	n.snapshots.wait()
	if writes == 0 {
		t.Error("no snapshot was written")
	}
	if now := versions(); now >= before {
		t.Errorf("when the snapshot is written %d of %d versions are left: it still holds them", now, before)
	}
}

// Two members that start from copies of one directory are distinguished, although both count the same
// number of starts.
func TestStartsFromCopiesDiffer(t *testing.T) {
	var boots []uint64
	for range 2 {
		s, _ := storageOn(t, waltest.NewDisk().FS())
		boot, _, err := s.begin(time.Second, true)
		if err != nil {
			t.Fatal(err)
		}
		boots = append(boots, boot)
		s.log.Close()
	}
	if boots[0]>>32 != 1 || boots[1]>>32 != 1 || boots[0] == boots[1] {
		t.Errorf("the first starts from two directories are %x and %x, want two of the same number that differ", boots[0], boots[1])
	}
}

// The parts of a record are written in the order of their dependencies. A log that is cut off in
// between has no hard state without its entries, and no entries without the snapshot that they follow.
func TestInWhichOrderARecordIsWritten(t *testing.T) {
	disk := waltest.NewDisk().FS()
	s, _ := storageOn(t, disk)
	before := s.log.LastSeq()
	index, term := uint64(9), uint64(3)
	s.persistAll(t, replica.Record{
		Snapshot:  &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2}}}},
		Entries:   entriesOf(3, 10, 11),
		HardState: hardStateOf(3, 1, 11),
		Released:  10,
	})
	s.log.Close()
	var kinds []byte
	l, err := wal.Open("/data", wal.Options{FS: disk}, func(r wal.Record) error {
		if r.Seq > before {
			kinds = append(kinds, r.Kind)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if want := []byte{recordSnapshot, recordEntries, recordHardState, recordReleased}; !slices.Equal(kinds, want) {
		t.Errorf("records of the kinds %v are written, want %v", kinds, want)
	}
}

// Whatever the replica is asked to do, it is informed of a doubt about its clock before it uses that
// clock.
func TestADoubtComesFirst(t *testing.T) {
	for name, do := range map[string]func(w watched, now machine.Now){
		"an input": func(w watched, now machine.Now) { w.Step(now, replica.HandOver{}) },
		"a message": func(w watched, now machine.Now) {
			term := uint64(now.Mono)
			w.Receive(now, machine.Envelope{From: 2, To: 1, Body: &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: &term}})
		},
		"an alarm": func(w watched, now machine.Now) { w.Wake(now) },
	} {
		n, _, _ := linked(t)
		var log lines
		n.logger, n.cfg.Now = log.logger(), stoppedClock()
		if err := n.cfg.setDefaults(); err != nil {
			t.Fatal(err)
		}
		if err := n.restart(replica.Genesis(nodeIDs([]uint64{1, 2, 3})), 7, 0); err != nil {
			t.Fatal(err)
		}
		n.clocks.n = n
		said := 0
		for at := machine.Mono(2); at < machine.Mono(time.Minute); at = at.Add(n.cfg.HeartbeatInterval) { // until an election, which is told in the log
			n.clocks.note(clock.Oddity{Kind: clock.Set}, at-1, at)
			log.sees = func(line string) {
				if said++; n.clocks.doubt.Until != 0 {
					t.Errorf("%s: the replica does something before it hears of a doubt about its clock: %s", name, line)
				}
			}
			do(watched{n.replica, &n.clocks}, machine.Now{Mono: at})
			log.sees = nil
			if n.clocks.doubt.Until != 0 {
				t.Errorf("%s: the replica has not heard of a doubt about its clock", name)
				break
			}
			n.replica.Ready()
			if said > 0 {
				break
			}
		}
		if said == 0 {
			t.Errorf("%s: the replica does nothing by which it could be seen", name)
		}
	}
}

// Members that use TLS are looked for at https URLs, and are asked over TLS.
func TestMembersBehindTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, _ := linked(t)
		defer n.end()
		n.cfg.PeerTLS, n.cfg.Existing, n.cfg.RequestTimeout = &tls.Config{}, true, time.Second
		n.cfg.Peers = map[string]string{"a": "https://m:1", "old": "https://old:1", "plain": "http://plain:1"}
		ro := rosterOf([]uint64{1, 2, 3})
		ro.Members[1].PeerURLs = []string{"https://m:2"}
		n.is(ro)
		var dialed []string
		if got := n.addresses(ro); !maps.Equal(got, map[machine.NodeID]string{2: "m:2"}) {
			t.Errorf("members are at %v, want the one whose URL says that it speaks TLS", got)
		}
		if got := n.reachable([]founder{{7, "https://m:7"}, {8, "http://m:8"}}, 1); !maps.Equal(got, map[machine.NodeID]string{7: "m:7"}) {
			t.Errorf("of others it hears that they are at %v, want the one whose URL says that it speaks TLS", got)
		}
		if !n.goodURLs([]string{"https://m:9"}) || n.goodURLs([]string{"http://m:9"}) {
			t.Error("a member may be where it does not speak TLS, or may not where it does")
		}
		n.cfg.Dial = func(_ context.Context, addr string) (net.Conn, error) {
			dialed = append(dialed, addr)
			return nil, errDisk
		}
		n.leadership.Store(&leadership{at: time.Now().Add(-time.Hour)})
		n.lookAround(time.Now())
		synctest.Wait()
		if slices.Sort(dialed); !slices.Equal(dialed, []string{"m:2", "old:1"}) {
			t.Errorf("without a leader it asks at %v, want those whose URLs say that they speak TLS", dialed)
		}
		for _, m := range n.founders {
			m.PeerURLs[0] = strings.Replace(m.PeerURLs[0], "http:", "https:", 1)
		}
		dialed = nil
		if _, err := n.join(); !errors.Is(err, errDisk) || len(dialed) < 2 {
			t.Errorf("one that joins asks at %v: %v", dialed, err)
		}
	})
	// A handshake of TLS begins with the byte 22.
	n, _, _ := linked(t)
	n.cfg.PeerTLS = &tls.Config{}
	began := make(chan byte, 1)
	n.cfg.Dial = func(context.Context, string) (net.Conn, error) {
		ours, other := net.Pipe()
		go func() {
			defer other.Close()
			var b [1]byte
			io.ReadFull(other, b[:])
			began <- b[0]
		}()
		return ours, nil
	}
	if _, err := n.askMembers(t.Context(), "m:2"); err == nil {
		t.Error("nobody answers, and it has heard of members")
	}
	if got := <-began; got != 22 {
		t.Errorf("a question begins with the byte %d, want a handshake of TLS", got)
	}
}

// Messages and streams from others wait until all parts of a member are set up.
func TestOthersAreHeardWhenAllPartsAreThere(t *testing.T) {
	term := uint64(3)
	message, err := replica.EncodeBody(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: &term})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(peer.Config){
		"messages": func(c peer.Config) { c.Deliver(2, [][]byte{message}) },
		"a stream": func(c peer.Config) { _ = c.Stream(2, message, strings.NewReader("")) },
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := linked(t)
			defer n.end()
			n.admission.open.Store(true)
			n.running = make(chan struct{})
			over := false
			go func() { do(n.transport(nil)); over = true }()
			if synctest.Wait(); over || len(l.heard()) > 0 {
				t.Errorf("%s: they are taken before all parts are there: %v, and the replica is told %v", name, over, l.heard())
			}
			close(n.running)
			if synctest.Wait(); !over {
				t.Errorf("%s: they still wait when all parts are there", name)
			}
		})
	}
}
