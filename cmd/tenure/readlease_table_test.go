package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// TestReadLeasesOfManyWords puts together what members say that do not agree.
func TestReadLeasesOfManyWords(t *testing.T) {
	member := func(id uint64) *readleasepb.Member { return &readleasepb.Member{Id: id} }
	ranges := make([]*readleasepb.KeyRange, 3)
	roster := []readLeaseMember{{ID: "a", Name: "a"}, {ID: "b", Name: "b"}, {ID: "c"}, {ID: "d", Name: "d", Learner: true}}
	for _, tt := range []struct {
		name    string
		answers []*readleasepb.GetResponse // of a, b, c, d
		want    []string                   // lines, with single spaces
	}{
		{"two believe to lead; the later does", []*readleasepb.GetResponse{
			{MemberId: 0xa, Leader: member(0xa), Term: 4, Policy: "leader", Order: "strict", ReleasedIndex: 90},
			{MemberId: 0xb, Leader: member(0xb), Term: 5, Policy: "all", Order: "strict", ReleasedIndex: 80},
		}, []string{
			"policy all, strict order, leader b, term 5", "released up to 80; nothing is held up",
			"a follower - - - - 0 - 0 0", "b leader - - - - 0 - 0 0", "c ? - ? - - ? ? ? ?",
			"read leases: policy all, strict order, held by nobody at this time",
		}},
		{"one believes to lead, and the others know better", []*readleasepb.GetResponse{
			{MemberId: 0xa, Leader: member(0xa), Term: 4, Policy: "leader", Order: "strict", ReleasedIndex: 90},
			{MemberId: 0xb, Leader: member(0xc), Term: 5, Policy: "all", Order: "strict", ReleasedIndex: 80},
		}, []string{
			"policy all, strict order, leader unknown, term 5",
			"released up to 80 at least; only the leader knows the waiting writes and their holders, and it did not answer, or there is none",
			"a follower - - - - 0 - 0 0", "b follower - - - - 0 - 0 0",
		}},
		{"no leader", []*readleasepb.GetResponse{
			{MemberId: 0xa, Term: 5, Policy: "all", Order: "strict", ReleasedIndex: 80},
			{MemberId: 0xb, Term: 5, Policy: "all", Order: "strict", ReleasedIndex: 81},
		}, []string{
			"policy all, strict order, leader unknown, term 5",
			"released up to 81 at least; only the leader knows the waiting writes and their holders, and it did not answer, or there is none",
		}},
		{"ranges, a stalled holder, and a grantor that has forgotten whom it is bound to", []*readleasepb.GetResponse{
			{
				MemberId: 0xa, Leader: member(0xa), Term: 5, Policy: "quorum", Order: "key", ReleasedIndex: 80, CommittedIndex: 81,
				HeldUp: &readleasepb.HeldUp{Entries: 1, Waiting: durationpb.New(1500 * time.Microsecond)}, Stalled: []uint64{0xb},
				LeaseLeft: durationpb.New(time.Hour),
				Holders: []*readleasepb.Holder{
					{Member: member(0xa), Active: true},
					{Member: member(0xb), Active: true, HasIndex: 70, Keys: ranges[:1], Grantors: []uint64{0xa, 0xb, 0xc}},
					{Member: member(0xc), Active: true, HasIndex: 80, Keys: ranges, Grantors: []uint64{0xa}},
				},
			},
			{
				MemberId: 0xb, Leader: member(0xa), Term: 5, LeaseLeft: durationpb.New(20 * time.Millisecond),
				Holders: []*readleasepb.Holder{{Member: member(0xb), Active: true, Keys: ranges[:1]}, {Member: member(0xc), Grantors: []uint64{0xb, 0xc}}},
			},
			nil,
			{MemberId: 0xd, Leader: member(0xa), Term: 5, Reads: &readleasepb.Reads{Local: 1, Forwarded: 2}},
		}, []string{
			"released up to 80 of 81: 1 entry held up, for 2ms by now, by members that have yet to report",
			"a leader all keys no end - - 0 - 0 0", "b follower 1 range 20ms a,c 70 0 - 0 0 stalled: not renewed until it has caught up",
			"c ? 3 ranges ? a,b 80 ? ? ? ?", "d learner - - - - 3 33.3 % 0 2",
			"read leases: policy quorum, key order, held by a, b (1 range), c (3 ranges); 1 entry held up, for 2ms by now, by members that have yet to report",
		}},
		{"clocks", []*readleasepb.GetResponse{
			{MemberId: 0xa, Leader: member(0xa), Term: 5, Clock: &readleasepb.Clock{Doubted: true, Last: "it runs wild"}},
			{MemberId: 0xb, Leader: member(0xa), Term: 5, Clock: &readleasepb.Clock{Last: "it stood still", LastAgo: durationpb.New(90 * time.Second)}},
		}, []string{
			"a leader - - - - 0 - 0 0 no lease, for its clock cannot be trusted: it runs wild",
			"b follower - - - - 0 - 0 0 1m30s ago it stood still",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &readLeases{Members: append([]readLeaseMember(nil), roster...)}
			s.fill(tt.answers)
			var text strings.Builder
			s.table(&text)
			text.WriteString(s.summary() + "\n")
			got := map[string]bool{}
			for line := range strings.Lines(text.String()) {
				got[strings.Join(strings.Fields(line), " ")] = true
			}
			for _, want := range tt.want {
				if !got[want] {
					t.Errorf("no line %q in\n%s", want, text.String())
				}
			}
		})
	}
}

