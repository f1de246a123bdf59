package flease

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/machine"
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
		if o := &want.Ops[i]; len(o.append(nil)) > o.size()+40 {
			t.Errorf("an operation of %d bytes says that it has %d", len(o.append(nil)), o.size())
		}
	}
	for n := range data {
		if err := got.UnmarshalBinary(data[:n]); !errors.Is(err, ErrBatch) {
			t.Fatalf("the first %d bytes of %d decode: %v", n, len(data), err)
		}
		if got.Incarnation != 0 || got.View != nil || len(got.Ops) > 0 {
			t.Fatalf("of %d bytes of %d that do not decode a part stays: %+v", n, len(data), got)
		}
	}
	if _, err := (&Batch{Ops: make([]Op, MaxOps+1)}).MarshalBinary(); !errors.Is(err, ErrBatch) {
		t.Errorf("a batch of too many operations: %v", err)
	}
	if err := got.UnmarshalBinary(make([]byte, MaxBatch+1)); !errors.Is(err, ErrBatch) || !strings.Contains(err.Error(), fmt.Sprint(MaxBatch)) {
		t.Errorf("a batch of too many bytes: %v", err)
	}
}

// What decodes encodes to something that decodes to the same; nothing panics, and nothing
// takes memory beyond what arrived.
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
		if err := new(Record).UnmarshalBinary(data[:n]); !errors.Is(err, ErrRecord) {
			t.Fatalf("the first %d bytes of %d decode: %v", n, len(data), err)
		}
	}
	if err := new(Record).UnmarshalBinary(append(bytes.Clone(data), 0)); !errors.Is(err, ErrRecord) {
		t.Errorf("a record with a byte too many: %v", err)
	}
}
