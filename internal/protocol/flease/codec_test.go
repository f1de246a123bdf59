package flease

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

func fullBatch() *Batch {
	v := Value{
		{Token: 77, Until: 500, Holder: "web-1", Incarnation: 9, Delay: 40, Slots: Shared, Owner: 3, Heir: 7, Released: true},
		{Token: 78, Until: 501, Holder: "", Incarnation: 1, Slots: 1, Owner: MaxMember},
	}
	return &Batch{
		Incarnation: 5, Epoch: 2, Digest: 0xdeadbeef,
		View: &ViewNews{View: View{Epoch: 3, Members: []machine.NodeID{1, 2, 900}, Replicas: 2}, Closed: true},
		Ops: []Op{
			{Kind: Read, Ref: 1 << 31, Ballot: BallotOf(12345, 6, 3), Name: "shard/7"},
			{Kind: AckRead, Ballot: 5, Written: 4, Value: v, Queue: []Waiter{{Ticket: 9, Slots: 1}, {Ticket: 10, Slots: Shared}}, Waiting: 300},
			{Kind: Write, Ballot: 5, Name: "x", Value: Value{}, Ticket: 8},
			{Kind: Peek, Name: "y", Ballot: 1, Ticket: 8, Slots: 2},
			{Kind: WrongView},
		},
	}
}

func TestBatchSurvivesTheWire(t *testing.T) {
	want := fullBatch()
	data, err := want.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var got Batch
	if err := got.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got, want) {
		t.Errorf("got  %+v\nwant %+v", &got, want)
	}
	for i := range want.Ops {
		o, w := &want.Ops[i], wire.Writer(nil)
		if o.encode(&w); len(w) > o.size()+40 {
			t.Errorf("an operation of %d bytes says that it has %d", len(w), o.size())
		}
	}
	for n := range data {
		if err := got.UnmarshalBinary(data[:n]); !errors.Is(err, errBatch) {
			t.Fatalf("the first %d bytes of %d decode: %v", n, len(data), err)
		}
		if got.Incarnation != 0 || got.View != nil || len(got.Ops) > 0 {
			t.Fatalf("of %d bytes of %d that do not decode a part stays: %+v", n, len(data), got)
		}
	}
	if _, err := (&Batch{Ops: make([]Op, maxOps+1)}).MarshalBinary(); !errors.Is(err, errBatch) {
		t.Errorf("a batch of too many operations: %v", err)
	}
	if err := got.UnmarshalBinary(make([]byte, MaxBatch+1)); !errors.Is(err, errBatch) || !strings.Contains(err.Error(), fmt.Sprint(MaxBatch)) {
		t.Errorf("a batch of too many bytes: %v", err)
	}
}

// A batch that decodes encodes to bytes that decode to the same. Nothing panics, and
// nothing takes more memory than the input.
func FuzzBatch(f *testing.F) {
	data, err := fullBatch().MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{batchVersion, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, data []byte) {
		var b, again Batch
		if b.UnmarshalBinary(data) != nil {
			return
		}
		out, err := b.MarshalBinary()
		if err != nil {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
		if err := again.UnmarshalBinary(out); err != nil || len(again.Ops) != len(b.Ops) {
			t.Fatalf("what was encoded anew does not decode: %v", err)
		}
	})
}

