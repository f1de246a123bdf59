package replica

import (
	"bytes"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
)

func raise(id uint64, a pb.AlarmType) *pb.AlarmRequest {
	return &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: a}
}

func disarm(id uint64, a pb.AlarmType) *pb.AlarmRequest {
	return &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: id, Alarm: a}
}

// A request is judged by the alarms at its place in the log, also within an entry (AL-3).
func TestRequestsAreJudgedByAlarms(t *testing.T) {
	a := NewApplier(1, 7)
	put := &pb.PutRequest{Key: []byte("k")}
	check := func(name string, m proto.Message, want error) *Result {
		t.Helper()
		rev := a.Store().Revision()
		got := judge(t, a, auth.Caller{}, m)
		if !errors.Is(got[0].Err, want) || want != nil && (a.Store().Revision() != rev || got[0].Response != nil) {
			t.Errorf("%s: got %+v, want the error %v", name, got[0], want)
		}
		return &got[0]
	}
	check("a put", put, nil)
	check("a grant", &pb.LeaseGrantRequest{ID: 5, TTL: 60}, nil)
	check("a lease that is to expire", &pb.LeaseGrantRequest{ID: 6, TTL: 60}, nil)
	got := check("an alarm", raise(3, pb.AlarmType_NOSPACE), nil)
	if resp, ok := got.Response.(*pb.AlarmResponse); !ok || len(resp.Alarms) != 1 || resp.Header.GetRevision() != 2 {
		t.Errorf("an alarm is answered %v, want the alarm and a header with revision 2", got.Response)
	}
	if !a.Alarms().Raised(3, pb.AlarmType_NOSPACE) {
		t.Error("the alarm does not stand")
	}
	check("a put without space", put, alarm.ErrNoSpace)
	check("a grant without space", &pb.LeaseGrantRequest{ID: 7, TTL: 60}, alarm.ErrNoSpace)
	check("a deletion without space", &pb.DeleteRangeRequest{Key: []byte("k")}, nil)
	check("a compaction without space", &pb.CompactionRequest{Revision: 2}, nil)
	check("a revocation without space", &pb.LeaseRevokeRequest{ID: 5}, nil)
	both := judge(t, a, auth.Caller{}, put, disarm(3, pb.AlarmType_NOSPACE), put)
	if !errors.Is(both[0].Err, alarm.ErrNoSpace) || both[1].Err != nil || both[2].Err != nil {
		t.Errorf("a put before and one behind the end of an alarm, in an entry: got %+v", both)
	}
	check("another alarm", raise(3, pb.AlarmType_CORRUPT), nil)
	check("a deletion of corrupt data", &pb.DeleteRangeRequest{Key: []byte("k")}, alarm.ErrCorrupt)
	check("an unknown alarm", raise(3, 9), alarm.ErrUnknown)
	for name, body := range map[string][]byte{
		"a read by the log": EncodeRead(keyspan.Set{{Key: []byte("k")}}), "an expiry": bodyOf(t, kindExpire, listOf([]int64{6})),
	} {
		index, term := a.Index()+1, uint64(2)
		e := &raftpb.Entry{Index: &index, Term: &term, Data: (&batch{Term: 2, From: 1, Boot: 7, Requests: []Propose{{ID: 9, Body: body}}}).encode()}
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
		if _, got := a.Take(); len(got) != 1 || got[0].Err != nil {
			t.Errorf("%s, of corrupt data: got %+v", name, got)
		}
	}
	if _, ok := a.Store().View().Lease(6); ok {
		t.Error("a lease does not expire while data are corrupt")
	}
}

// A member of an earlier version cannot read of alarms, and ends.
func TestAnEarlierVersionEndsAtAlarms(t *testing.T) {
	a := NewApplier(1, 7)
	a.Older()
	index, term := uint64(2), uint64(2)
	b := &batch{Term: 2, Requests: []Propose{{Body: bodyOf(t, kindAlarm, raise(1, pb.AlarmType_NOSPACE))}}}
	if err := a.Apply(&raftpb.Entry{Index: &index, Term: &term, Data: b.encode()}); !errors.Is(err, errBadEntry) {
		t.Errorf("got %v, want %v", err, errBadEntry)
	}
}

