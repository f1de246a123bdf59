package replica

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

func encodedPut(t testing.TB, from, seq uint64, term uint64) []byte {
	t.Helper()
	body, err := EncodeRequest(&pb.PutRequest{Key: []byte("k"), Value: []byte("v")})
	if err != nil {
		t.Fatal(err)
	}
	return (&batch{Term: term, From: machine.NodeID(from), Boot: 9, Seq: seq, Requests: []Propose{{ID: 1, Body: body}}}).encode()
}

func logEntry(index, term uint64, data []byte) *raftpb.Entry {
	return &raftpb.Entry{Index: &index, Term: &term, Type: raftpb.EntryNormal.Enum(), Data: data}
}

// changeEntry is an entry that changes the membership, as a leader makes it of a request.
func changeEntry(t testing.TB, index, term uint64, asked *raftpb.ConfChange) *raftpb.Entry {
	t.Helper()
	body, err := EncodeRequest(asked)
	if err != nil {
		t.Fatal(err)
	}
	context := (&batch{Term: term, From: 2, Boot: 9, Seq: 1, Requests: []Propose{{ID: 1, Body: body}}}).encode()
	data, err := proto.Marshal(&raftpb.ConfChange{Type: asked.Type, NodeId: asked.NodeId, Context: context})
	if err != nil {
		t.Fatal(err)
	}
	return &raftpb.Entry{Index: &index, Term: &term, Type: raftpb.EntryConfChange.Enum(), Data: data}
}

