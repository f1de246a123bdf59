package node

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// restoring is a replica that continues from each snapshot that it receives.
type restoring struct {
	listener
	next []replica.Outcome
}

func (m *restoring) Receive(_ machine.Now, e machine.Envelope) {
	md := e.Body.(*raftpb.Message).GetSnapshot().GetMetadata()
	m.next = append(m.next, replica.Restore{Index: md.GetIndex(), Term: md.GetTerm()})
}

func (m *restoring) Ready() machine.Ready[replica.Outcome] {
	out := machine.Ready[replica.Outcome]{Alarm: machine.Never, Outcomes: m.next}
	m.next = nil
	return out
}

// messageOf announces a snapshot of member 2's to member 1.
func messageOf(index, term uint64) *raftpb.Message {
	return &raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), To: new(uint64(1)), From: new(uint64(2)), Term: &term,
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term}},
	}
}

// fileOf is a snapshot in its transfer format.
func fileOf(t *testing.T, index, term uint64, conf *raftpb.ConfState) *bytes.Buffer {
	t.Helper()
	from, _ := storageOn(t, waltest.NewDisk().FS())
	defer from.log.Close()
	from.save(t, index, term, conf)
	file, _, err := from.log.Snapshots().Export(index)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var whole bytes.Buffer
	if _, err := io.Copy(&whole, file); err != nil {
		t.Fatal(err)
	}
	return &whole
}

// A snapshot that raft has taken is kept even if the outcomes of that turn are processed long after
// its steps.
func TestASnapshotIsNotRefusedBeforeItsTurnIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conf := &raftpb.ConfState{Voters: []uint64{1, 2, 3}}
		file := fileOf(t, 9, 3, conf)
		n, _, _ := linked(t)
		n.applier = &applier{n: n, wake: make(chan struct{}, 1)}
		n.storage, _ = storageOn(t, waltest.NewDisk().FS())
		defer n.storage.log.Close()
		n.admission.open.Store(true)
		n.driver = driver.Start(driver.Config[replica.Input, replica.Outcome]{
			Machine: &restoring{}, Now: hostNow, Send: n.send, Fail: func(err error) { t.Error(err) },
			Outcome: func(list []replica.Outcome) { time.Sleep(time.Second); n.handle(list) },
		})
		defer n.driver.Stop()
		hold := make(chan struct{})
		n.driver.Gather(func() (replica.Input, bool) { <-hold; return nil, false }) // so that what follows shares a turn
		message := messageOf(9, 3)
		message.Snapshot.Metadata.ConfState = conf
		header, err := replica.EncodeBody(message)
		if err != nil {
			t.Fatal(err)
		}
		received := make(chan error, 1)
		go func() { received <- n.receive(2, header, file) }()
		synctest.Wait()
		close(hold)
		if err := <-received; err != nil {
			t.Error(err)
		}
		if as := &n.storage.arrivals; len(as.list) != 1 || !as.list[0].taken {
			t.Fatalf("raft goes on from a snapshot, and of what has arrived there is left %v: it was refused before the outcomes of its turn", as.list)
		}
		if err := n.storage.arrivals.keep(9, 3); err != nil {
			t.Error(err)
		}
		if list, err := n.storage.log.Snapshots().List(); err != nil || len(list) != 1 || list[0] != 9 {
			t.Errorf("snapshots %v are kept, %v", list, err)
		}
	})
}

// If two snapshots have one index, raft has taken the one with the term that it reports.
func TestAnArrivalIsTakenByItsTerm(t *testing.T) {
	var as arrivals
	old, next := &arrival{Arrival: &wal.Arrival{}}, &arrival{Arrival: &wal.Arrival{}}
	old.Info.Index, old.Info.Term = 9, 2
	next.Info.Index, next.Info.Term = 9, 3
	as.add(old)
	as.add(next)
	if as.take(9, 3); old.taken || !next.taken {
		t.Errorf("raft goes on from the snapshot of term 3; taken is that of term 2: %v, of term 3: %v", old.taken, next.taken)
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.find(9, 2, true) != nil || as.find(9, 3, true) != next || as.find(8, 3, true) != nil {
		t.Error("a snapshot is found that is of another term or index")
	}
}

// If a snapshot cannot be given its name, all waiting callers are informed.
func TestASnapshotThatIsNotKeptIsToldToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, resumes := waltest.NewDisk().FS(), make(chan struct{})
		s, _ := storageOn(t, disk)
		defer s.log.Close()
		received, err := s.log.Snapshots().Receive(9, fileOf(t, 9, 3, &raftpb.ConfState{}))
		if err != nil {
			t.Fatal(err)
		}
		s.arrivals.add(&arrival{Arrival: received})
		s.arrivals.take(9, 3)
		disk.Fault = func(op, _ string) error {
			if op != "rename" {
				return nil
			}
			<-resumes
			return errDisk
		}
		told := make(chan error, 2)
		for range 2 {
			go func() { told <- s.arrivals.keep(9, 3) }()
			synctest.Wait()
		}
		close(resumes)
		for i := range 2 {
			if err := <-told; !errors.Is(err, errDisk) {
				t.Errorf("a snapshot gets no name, and caller %d is told %v, want %v", i+1, err, errDisk)
			}
		}
	})
}
