package flease

import (
	"encoding/hex"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// These bytes are in messages and in files of other versions.
func TestBytesOfCodecs(t *testing.T) {
	value := Value{
		{Token: 1<<63 | 5, Until: 1000, Owner: 2, Incarnation: 1 << 31, Slots: 1, Holder: "holder"},
		{Released: true, Token: 7, Until: 300, Owner: 300, Incarnation: 1, Slots: Shared, Delay: 500, Heir: 9},
	}
	view := View{Epoch: 3, Members: []machine.NodeID{1, 2, 300}, Places: 1<<63 | 1}
	batch := Batch{
		Incarnation: 1<<31 | 1, Epoch: 300, Digest: 0xfedcba98,
		View: &ViewNews{Active: true, View: view},
		Ops: []Op{
			{Kind: Read, Ref: 300, Ballot: 1 << 60, Name: "name"},
			{Kind: Read + 1, Ref: 1, Ballot: 2, Written: 3, Value: value, Ticket: 4, Slots: 5, Waiting: 200,
				Queue: []Waiter{{Ticket: 1 << 62, Slots: 200}, {Ticket: 1, Slots: 1}}},
		},
	}
	record := Record{Floor: -5, Highest: 1 << 50, Cells: []CellRecord{{Name: "a", Promised: 9, Written: 8, Value: value}, {Name: "b", Promised: 1}}}
	silent := Record{Floor: 5, Silent: true}
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var w wire.Writer
	view.encode(&w)
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"a batch":         {must(batch.MarshalBinary()), "010101000080ac0298badcfe020303030102ac020100000000000080020101ac020000000000000010046e616d65027e010200000000000000030000000000000002000500000000000080e80702000000800106686f6c646572070700000000000000ac02ac0201000000ffffffff07f4030900040000000000000005020000000000000040c801010000000000000001c801"},
		"an empty batch":  {must((&Batch{Incarnation: 1}).MarshalBinary()), "010001000000000000000000"},
		"a record":        {must(record.MarshalBinary()), "01090000000000000400020161090000000000000008000000000000000102000500000000000080e80702000000800106686f6c646572070700000000000000ac02ac0201000000ffffffff07f403090001620100000000000000000000000000000000"},
		"a silent record": {must(silent.MarshalBinary()), "020a000000000000000000"},
		"a view":          {w, "0303030102ac020100000000000080"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s is\n%s, want\n%s", name, got, c.want)
		}
	}
}