// Messages that no member sends are refused before raft sees them. Each of these would
// make raft panic, or leave something in the log or on disk by which the member ends.
func TestUnsoundMessages(t *testing.T) {
	put := func(e *raftpb.Entry) []*raftpb.Entry { return []*raftpb.Entry{e} }
	named, err := proto.Marshal(&pb.Member{ID: 4, Name: "d"})
	if err != nil {
		t.Fatal(err)
	}
	snapshot := func(index, term uint64, conf *raftpb.ConfState) *raftpb.Snapshot {
		return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: conf}}
	}
	three := &raftpb.ConfState{Voters: []uint64{1, 2, 3}}
	good := encodedPut(t, 2, 1, 5)
	unknown := bytes.Clone(good)
	unknown[len(unknown)-len("\n\x01k\x12\x01v")-1] = 99 // the kind of the request
	moved := AddMember(9, []string{"http://9:1"}, false)
	nowhere := AddMember(9, nil, true)
	other := AddMember(9, []string{"http://9:1"}, false)
	mismatched := changeEntry(t, 2, 5, other)
	mismatched.Data = bytes.Replace(mismatched.GetData(), []byte{24, 9}, []byte{24, 8}, 1) // of another member outside
	tests := map[string]struct {
		m  *raftpb.Message
		ok bool
	}{
		"a heartbeat":                         {&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Commit: new(uint64(1))}, true},
		"of no term":                          {&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: new(uint64(0))}, false},
		"of a term that overflows":            {&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: new(uint64(math.MaxUint64))}, false},
		"an index that overflows":             {&raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Index: new(uint64(math.MaxUint64))}, false},
		"a commit index that overflows":       {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Commit: new(uint64(1 << 62))}, false},
		"a hint that overflows":               {&raftpb.Message{Type: raftpb.MsgAppResp.Enum(), RejectHint: new(uint64(1 << 62))}, false},
		"from another":                        {&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(3))}, false},
		"to another":                          {&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), To: new(uint64(3))}, false},
		"with messages in it":                 {&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Responses: []*raftpb.Message{{}}}, false},
		"entries in a heartbeat":              {&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Entries: put(logEntry(2, 5, good))}, false},
		"a snapshot in a heartbeat":           {&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Snapshot: snapshot(2, 5, three)}, false},
		"a proposal":                          {&raftpb.Message{Type: raftpb.MsgProp.Enum()}, false},
		"a question of raft's own":            {&raftpb.Message{Type: raftpb.MsgReadIndex.Enum()}, false},
		"an answer to one":                    {&raftpb.Message{Type: raftpb.MsgReadIndexResp.Enum()}, false},
		"of a member's own threads":           {&raftpb.Message{Type: raftpb.MsgStorageAppendResp.Enum()}, false},
		"a campaign":                          {&raftpb.Message{Type: raftpb.MsgHup.Enum()}, false},
		"a transfer":                          {&raftpb.Message{Type: raftpb.MsgTransferLeader.Enum()}, false},
		"of forgetting":                       {&raftpb.Message{Type: raftpb.MsgForgetLeader.Enum()}, false},
		"of an unknown type":                  {&raftpb.Message{Type: raftpb.MessageType(77).Enum()}, false},
		"a context that is no number":         {&raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Context: []byte("abc")}, false},
		"an append":                           {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), LogTerm: new(uint64(1)), Entries: []*raftpb.Entry{logEntry(2, 5, good), logEntry(3, 5, nil)}}, true},
		"a gap":                               {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(logEntry(3, 5, good))}, false},
		"terms that go back":                  {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), LogTerm: new(uint64(4)), Entries: put(logEntry(2, 3, good))}, false},
		"terms that go back within":           {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), LogTerm: new(uint64(3)), Entries: []*raftpb.Entry{logEntry(2, 5, good), logEntry(3, 4, nil)}}, false},
		"terms that go on":                    {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), LogTerm: new(uint64(3)), Entries: []*raftpb.Entry{logEntry(2, 3, nil), logEntry(3, 4, nil), logEntry(4, 5, good)}}, true},
		"a gap within":                        {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: []*raftpb.Entry{logEntry(2, 5, good), logEntry(4, 5, nil)}}, false},
		"an entry twice":                      {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: []*raftpb.Entry{logEntry(2, 5, good), logEntry(2, 5, good)}}, false},
		"garbage behind what is sound":        {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: []*raftpb.Entry{logEntry(2, 5, good), logEntry(3, 5, []byte("garbage"))}}, false},
		"an entry of a term to come":          {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(logEntry(2, 6, good))}, false},
		"an entry of no term":                 {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(logEntry(2, 0, good))}, false},
		"garbage":                             {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(logEntry(2, 5, []byte("garbage")))}, false},
		"a batch that is cut off":             {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(logEntry(2, 5, good[:len(good)-1]))}, false},
		"a batch and more":                    {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(logEntry(2, 5, append(bytes.Clone(good), 0)))}, false},
		"a request of an unknown kind":        {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(logEntry(2, 5, unknown))}, false},
		"an entry of an unknown type":         {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(&raftpb.Entry{Index: new(uint64(2)), Term: new(uint64(5)), Type: raftpb.EntryConfChangeV2.Enum()})}, false},
		"a change":                            {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(changeEntry(t, 2, 5, moved))}, true},
		"a removal":                           {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(changeEntry(t, 2, 5, RemoveMember(3)))}, true},
		"a promotion":                         {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(changeEntry(t, 2, 5, PromoteMember(3)))}, true},
		"a change of nobody":                  {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(changeEntry(t, 2, 5, RemoveMember(0)))}, false},
		"a change of raft's own thread":       {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(changeEntry(t, 2, 5, RemoveMember(raft.LocalAppendThread)))}, false},
		"a change of raft's other thread":     {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(changeEntry(t, 2, 5, RemoveMember(raft.LocalApplyThread)))}, false},
		"a voter that is nowhere":             {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(changeEntry(t, 2, 5, &raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(uint64(4)), Context: named}))}, false},
		"a member that is nowhere":            {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(changeEntry(t, 2, 5, nowhere))}, false},
		"a move":                              {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(changeEntry(t, 2, 5, UpdateMember(3, []string{"http://9:1"})))}, true},
		"a move to nowhere":                   {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(changeEntry(t, 2, 5, UpdateMember(3, nil)))}, false},
		"a change that is not what was asked": {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(mismatched)}, false},
		"a change that is garbage":            {&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(uint64(1)), Entries: put(&raftpb.Entry{Index: new(uint64(2)), Term: new(uint64(5)), Type: raftpb.EntryConfChange.Enum(), Data: []byte("x")})}, false},
		"a snapshot":                          {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 5, three)}, true},
		"no snapshot":                         {&raftpb.Message{Type: raftpb.MsgSnap.Enum()}, false},
		"a snapshot of nothing":               {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(0, 5, three)}, false},
		"a snapshot of a term to come":        {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 6, three)}, false},
		"a snapshot of a term that is none":   {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 0, three)}, false},
		"a snapshot of an index too far":      {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(farAhead, 5, three)}, false},
		"a snapshot of members out of order":  {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 5, &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{1}})}, false},
		"a snapshot of nobody":                {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 5, &raftpb.ConfState{Learners: []uint64{1}})}, false},
		"a snapshot of others":                {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 5, &raftpb.ConfState{Voters: []uint64{2, 3}})}, false},
		"a snapshot of one member twice":      {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 5, &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{2}})}, false},
		"a snapshot of joint members":         {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 5, &raftpb.ConfState{Voters: []uint64{1}, VotersOutgoing: []uint64{2}})}, false},
		"a snapshot of learners to come":      {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 5, &raftpb.ConfState{Voters: []uint64{1}, LearnersNext: []uint64{2}})}, false},
		"a snapshot that leaves by itself":    {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 5, &raftpb.ConfState{Voters: []uint64{1}, AutoLeave: new(true)})}, false},
		"a snapshot of the member 0":          {&raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: snapshot(9, 5, &raftpb.ConfState{Voters: []uint64{0, 1}})}, false},
	}
	for name, tt := range tests {
		m := &raftpb.Message{From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(5))}
		proto.Merge(m, tt.m)
		if err := Sound(m, 2, 1); (err == nil) != tt.ok {
			t.Errorf("%s: %v, sound should be %v", name, err, tt.ok)
		}
	}
}

