package server

import (
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// scripted is a member that knows what a test says.
type scripted struct {
	status  node.Status
	stopped bool
	view    kv.View
	clock   node.ClockReport
	doubted bool
	members []*pb.Member
	unsafe  bool
}

func (m scripted) Unsynced() bool { return m.unsafe }

func (m scripted) ID() uint64                                    { return 1 }
func (m scripted) Members() []*pb.Member                         { return m.members }
func (m scripted) Status() (node.Status, bool)                   { return m.status, !m.stopped }
func (m scripted) Stats() kv.Stats                               { return kv.Stats{Bytes: 1000, History: 300} }
func (m scripted) View() kv.View                                 { return m.view }
func (m scripted) Clock() (node.ClockReport, bool)               { return m.clock, m.doubted }
func (m scripted) RoundTrip(id uint64) time.Duration             { return time.Duration(id) * time.Millisecond }
func (m scripted) ReadCounts() (local, rounds, forwarded uint64) { return 10, 20, 30 }

// The status of a member says how far its log is and its state, whether it has a vote, how large it
// is, and what an operator should know.
func TestStatusOfAMember(t *testing.T) {
	shown := kv.New().View()
	const size, inUse = 1000 + emptySize, 700 + emptySize
	for name, tt := range map[string]struct {
		m    scripted
		want etcdapi.Status
	}{
		"a voter": {
			scripted{status: node.Status{Commit: 12, Applied: 11}, view: shown},
			etcdapi.Status{CommittedIndex: 12, AppliedIndex: 11, Size: size, SizeInUse: inUse},
		},
		"a learner": {
			scripted{status: node.Status{Commit: 12, Applied: 11, Learner: true}, view: shown},
			etcdapi.Status{CommittedIndex: 12, AppliedIndex: 11, IsLearner: true, Size: size, SizeInUse: inUse},
		},
		"one that does not sync": {
			scripted{view: shown, unsafe: true},
			etcdapi.Status{Size: size, SizeInUse: inUse, Errors: []string{"tenure: this member does not sync its disk (--unsafe-no-fsync): a crash of its machine may lose acknowledged writes"}},
		},
		"one whose clock was odd": {
			scripted{view: shown, clock: node.ClockReport{Doubts: 1, Last: "it went back"}},
			etcdapi.Status{Size: size, SizeInUse: inUse},
		},
		"one whose clock is in doubt": {
			scripted{view: shown, clock: node.ClockReport{Doubts: 1, Last: "it went back"}, doubted: true},
			etcdapi.Status{Size: size, SizeInUse: inUse, Errors: []string{
				"tenure: the clock of this machine cannot be trusted, so this member reads by way of the leader: it went back",
			}},
		},
		"one that has nothing to show": {
			scripted{},
			etcdapi.Status{Size: size, SizeInUse: inUse, Errors: []string{"tenure: this member does not know yet which part of its state may be seen"}},
		},
		"one that has stopped": {
			scripted{view: shown, stopped: true},
			etcdapi.Status{Size: size, SizeInUse: inUse, Errors: []string{"tenure: this member is stopping"}},
		},
	} {
		if got := statusOf(tt.m); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: its status is %+v, want %+v", name, got, tt.want)
		}
	}
}

// Beside what the replica knows of read leases a member tells of its clock, of the distance of
// holders, and of where reads were answered.
func TestReadLeasesOfAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cells, err := placement.Parse("default = a; key:k = b", []placement.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}})
		if err != nil {
			t.Fatal(err)
		}
		m := scripted{
			status: node.Status{ReadLeases: node.ReadLeaseStatus{
				Policy: quorumlease.Static, Cells: cells,
				Holdings: []quorumlease.Holding{{Lifetime: quorumlease.Lifetime{Member: 2, Boot: 5}, Has: 6, Grantors: []machine.NodeID{2}}},
			}},
			members: []*pb.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}},
			clock:   node.ClockReport{Pauses: 2, Suspends: 3, Doubts: 4, Last: "odd", At: time.Now()},
		}
		time.Sleep(time.Minute)
		for _, doubted := range []bool{false, true} {
			m.doubted = doubted
			got, err := readLeasesOf(m)
			if err != nil {
				t.Fatal(err)
			}
			clock := &etcdapi.ClockStatus{Doubted: doubted, Doubts: 4, Pauses: 2, Suspends: 3, Last: "odd", Ago: time.Minute}
			if !reflect.DeepEqual(got.Clock, clock) {
				t.Errorf("the clock is said to be %+v, want %+v", got.Clock, clock)
			}
			if got.LocalReads != 10 || got.RoundReads != 20 || got.ForwardedReads != 30 {
				t.Errorf("%d local reads, %d by rounds, %d forwarded; want 10, 20 and 30", got.LocalReads, got.RoundReads, got.ForwardedReads)
			}
			if len(got.Holders) != 1 || got.Holders[0].RoundTrip != 2*time.Millisecond || !got.Holders[0].Partial || len(got.Holders[0].Keys) != 1 {
				t.Errorf("holders %+v, want one at a distance of 2 ms that holds one key", got.Holders)
			}
			if parts := got.Cells(); !slices.Equal(parts, []string{"key:k=b", "default=a"}) {
				t.Errorf("cells %q, want those of the configuration by the names of the members", parts)
			}
		}
		m.clock = node.ClockReport{}
		if got, err := readLeasesOf(m); err != nil || got.Clock != nil {
			t.Errorf("a clock that was never odd: %+v, %v, want nothing told", got.Clock, err)
		}
	})
}
