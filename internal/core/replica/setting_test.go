package replica

import (
	"errors"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// division says that members 1 and 2 hold keys below "m" and member 2 all others.
func division(t *testing.T) *placement.Configuration {
	t.Helper()
	c, err := placement.New([]machine.NodeID{1, 2}, 3, []placement.Cell{{Key: []byte("m"), End: []byte{0}, Holders: 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A policy and a division of the keys go together, and a request that makes no sense changes
// neither.
func TestASettingAfterItsRequests(t *testing.T) {
	cells := division(t)
	put := &pb.PutRequest{Key: []byte("k")}
	for _, c := range []struct {
		name     string
		before   readSetting
		requests []proto.Message
		policy   quorumlease.Policy
		divided  bool
		ok       bool
	}{
		{"a policy", readSetting{}, []proto.Message{wrapperspb.String("all")}, quorumlease.All, false, true},
		{"a division", readSetting{}, []proto.Message{wrapperspb.Bytes(cells.Encode())}, quorumlease.Static, true, true},
		{"a division of those who plan", readSetting{policy: quorumlease.Cost}, []proto.Message{wrapperspb.Bytes(cells.Encode())}, quorumlease.Cost, true, true},
		{"a policy that has a division", readSetting{quorumlease.Static, cells}, []proto.Message{wrapperspb.String("quorum/key")}, quorumlease.Quorum, true, true},
		{"a policy that has none", readSetting{quorumlease.Static, cells}, []proto.Message{wrapperspb.String("all/key")}, quorumlease.AllByKey, false, true},
		{"both, behind a put", readSetting{}, []proto.Message{put, wrapperspb.Bytes(cells.Encode()), wrapperspb.String("cost/key")}, quorumlease.Cost, true, true},
		{"the last counts", readSetting{}, []proto.Message{wrapperspb.String("all"), wrapperspb.String("off")}, quorumlease.Off, false, true},
		{"neither", readSetting{quorumlease.Static, cells}, []proto.Message{put}, quorumlease.Static, true, false},
		{"no such policy", readSetting{quorumlease.Static, cells}, []proto.Message{wrapperspb.String("some")}, quorumlease.Static, true, false},
		{"no division", readSetting{quorumlease.Static, cells}, []proto.Message{wrapperspb.Bytes([]byte{200})}, quorumlease.Static, true, false},
		{"one that counts and one that does not", readSetting{}, []proto.Message{wrapperspb.String("all"), wrapperspb.String("some")}, quorumlease.All, false, true},
	} {
		b := &batch{Term: 1, From: 1}
		for _, m := range c.requests {
			body, err := EncodeRequest(m)
			if err != nil {
				t.Fatal(err)
			}
			b.Requests = append(b.Requests, Propose{Body: body})
		}
		got, ok := c.before.after(b)
		if got.policy != c.policy || got.cells != nil != c.divided || c.divided && !got.cells.Equal(cells) || ok != c.ok {
			t.Errorf("%s: %q, divided %v, changed %v; want %q, %v, %v", c.name, got.policy, got.cells, ok, c.policy, c.divided, c.ok)
		}
	}
}

// A setting is part of the state's snapshots. An unreadable setting is an error.
func TestASettingSurvives(t *testing.T) {
	for _, s := range []readSetting{{}, {policy: quorumlease.AllByKey}, {quorumlease.Static, division(t)}, {quorumlease.Cost, division(t)}} {
		got, err := decodeSetting(string(s.policy), s.encodeCells())
		if err != nil || got.policy != s.policy || (got.cells == nil) != (s.cells == nil) || s.cells != nil && !got.cells.Equal(s.cells) {
			t.Errorf("%+v comes back as %+v, %v", s, got, err)
		}
	}
	if _, err := decodeSetting("some", nil); !errors.Is(err, quorumlease.ErrPolicy) {
		t.Errorf("no such policy: %v", err)
	}
	if _, err := decodeSetting("static/key", []byte{200}); err == nil {
		t.Error("a division that cannot be read is taken for none")
	}
}

// A member holds some of the keys if one of their cells is its own, even if it is the first holder of
// the division. Without a division it holds all keys.
func TestWhoHoldsAnyOfSomeKeys(t *testing.T) {
	below, above := keyspan.Set{{Key: []byte("a")}}, keyspan.Set{{Key: []byte("x")}}
	both := keyspan.Set{{Key: []byte("x")}, {Key: []byte("a"), End: []byte("b")}}
	s := readSetting{quorumlease.Static, division(t)}
	for _, c := range []struct {
		id                 machine.NodeID
		below, above, both bool
	}{{1, true, false, true}, {2, true, true, true}, {3, false, false, false}} {
		if s.holdsAny(c.id, below) != c.below || s.holdsAny(c.id, above) != c.above || s.holdsAny(c.id, both) != c.both || s.holdsAny(c.id, nil) {
			t.Errorf("member %d holds %v: %v, %v: %v, %v: %v", c.id, below, s.holdsAny(c.id, below), above, s.holdsAny(c.id, above), both, s.holdsAny(c.id, both))
		}
		if across := (keyspan.Set{{Key: []byte("a"), End: []byte("z")}}); s.holdsAny(c.id, across) != c.below {
			t.Errorf("member %d holds any of %v: %v", c.id, across, !c.below)
		}
		for _, policy := range quorumlease.Policies {
			if !(readSetting{policy: policy}).holdsAny(c.id, above) {
				t.Errorf("%s: member %d does not hold a key, and nobody says so", policy, c.id)
			}
		}
	}
}

// An entry may take keys from a holder if any of its requests divides keys or sets a policy of key
// order. It counts as one of a policy if any of its requests divides keys or sets any policy.
func TestEntriesThatSet(t *testing.T) {
	put := &pb.PutRequest{Key: []byte("k"), Value: []byte("off/key")}
	for _, c := range []struct {
		name          string
		requests      []proto.Message
		reads, policy bool
	}{
		{"a put", []proto.Message{put}, false, false},
		{"a division", []proto.Message{wrapperspb.Bytes(division(t).Encode())}, true, true},
		{"a policy of key order", []proto.Message{wrapperspb.String("all/key")}, true, true},
		{"a policy of strict order", []proto.Message{wrapperspb.String("all")}, false, true},
		{"a division behind a put", []proto.Message{put, wrapperspb.Bytes(division(t).Encode())}, true, true},
		{"a policy of strict order before a put", []proto.Message{wrapperspb.String("off"), put}, false, true},
		{"a division before a put", []proto.Message{wrapperspb.Bytes(division(t).Encode()), put}, true, true},
		{"policies around a put", []proto.Message{wrapperspb.String("leader/key"), put, wrapperspb.String("off")}, true, true},
	} {
		b := &batch{Term: 1, From: 2, Boot: 300, Seq: 4}
		for i, m := range c.requests {
			body, err := EncodeRequest(m)
			if err != nil {
				t.Fatal(err)
			}
			b.Requests = append(b.Requests, Propose{ID: uint64(i), Body: body})
		}
		e := &raftpb.Entry{Data: b.encode()}
		if setsReads(e) != c.reads || setsPolicy(e) != c.policy {
			t.Errorf("%s: it divides %v, of a policy %v; want %v, %v", c.name, setsReads(e), setsPolicy(e), c.reads, c.policy)
		}
		for _, kept := range []bool{false, true} {
			seen := 0
			if from, got := glance(e, func([]byte) { seen++ }); from != 2 || got != kept || seen != len(c.requests) {
				t.Errorf("%s: %d of %d requests from %d, kept: %v", c.name, seen, len(c.requests), from, got)
			}
			keep(e.Data)
		}
	}
	if from, kept := glance(&raftpb.Entry{Data: []byte{keptVersion + 1, 1, 2}}, func([]byte) { t.Error("a request") }); from != 0 || kept {
		t.Errorf("an entry of another version is from %d, kept: %v", from, kept)
	}
}

// The requests of an incomplete entry are examined as far as they can be read. A request without a
// body is skipped.
func TestEntriesAreLookedAtAsFarAsTheyGo(t *testing.T) {
	body := putOf(t, "k")
	b := &batch{Term: 1, From: 2, Boot: 3, Seq: 4, Requests: []Propose{{ID: 1, Body: body}, {ID: 2}, {ID: 3, Body: body}}}
	whole := b.encode()
	size := len(body) + 2
	behind := (&batch{Requests: []Propose{{ID: 9, Body: body}}}).encode()
	seen := 0
	glance(&raftpb.Entry{Data: append(whole[:len(whole):len(whole)], behind[6:]...)}, func([]byte) { seen++ })
	if seen != 2 {
		t.Errorf("%d requests are looked at, want the 2 that an entry says it has, and nothing behind them", seen)
	}
	for cut, want := range map[int]int{0: 2, 1: 1, size - 1: 1, size: 1, size + 1: 1, size + 2: 1, size + 3: 0} {
		seen := 0
		from, _ := glance(&raftpb.Entry{Data: whole[:len(whole)-cut]}, func(got []byte) {
			if seen++; string(got) != string(body) {
				t.Errorf("%d bytes short: a request of %x, want one of %x", cut, got, body)
			}
		})
		if from != 2 || seen != want {
			t.Errorf("%d bytes short: %d requests from %d are looked at, want %d from 2", cut, seen, from, want)
		}
	}
}

// An unreadable or empty request sets nothing.
func TestBrokenRequestsSetNothing(t *testing.T) {
	for name, body := range map[string][]byte{"no body": nil, "a broken policy": {kindReadPolicy, 0xff}, "a broken division": {kindReadCells, 0xff}} {
		before := readSetting{quorumlease.Static, division(t)}
		got, ok := before.after(&batch{Term: 1, From: 1, Requests: []Propose{{Body: body}}})
		if ok || got != before {
			t.Errorf("%s: %q is set, changed: %v", name, got.policy, ok)
		}
	}
}