// told has a member hear a message of raft's from another.
func (s *stage) told(to *member, from uint64, m *raftpb.Message) {
	m.From, m.To = &from, new(uint64(to.id))
	if m.Term == nil {
		m.Term = new(to.r.Status().Term)
	}
	defer func() {
		if p := recover(); p != nil {
			s.t.Fatalf("raft panics at what another member sent, %v: %v", m, p)
		}
	}()
	s.step(to, machine.Envelope{From: machine.NodeID(from), To: to.id, Body: m})
}

// A message that is sound by itself may still not fit the state of a member. Raft would panic at each
// of these.
func TestMisfits(t *testing.T) {
	begin := func(t *testing.T) (s *stage, lead, follower *member) {
		s = newStage(t)
		s.do("elect 1")
		s.do("put 1 k v")
		s.do("deliver")
		return s, s.members[0], s.members[1]
	}
	t.Run("a commit index behind the log's end", func(t *testing.T) {
		s, _, f := begin(t)
		before := f.r.raft.BasicStatus().HardState.GetCommit()
		s.told(f, 1, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Commit: new(f.r.last + 1)})
		if got := f.r.raft.BasicStatus().HardState.GetCommit(); got != before {
			t.Errorf("committed %d, as a heartbeat from beyond the log said; want %d", got, before)
		}
	})
	t.Run("behind what the log is cut to in the same turn", func(t *testing.T) {
		s, _, f := begin(t)
		term, last := f.r.Status().Term, f.r.last
		at := machine.Now{Mono: s.now}
		say := func(m *raftpb.Message) {
			m.From, m.To, m.Term = new(uint64(1)), new(uint64(2)), new(term+1)
			defer func() {
				if p := recover(); p != nil {
					t.Fatalf("raft panics at a heartbeat behind what the log was cut to: %v", p)
				}
			}()
			f.r.Receive(at, machine.Envelope{From: 1, To: 2, Body: m})
		}
		say(&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: &last, LogTerm: &term, Entries: []*raftpb.Entry{logEntry(last+1, term, encodedPut(t, 1, 1, term)), logEntry(last+2, term, nil)}})
		f.r.Ready()
		say(&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: &last, LogTerm: &term, Entries: []*raftpb.Entry{logEntry(last+1, term+1, nil)}})
		say(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Commit: new(last + 2)})
		if got := f.r.raft.BasicStatus().HardState.GetCommit(); got > last+1 {
			t.Errorf("committed %d, and the log ends at %d", got, last+1)
		}
	})
	// One turn may bring an append or a snapshot, and then a heartbeat. Each is sound, or not, by
	// what raft's log is by then.
	for name, tt := range map[string]struct {
		first func(term, committed uint64) *raftpb.Message
		ends  uint64 // the log then, behind what is committed
	}{
		"behind a snapshot that replaces the log": {func(term, committed uint64) *raftpb.Message {
			return &raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
				Index: new(committed + 1), Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}},
			}}}
		}, 1},
		"behind a snapshot that is older than the log": {func(term, committed uint64) *raftpb.Message {
			return &raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
				Index: &committed, Term: new(term - 1), ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}},
			}}}
		}, 2},
		"behind an append that cuts the log": {func(term, committed uint64) *raftpb.Message {
			return &raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: &committed, LogTerm: new(term - 1), Entries: []*raftpb.Entry{logEntry(committed+1, term, nil)}}
		}, 1},
		"behind an append of what is committed": {func(term, committed uint64) *raftpb.Message {
			return &raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: new(committed - 1), LogTerm: new(term - 1)}
		}, 2},
	} {
		t.Run("a commit index "+name, func(t *testing.T) {
			s, _, f := begin(t)
			term, last := f.r.Status().Term, f.r.last
			say := func(m *raftpb.Message) {
				m.From, m.To, m.Term = new(uint64(1)), new(uint64(2)), new(term+1)
				defer func() {
					if p := recover(); p != nil {
						t.Fatalf("raft panics at %v: %v", m, p)
					}
				}()
				f.r.Receive(machine.Now{Mono: s.now}, machine.Envelope{From: 1, To: 2, Body: m})
			}
			say(&raftpb.Message{Type: raftpb.MsgApp.Enum(), Index: &last, LogTerm: &term, Entries: []*raftpb.Entry{logEntry(last+1, term, nil), logEntry(last+2, term, nil)}})
			f.r.Ready()
			say(tt.first(term+1, last))
			say(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Commit: new(last + tt.ends + 1)})
			if got := f.r.raft.BasicStatus().HardState.GetCommit(); got > last+tt.ends {
				t.Errorf("committed up to %d, and the log ends at %d", got, last+tt.ends)
			}
			say(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Commit: new(last + tt.ends)})
			if got := f.r.raft.BasicStatus().HardState.GetCommit(); got != last+tt.ends {
				t.Errorf("committed up to %d, and a heartbeat said %d, which is the end of the log", got, last+tt.ends)
			}
		})
	}
	t.Run("an acknowledgment of what the log has not", func(t *testing.T) {
		s, lead, _ := begin(t)
		m := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(lead.r.Status().Term), Index: new(lead.r.last + 1)}
		lead.r.Receive(machine.Now{Mono: s.now}, machine.Envelope{From: 2, To: 1, Body: m})
		for id, pr := range lead.r.raft.Status().Progress {
			if pr.Match > lead.r.last {
				t.Errorf("member %d is taken to have entry %d, and the log ends at %d", id, pr.Match, lead.r.last)
			}
		}
	})
	t.Run("an acknowledgment of a round to come", func(t *testing.T) {
		s, lead, _ := begin(t)
		huge := binary.LittleEndian.AppendUint64(nil, 1<<40)
		for _, from := range []uint64{2, 3} {
			s.told(lead, from, &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Context: huge})
		}
	})
	t.Run("a term of a century to come", func(t *testing.T) {
		s, lead, _ := begin(t)
		term := lead.r.Status().Term
		s.told(lead, 2, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: new(term + termsMissed + 1)})
		if got := lead.r.Status().Term; got != term {
			t.Errorf("term %d became %d", term, got)
		}
	})
	t.Run("a hand-over by a member that does not lead", func(t *testing.T) {
		s, _, f := begin(t)
		term := f.r.Status().Term
		s.told(f, 3, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum()})
		if got := f.r.Status().Term; got != term {
			t.Errorf("a campaign began for a hand-over by a member that does not lead: term %d became %d", term, got)
		}
	})
	t.Run("a hand-over by one who led before", func(t *testing.T) {
		_, _, f := begin(t)
		if err := f.r.raft.ForgetLeader(); err != nil {
			t.Fatal(err)
		}
		if err := f.r.checkFits(&raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), Term: new(f.r.term), From: new(uint64(1))}); err != nil {
			t.Errorf("a member that follows nobody refuses leadership: %v", err)
		}
	})
	t.Run("a forward of what no member can apply", func(t *testing.T) {
		s, lead, _ := begin(t)
		term, last := lead.r.Status().Term, lead.r.last
		bad := &batch{Term: term, From: 2, Boot: 9, Seq: 1, Requests: []Propose{{ID: 1, Body: []byte{99, 1}}}}
		s.step(lead, machine.Envelope{From: 2, To: 1, Body: forward{Term: term, Seq: 1, Entry: bad.encode()}})
		if lead.r.last != last {
			t.Error("a forward with a request of an unknown kind is in the log")
		}
	})
	t.Run("the last voter's removal", func(t *testing.T) {
		s := newStage(t)
		r := s.members[0].r
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("raft removes its last voter: %v", p)
			}
		}()
		for id := uint64(3); id > 0; id-- {
			r.reconfigure([]*raftpb.Entry{changeEntry(t, 10-id, 1, RemoveMember(id))})
		}
		if got := r.tail.conf.GetVoters(); len(got) != 1 {
			t.Errorf("voters %v are left, want one", got)
		}
	})
}