// Buckets are told by how many of them a set of members holds, the greatest share first.
func TestHoldersAreCounted(t *testing.T) {
	got := countHolders([]string{"hash:0/8=b", "hash:1/8=a,b", "hash:2/8=a,b", "hash:3/8=a,b", "hash:4/8=a", "hash:5/8=c", "hash:6/8=c"})
	want := []bucketHolders{{"a,b", 3}, {"c", 2}, {"a", 1}, {"b", 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A member that is bound to another is listed once and in order, however many report it.
func TestGrantorsAreToldOnce(t *testing.T) {
	member := &readleasepb.Member{Id: 0xa}
	answers := []*readleasepb.GetResponse{
		{MemberId: 4, Holders: []*readleasepb.Holder{{Member: member, Boot: 2, Grantors: []uint64{9, 4, 2}}}},
		{MemberId: 3, Holders: []*readleasepb.Holder{{Member: member, Boot: 2, Grantors: []uint64{3, 9}}, {Member: member, Boot: 1, Grantors: []uint64{3}}}},
		{MemberId: 2, Holders: []*readleasepb.Holder{{Member: member, Boot: 1, Grantors: []uint64{2}}}},
	}
	if got := grantors(readLeaseMember{ID: "a", Boot: 2}, answers, answers[0]); !slices.Equal(got, []uint64{3, 4, 9}) {
		t.Errorf("bound to it are %v, want 3, 4 and 9, which does not answer", got)
	}
}

// A policy has the order that is asked for, or else that of its name, if it can have it.
func TestPoliciesAndTheirOrders(t *testing.T) {
	for words, want := range map[string]string{
		"off": "off", "leader": "leader", "all": "all", "leader/key": "leader/key", "all/key": "all/key", "static/key": "static/key", "quorum/key": "quorum/key", "cost/key": "cost/key",
		"off strict": "off", "leader strict": "leader", "all strict": "all",
		"leader key": "leader/key", "all key": "all/key", "static key": "static/key", "quorum key": "quorum/key", "cost key": "cost/key",
		"leader/key key": "leader/key", "cost/key key": "cost/key",
		"off key": "!the policy off has no order", "leader/key strict": "!the policy leader/key is in key order, not strict", "cost/key strict": "!the policy cost/key is in key order, not strict",
		"static": "!the policy static divides the keys among members, which takes order key", "cost strict": "!the policy cost divides the keys among members, which takes order key",
		"odd": `!quorumlease: no such policy of read leases: "odd"`, "odd key": `!quorumlease: no such policy of read leases: "odd"`, "odd strict": `!quorumlease: no such policy of read leases: "odd"`,
		"all loose": `!order "loose": want strict or key`, "odd loose": `!order "loose": want strict or key`,
	} {
		name, order, _ := strings.Cut(words, " ")
		got, err := readLeasePolicy(name, order)
		if says, fails := strings.CutPrefix(want, "!"); fails != (err != nil) || fails && !strings.HasPrefix(err.Error(), says) || !fails && string(got) != want {
			t.Errorf("the policy %s in the order %q is %q, %v; want %s", name, order, got, err, want)
		}
	}
}

// A change that was refused has not been made; after any other failure its outcome is unknown.
func TestUndecidedChanges(t *testing.T) {
	for code, known := range map[codes.Code]bool{
		codes.InvalidArgument: true, codes.PermissionDenied: true, codes.Unimplemented: true,
		codes.Unavailable: false, codes.DeadlineExceeded: false, codes.Unknown: false,
	} {
		err := undecided(status.Error(code, "odd"))
		if status.Code(err) != code || strings.Contains(err.Error(), "is not known") == known {
			t.Errorf("%v: got %v, want it known: %v", code, err, known)
		}
	}
}

// Each column of a member shows its subject, in one line.
func TestColumnsOfAMember(t *testing.T) {
	for _, tt := range []struct {
		m    readLeaseMember
		want string // role, remaining time, trouble
	}{
		{readLeaseMember{Leader: true, Learner: true}, "leader|?|"},
		{readLeaseMember{Learner: true}, "learner|?|"},
		{readLeaseMember{Reads: &reads{}}, "follower|-|"},
		{readLeaseMember{Reads: &reads{}, left: 2 * quorumlease.MaxTTL}, "follower|20s|"},
		{readLeaseMember{Reads: &reads{}, left: 2*quorumlease.MaxTTL + 1}, "follower|no end|"},
		{readLeaseMember{Error: "no\nanswer", Stalled: true, Clock: &memberClock{Doubted: true, Last: "wild"}}, "?|?|no answer"},
		{readLeaseMember{Stalled: true, Clock: &memberClock{Doubted: true, Last: "wild"}}, "?|?|stalled: not renewed until it has caught up"},
		{readLeaseMember{Clock: &memberClock{Last: "slow", AgoMS: 1999}}, "?|?|2s ago slow"},
	} {
		if got := tt.m.role() + "|" + tt.m.leftText() + "|" + tt.m.trouble(); got != tt.want {
			t.Errorf("%+v is %s, want %s", tt.m, got, tt.want)
		}
	}
	for want, h := range map[string]*readleasepb.Holder{
		"all keys": {}, "some keys": {Partial: true}, "1 range": {Partial: true, Keys: make([]*readleasepb.KeyRange, 1)}, "2 ranges": {Keys: make([]*readleasepb.KeyRange, 2)},
	} {
		if got := holding(h); got != want {
			t.Errorf("a holder of %s is told as one of %s", want, got)
		}
	}
	if got, want := (&reads{Local: 1, Rounds: 2, Forwarded: 5}).cells(), "8\t12.5 %"; got != want {
		t.Errorf("the reads are %q, want %q", got, want)
	}
	if got, want := (&heldUp{Entries: 2, WaitingMS: 1.4, By: []string{"a", "b"}}).String(), "2 entries held up, for 1ms by now, by a, b"; got != want {
		t.Errorf("held up is %q, want %q", got, want)
	}
	if got, want := (&heldUp{}).String(), "0 entries held up, for 0s by now, by members that have yet to report"; got != want {
		t.Errorf("nothing held up is %q, want %q", got, want)
	}
	var text strings.Builder
	(&readLeases{Members: []readLeaseMember{{ID: "a", Has: 1, Reads: &reads{Rounds: 2, Forwarded: 5}}}}).table(&text)
	if got, want := strings.Join(strings.Fields(strings.Split(text.String(), "\n")[4]), " "), "a follower - - - 1 7 0.0 % 2 5"; got != want {
		t.Errorf("the member's line is %q, want %q", got, want)
	}
}

// Of the holders of keys as many are shown as fit, with how many more there are.
func TestSomeHoldersOfKeys(t *testing.T) {
	cells := func(keys int, sets ...int) (list []string) {
		for i := range keys {
			list = append(list, fmt.Sprintf("key:%d=a", i))
		}
		for set, buckets := range sets {
			for range buckets {
				list = append(list, fmt.Sprintf("hash:0/64=%c", 'a'+set))
			}
		}
		return append(list, "default=z")
	}
	for name, tt := range map[string]struct {
		cells []string
		want  string
	}{
		"none":           {nil, ""},
		"the default":    {cells(0), "holders of keys:|default=z"},
		"just as many":   {cells(8), "holders of keys:|key:0=a|key:1=a|key:2=a|key:3=a|key:4=a|key:5=a|key:6=a|key:7=a|default=z"},
		"some keys more": {cells(10), "holders of keys:|key:0=a|key:1=a|key:2=a|key:3=a|key:4=a|key:5=a|key:6=a|key:7=a|default=z|and 2 more: tenure read-lease --cells shows all"},
		"buckets":        {cells(1, 3, 5), "holders of keys:|key:0=a|5 hash buckets=b|3 hash buckets=a|default=z|tenure read-lease --cells shows all buckets"},
		"many of all":    {cells(9, 9, 8, 7, 6, 5, 4, 3, 2, 2, 1), "holders of keys:|key:0=a|key:1=a|key:2=a|key:3=a|key:4=a|key:5=a|key:6=a|key:7=a|9 hash buckets=a|8 hash buckets=b|7 hash buckets=c|6 hash buckets=d|5 hash buckets=e|4 hash buckets=f|3 hash buckets=g|2 hash buckets=h|default=z|and 4 more: tenure read-lease --cells shows all"},
	} {
		var text strings.Builder
		(&readLeases{Cells: tt.cells}).someCells(&text)
		var lines []string
		for line := range strings.Lines(text.String()) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		if got := strings.Join(lines, "|"); got != tt.want {
			t.Errorf("%s: shown is %s\nwant %s", name, got, tt.want)
		}
	}
}
