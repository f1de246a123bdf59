package replica

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// holdersAre is a setting by which some members hold all keys.
func holdersAre(t *testing.T, members []machine.NodeID, holders ...int) readSetting {
	t.Helper()
	c, err := placement.New(members, placement.SetOf(holders...), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return readSetting{quorumlease.Static, c}
}

// An entry waits for the holders of its keys by each division that may be in force, and by those of the past that
// promises go by: each once, in order. It waits for everyone if by one of them all members hold all keys, or if the
// divisions are not known. A member holds keys if it does by all divisions that may be in force.
func TestHoldersByEachDivision(t *testing.T) {
	members := []machine.NodeID{1, 2, 3}
	by := func(index uint64, holders ...int) conf { return conf{index, holdersAre(t, members, holders...)} }
	everyone := conf{9, readSetting{policy: quorumlease.AllByKey}}
	for _, tt := range []struct {
		name   string
		confs  []conf
		former []*placement.Configuration
		blind  bool
		want   []machine.NodeID // that an entry waits for
		hold   []machine.NodeID
	}{
		{"one division", []conf{by(9, 1)}, nil, false, []machine.NodeID{2}, []machine.NodeID{2}},
		{"two divisions", []conf{by(9, 1, 2), by(10, 0, 1)}, nil, false, []machine.NodeID{1, 2, 3}, []machine.NodeID{2}},
		{"two divisions with other members", []conf{by(9, 2), {10, holdersAre(t, []machine.NodeID{1, 3}, 0, 1)}}, nil, false, []machine.NodeID{1, 3}, []machine.NodeID{3}},
		{"a division behind none", []conf{everyone, by(10, 0)}, nil, false, nil, []machine.NodeID{1}},
		{"a division before none", []conf{by(9, 0), {10, everyone.setting}}, nil, false, nil, []machine.NodeID{1}},
		{"none", []conf{everyone}, nil, false, nil, []machine.NodeID{1, 2, 3, 4}},
		{"a division, and one of the past", []conf{by(9, 1)}, []*placement.Configuration{by(0, 0, 1).setting.cells}, false, []machine.NodeID{1, 2}, []machine.NodeID{2}},
		{"one division, and what is not known", []conf{by(9, 1)}, nil, true, nil, nil},
		{"none, and what is not known", []conf{everyone}, nil, true, nil, nil},
	} {
		k := &keyReader(9).reads.keys
		k.confs, k.former, k.blind = tt.confs, tt.former, tt.blind
		got := k.holdersOf(key("k"))
		var hold []machine.NodeID
		for id := machine.NodeID(1); id <= 4; id++ {
			if k.holds(id, key("k"), 9) {
				hold = append(hold, id)
			}
		}
		if !slices.Equal(got, tt.want) || (got == nil) != (tt.want == nil) || !slices.Equal(hold, tt.hold) {
			t.Errorf("by %s an entry waits for %d, and members %d hold its key; want %d, %d", tt.name, got, hold, tt.want, tt.hold)
		}
		every := !tt.blind && !slices.ContainsFunc(tt.confs, func(c conf) bool { return c.setting.cells != nil })
		if k.everywhere() != every {
			t.Errorf("by %s each holder holds all keys: %v, want %v", tt.name, k.everywhere(), every)
		}
		if k.on = false; !k.everywhere() {
			t.Errorf("by %s, in strict order, some holder does not hold all keys", tt.name)
		}
	}
}

// Entries that the same holders may lack, and that the same leader keeps, are judged together.
func TestWhichEntriesAreJudgedTogether(t *testing.T) {
	k := &keyReader(9).reads.keys
	k.confs = []conf{{9, readSetting{quorumlease.Static, division(t)}}} // both hold a, and member 2 x
	entry := func(index, term uint64, from machine.NodeID, kept bool, name string) {
		e := &raftpb.Entry{Index: &index, Term: &term, Data: (&batch{Term: term, From: from, Requests: []Propose{{Body: putOf(t, name)}}}).encode()}
		if kept {
			keep(e.Data)
		}
		k.appended(e)
	}
	entry(10, 2, 1, false, "a")
	entry(11, 2, 1, true, "a")
	entry(12, 2, 3, true, "b")
	entry(13, 2, 3, false, "b")
	entry(14, 3, 1, true, "a")
	entry(15, 2, 1, true, "b")
	entry(16, 2, 2, false, "x")
	var got []string
	for _, m := range k.missed {
		got = append(got, fmt.Sprintf("%d by %d in %d: %d", m.holders, m.by.member, m.by.term, m.entries))
	}
	want := []string{"[1 2] by 0 in 0: [10 13]", "[1 2] by 1 in 2: [11 15]", "[1 2] by 3 in 2: [12]", "[1 2] by 1 in 3: [14]", "[2] by 0 in 0: [16]"}
	if !slices.Equal(got, want) {
		t.Errorf("the entries are judged as %q, want %q", got, want)
	}
}

// A request changes the setting that the log has last, released or not. Readers keep the divisions that they were
// given, whatever replaces them in the log.
func TestADivisionFollowsTheLatest(t *testing.T) {
	body, err := EncodeRequest(wrapperspb.String("quorum/key"))
	if err != nil {
		t.Fatal(err)
	}
	k := &keyReader(9).reads.keys
	k.confs = make([]conf, 0, 8)
	k.confs = append(k.confs, conf{8, readSetting{quorumlease.Static, division(t)}}, conf{9, readSetting{policy: quorumlease.AllByKey}})
	k.appended(entryOf(10, body))
	if got := k.latest(); got.policy != quorumlease.Quorum || got.cells != nil {
		t.Errorf("behind a setting without a division, a policy comes with %+v", got)
	}
	readers := inForce(k.confs, 9)
	was := slices.Clone(readers)
	k.truncated(10, 10)
	cells, err := EncodeRequest(wrapperspb.Bytes(division(t).Encode()))
	if err != nil {
		t.Fatal(err)
	}
	k.appended(entryOf(10, cells))
	if !reflect.DeepEqual(readers, was) {
		t.Errorf("readers were given the settings %+v, and see %+v", was, readers)
	}
	if got := k.latest(); got.policy != quorumlease.Static || got.cells == nil {
		t.Errorf("the latest setting is %+v", got)
	}
}

// The news name fences and entries of keys that are committed and held, each once, up to as many as they may. A
// member that does not know its state names none, and its horizon is what is released.
func TestWhatIsNamedAsHeld(t *testing.T) {
	build := func(puts int) *keyOrder {
		k := &keyReader(9).reads.keys
		for i := range uint64(puts) {
			k.appended(entryOfPuts(t, 2, 10+i, fmt.Sprint(i)))
		}
		return k
	}
	k := build(2)
	k.appended(&raftpb.Entry{Index: new(uint64(12)), Term: new(uint64(2))})
	cells, err := EncodeRequest(wrapperspb.Bytes(division(t).Encode()))
	if err != nil {
		t.Fatal(err)
	}
	k.appended(entryOf(13, cells))
	k.appended(entryOfPuts(t, 2, 14, "a"))
	for commit, want := range map[uint64][]uint64{9: nil, 10: {10}, 11: {10, 11}, 12: {10, 11, 12}, 13: {10, 11, 12, 13}, 14: {10, 11, 12, 13, 14}} {
		if horizon, held := k.held(commit); horizon != commit || !slices.Equal(held, want) {
			t.Errorf("committed up to %d, %d are named up to %d, want %d", commit, held, horizon, want)
		}
	}
	for extra, want := range []uint64{9 + maxHeld, 9 + maxHeld, 9 + maxHeld} {
		horizon, held := build(maxHeld + extra).held(uint64(9 + maxHeld + extra))
		if horizon != want || len(held) != maxHeld {
			t.Errorf("of %d entries that are held, %d are named up to %d, want %d up to %d", maxHeld+extra, len(held), horizon, maxHeld, want)
		}
	}
	k = build(3)
	if k.blind = true; true {
		if horizon, held := k.held(12); horizon != 9 || len(held) > 0 {
			t.Errorf("a member that does not know its state names %d up to %d", held, horizon)
		}
	}
}

// Readers look for each key that an entry of the log changes from when it was appended.
func TestAppendedKeysAreLookedFor(t *testing.T) {
	r := keyReader(9)
	k := &r.reads.keys
	k.appended(entryOfPuts(t, 2, 10, "a", "b"))
	l, ok := r.reads.keyLease(r.moment)
	if !ok {
		t.Fatal("there is no lease")
	}
	for name, want := range map[string]bool{"a": false, "b": false, "c": true} {
		if _, ready := l.Ready(key(name)); ready != want {
			t.Errorf("with an entry that changes a and b, %s may be read without asking: %v, want %v", name, ready, want)
		}
	}
	if _, ready := l.Ready(keyspan.Set{{Key: []byte("c"), End: []byte("d")}}); ready {
		t.Error("with an entry that changes some keys, a range may be read without asking")
	}
}