// complaints is a raft.Logger that keeps what is said about messages.
type complaints struct {
	discard
	said []string
}

func (c *complaints) Errorf(format string, v ...any) {
	c.said = append(c.said, fmt.Sprintf(format, v...))
}

// A flood of unsound messages causes one line of log in an election timeout, with the sender and the
// reason.
func TestUnsoundMessagesAreTold(t *testing.T) {
	s := newStage(t)
	s.do("elect 1")
	f, log := s.members[1], &complaints{}
	f.r.cfg.Logger = log
	for range 50 {
		s.told(f, 1, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Commit: new(uint64(256))})
	}
	if len(log.said) != 1 || !strings.Contains(log.said[0], "member 1") || !strings.Contains(log.said[0], "its disk has lost acknowledged entries") {
		t.Errorf("said %q, want one line about member 1", log.said)
	}
	s.now = s.now.Add(f.r.cfg.electionTimeout() + 1)
	s.told(f, 1, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Commit: new(uint64(256))})
	if len(log.said) != 2 {
		t.Errorf("%d lines after an election timeout more, want 2", len(log.said))
	}
}

// No message from another member causes a panic, and committed entries stay.
func TestNoMessagePanics(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			s := newStage(t)
			s.do("elect 1")
			s.do("put 1 k v")
			s.do("deliver")
			for range 60 {
				to := s.members[rnd.IntN(3)]
				from := uint64(rnd.IntN(3) + 1)
				if machine.NodeID(from) == to.id {
					continue
				}
				m := randomMessage(t, rnd, to)
				if m.GetType() == raftpb.MsgSnap && len(m.GetEntries()) == 0 && m.GetSnapshot() != nil {
					continue // the stage has no snapshots; for those see TestUnsoundMessages
				}
				s.told(to, from, m)
				if rnd.IntN(4) == 0 {
					s.now = s.now.Add(time.Duration(rnd.IntN(200)) * time.Millisecond)
					for _, m := range s.members {
						s.step(m, labstage.Wake{})
					}
				}
				if rnd.IntN(3) == 0 {
					s.wire = nil
				}
			}
		})
	}
}