// Alarms are in a snapshot if there ever were any, behind the users, and others are as before.
func TestSnapshotsHaveAlarms(t *testing.T) {
	written := func(a *Applier) []byte {
		var b bytes.Buffer
		snap := a.Snapshot()
		defer snap.Release()
		if _, err := snap.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if p := written(withUsers(t)); bytes.Contains(p, []byte(alarmsMagic)) {
		t.Error("a snapshot has alarms, and there never were any")
	}
	for name, a := range map[string]*Applier{"alone": NewApplier(1, 7), "with users": withUsers(t)} {
		judge(t, a, auth.Caller{Member: true}, raise(300, pb.AlarmType_CORRUPT))
		p := written(a)
		to := NewApplier(1, 7)
		if err := to.Restore(bytes.NewReader(p), 8, 2); err != nil {
			t.Fatal(err)
		}
		if !to.Alarms().Raised(300, pb.AlarmType_CORRUPT) || !to.Restored().AlarmsUsed || to.Users().Used() != a.Users().Used() {
			t.Errorf("%s: the alarms are others behind a snapshot", name)
		}
		if err := to.Restore(bytes.NewReader(written(NewApplier(1, 7))), 8, 2); err != nil || to.Alarms().Used() || to.Restored().AlarmsUsed {
			t.Errorf("%s: a snapshot without alarms leaves those from before it: %v", name, err)
		}
		at := bytes.Index(p, []byte(alarmsMagic)) + len(alarmsMagic) + 4
		p[at]++
		if err := to.Restore(bytes.NewReader(p), 8, 2); err == nil {
			t.Errorf("%s: damaged alarms are read", name)
		}
	}
}

// A leader takes the first alarm when all members are known to know of alarms (AL-5).
func TestAlarmsWaitForAllMembers(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	r := s.members[0].r
	requests := []Propose{{ID: 1, Body: bodyOf(t, kindAlarm, raise(1, pb.AlarmType_NOSPACE))}}
	entry := (&batch{Term: r.term, From: 1, Boot: 1, Seq: 9, Requests: requests}).encode()
	for _, tt := range []struct {
		name       string
		known      levels
		late, used bool
		want       verdict
	}{
		{"all members know alarms", levels{2: alarmLevel, 3: alarmLevel}, false, false, accepted},
		{"one has not said so yet", levels{2: alarmLevel}, false, false, notNow},
		{"one has not said so for long", levels{2: alarmLevel}, true, false, alarmsUnknown},
		{"one is of an earlier version", levels{2: alarmLevel, 3: usersLevel}, true, false, alarmsUnknown},
		{"there were alarms before", levels{2: alarmLevel}, true, true, accepted},
	} {
		r.levels, r.alarmsUsed, r.leadership.since = tt.known, tt.used, r.now
		if tt.late {
			r.leadership.since = r.now.Add(-r.cfg.electionTimeout())
		}
		last := r.last
		if got := r.admit(r.term, entry, requests); got != tt.want || (got == accepted) != (r.last == last+1) {
			t.Errorf("%s: got verdict %v, want %v; the log ends at %d, %d before", tt.name, got, tt.want, r.last, last)
		}
	}
	if alarmsUnknown.err() != errAlarmsUnknown {
		t.Errorf("the reason is %v", alarmsUnknown.err())
	}
	if r.admit(r.term-1, entry, requests) != notNow {
		t.Error("an alarm for another term is taken")
	}
	fresh := NewApplier(1, 7)
	if in, _ := fresh.Take(); in.AlarmsUsed {
		t.Error("there were alarms, says a state without any")
	}
	judge(t, fresh, auth.Caller{}, raise(1, pb.AlarmType_NOSPACE))
	if in, _ := fresh.Take(); !in.AlarmsUsed || in.UsersUsed {
		t.Errorf("of a state with an alarm and no users it is told that there were alarms: %v, and users: %v", in.AlarmsUsed, in.UsersUsed)
	}
	r.alarmsUsed = false
	r.onApplied(Applied{AlarmsUsed: fresh.Restored().AlarmsUsed})
	if !r.alarmsUsed {
		t.Error("a leader does not learn that there are alarms")
	}
	change, put := requests[0], Propose{Body: putOf(t, "k")}
	l := &lane{open: []Propose{put, put, change, change, put}}
	var sizes []int
	for len(l.open) > 0 {
		sizes = append(sizes, len(l.next(1<<20)))
	}
	if len(sizes) != 4 || sizes[0] != 2 {
		t.Errorf("two puts, two alarms and a put make batches of %v, want of 2, 1, 1 and 1", sizes)
	}
}