func TestRecordSurvives(t *testing.T) {
	want := &Record{Floor: -5, Highest: 99, Cells: []CellRecord{
		{Name: "a", Promised: 4, Written: 3, Value: fullBatch().Ops[1].Value},
		{Name: "b", Promised: 9},
	}, Silent: true}
	data, err := want.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var got Record
	if err := got.UnmarshalBinary(data); err != nil || !reflect.DeepEqual(&got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for n := range data {
		if err := new(Record).UnmarshalBinary(data[:n]); !errors.Is(err, errRecord) {
			t.Fatalf("the first %d bytes of %d decode: %v", n, len(data), err)
		}
	}
	if err := new(Record).UnmarshalBinary(append(bytes.Clone(data), 0)); !errors.Is(err, errRecord) {
		t.Errorf("a record with a byte too many: %v", err)
	}
}

// Each of what a record says is kept apart: whether its peer was silent, and of a register whether it was
// ever written and what it has.
func TestRecordsOfAllKinds(t *testing.T) {
	value := fullBatch().Ops[1].Value
	for _, want := range []*Record{
		{}, {Silent: true}, {Floor: 1 << 40, Highest: 1<<63 + 5},
		{Cells: []CellRecord{{Name: "a", Written: 7}, {Name: "b", Promised: 7, Value: Value{}}, {Name: strings.Repeat("c", maxName), Value: value}}},
	} {
		data, err := want.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var got Record
		if err := got.UnmarshalBinary(data); err != nil || !reflect.DeepEqual(&got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		for _, version := range []byte{0, 3, 255} {
			if err := new(Record).UnmarshalBinary(append([]byte{version}, data[1:]...)); !errors.Is(err, errRecord) || !strings.Contains(err.Error(), fmt.Sprint("version ", version)) {
				t.Errorf("a record of version %d: %v", version, err)
			}
		}
	}
	long := &Record{Cells: []CellRecord{{Name: strings.Repeat("x", maxName+1)}}}
	data, err := long.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := new(Record).UnmarshalBinary(data); !errors.Is(err, errRecord) {
		t.Errorf("a record with a name of %d bytes: %v", maxName+1, err)
	}
}

// Peers of two versions understand each other: a message that was ever sent keeps its form
// and its bounds.
func TestWhatIsSentStaysAsItIs(t *testing.T) {
	for want, kind := range map[Kind]Kind{
		1: Read, 2: Write, 3: AckRead, 4: NackRead, 5: AckWrite, 6: NackWrite, 7: Skewed, 8: Peek, 9: Peeked, 10: Learn, 11: Quit, 12: WrongView,
	} {
		if kind != want {
			t.Errorf("the kind that was always %d is %d", want, kind)
		}
	}
	for _, limit := range []struct {
		what      string
		got, want int
	}{
		{"MaxName", maxName, 512}, {"MaxHolder", maxHolder, 512}, {"MaxHoldings", MaxHoldings, 64}, {"Shared", Shared, 1<<31 - 1},
		{"MaxOps", maxOps, 8192}, {"MaxBatch", MaxBatch, 4 << 20}, {"maxQueue", maxQueue, 16},
	} {
		if limit.got != limit.want {
			t.Errorf("%s is %d, and was always %d: batches of other peers would be refused, or ours", limit.what, limit.got, limit.want)
		}
	}
	batch, err := fullBatch().MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	record, err := (&Record{Floor: -5, Highest: 99, Cells: []CellRecord{{Name: "a", Promised: 4, Written: 3, Value: fullBatch().Ops[1].Value}}}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, got, want string }{
		{"a batch", fmt.Sprintf("%x", batch), "01010500000002efbeadde0103020301028407000000000000000005010180808080080318801c180000000773686172642f370366000500000000000000040000000000000002074d00000000000000f4030309000000ffffffff072807057765622d31004e00000000000000f503ff07010000000100020900000000000000010a00000000000000ffffffff07ac02020d0005000000000000000178000800000000000000081900010000000000000001790800000000000000020c00000000000000000000"},
		{"a record", fmt.Sprintf("%x", record), "01096300000000000000010161040000000000000003000000000000000102074d00000000000000f4030309000000ffffffff072807057765622d31004e00000000000000f503ff07010000000100"},
	} {
		if c.got != c.want {
			t.Errorf("%s is\n%s, and was always\n%s", c.what, c.got, c.want)
		}
	}
}

func TestNamesOfAlarms(t *testing.T) {
	for want, kind := range map[string]AlarmKind{"skew": Skew, "jump": Jump, "disagreement": Disagreement, "late": Late, "gap": Gap} {
		if got := kind.String(); got != want {
			t.Errorf("alarm %d is called %q, want %q", kind, got, want)
		}
	}
}