func randomMessage(t testing.TB, rnd *rand.Rand, to *member) *raftpb.Message {
	st := to.r.raft.BasicStatus()
	number := func() *uint64 {
		near := []uint64{0, 1, 2, st.HardState.GetTerm(), st.HardState.GetTerm() + 1, st.HardState.GetCommit(), to.r.last, to.r.last + 1, to.r.last + 2, 1 << 50, 1<<60 - 1, math.MaxUint64 - 1, math.MaxUint64}
		return new(near[rnd.IntN(len(near))])
	}
	m := &raftpb.Message{
		Type:  raftpb.MessageType(rnd.IntN(len(raftpb.MessageType_name) + 1)).Enum(),
		Index: number(), LogTerm: number(), Commit: number(), RejectHint: number(), Reject: new(rnd.IntN(4) == 0),
	}
	if rnd.IntN(3) == 0 {
		m.Term = number()
	}
	if rnd.IntN(2) == 0 {
		m.Context = binary.LittleEndian.AppendUint64(nil, *number())[:rnd.IntN(9)]
	}
	for i := range rnd.IntN(3) {
		e := logEntry(m.GetIndex()+1+uint64(i), max(m.GetLogTerm(), st.HardState.GetTerm()), encodedPut(t, m.GetFrom(), 1, st.HardState.GetTerm()))
		switch rnd.IntN(6) {
		case 0:
			e.Index = number()
		case 1:
			e.Term = number()
		case 2:
			e.Data = []byte{byte(rnd.IntN(4)), 9}
		case 3:
			e.Data, e.Type = nil, raftpb.EntryType(rnd.IntN(4)).Enum()
		}
		m.Entries = append(m.Entries, e)
	}
	if rnd.IntN(4) == 0 {
		conf := &raftpb.ConfState{}
		for range rnd.IntN(4) {
			conf.Voters = append(conf.Voters, uint64(rnd.IntN(5)))
		}
		for range rnd.IntN(2) {
			conf.Learners = append(conf.Learners, uint64(rnd.IntN(5)))
		}
		m.Snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: number(), Term: number(), ConfState: conf}}
	}
	return m
}

// Until the next Ready, a message may have made the log shorter, never longer. A level counts that is told in this
// leadership. The first complaint is told however early it is, and entries have requests that are not empty.
func TestWhatAMessageLeavesBehind(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	f := s.members[1].r
	commit := f.raft.BasicStatus().HardState.GetCommit()
	put := func(index uint64) *raftpb.Entry { return logEntry(index, f.term, encodedPut(t, 1, index, f.term)) }
	message := func(index uint64, entries ...*raftpb.Entry) *raftpb.Message {
		return &raftpb.Message{Type: raftpb.MsgApp.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(f.term), Index: &index, LogTerm: new(f.term), Entries: entries}
	}
	f.stepRaft(1, message(commit, put(commit+1), put(commit+2)))
	if f.least != commit {
		t.Errorf("a message makes the log longer, and it reaches %d at least before the next Ready, want %d", f.least, commit)
	}
	f.Ready()
	if f.least != commit+2 {
		t.Errorf("behind the Ready the log reaches %d at least, want %d", f.least, commit+2)
	}
	f.stepRaft(1, message(commit, put(commit+1)))
	if f.least != commit+1 {
		t.Errorf("a message may have cut the log to %d, and it reaches %d at least", commit+1, f.least)
	}
	f.stepRaft(1, &raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(f.term),
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(commit + 9), Term: new(f.term), ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}}},
	})
	if f.least != commit+1 {
		t.Errorf("a snapshot of entry %d may not have been taken, and the log reaches %d at least, want %d", commit+9, f.least, commit+1)
	}

	r := s.members[0].r
	for _, term := range []uint64{r.term - 1, r.term} {
		r.levels = levels{}
		r.stepRaft(2, &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: &term, Index: new(uint64(1)), Context: levelContext})
		if _, known := r.levels[2]; known != (term == r.term) {
			t.Errorf("in term %d a level that was told in term %d is known: %v", r.term, term, known)
		}
	}

	log := &complaints{}
	r.cfg.Logger, r.now, r.complained = log, 1, 0
	if r.complain(2, errUnsound); len(log.said) != 1 {
		t.Errorf("the first complaint is told as %q", log.said)
	}
	if err := soundBatch((&batch{Term: 1, From: 1, Requests: []Propose{{ID: 1}}}).encode()); err == nil {
		t.Error("a batch with an empty request is sound")
	}
}
