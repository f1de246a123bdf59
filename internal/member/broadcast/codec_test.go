package broadcast

import (
	"math"
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

var (
	request = asynclease.Request{Node: 3, Life: 2, Seq: 1 << 40}
	between = asynclease.Interval{First: 7, Last: 1 << 63}
	ids     = []machine.NodeID{1, 2, 1 << 50}
	base    = abcast.Base{Order: order, Position: 11}
	order   = abcast.State{
		Group:    abcast.Group{First: 5, Members: []abcast.Member{{ID: 3, Address: "c:1"}}, Removed: []abcast.Member{{ID: 1, Address: "a:1"}}, Configured: []machine.NodeID{1, 3}},
		Instance: 9, Position: 8, Digest: 7, Horizon: 3, Clients: 12, Sessions: []abcast.Session{{Client: machine.ID{5}, Upto: 6, Position: 7}},
	}
)

// bodies is one of each.
var bodies = []any{
	asynclease.Lease{Request: request, Interval: between, Open: 4}, asynclease.Ack{Request: request},
	asynclease.Nack{Request: request, Until: 3}, asynclease.Give{Request: request, From: 2},
	fastct.Estimate{CN: 1, Round: 2, TS: -1, Value: []byte("v"), Again: true}, fastct.NewEstimate{CN: 1, Round: 2, Value: []byte("v"), Again: true},
	fastct.Ack{CN: 1, Round: 2, Again: true}, fastct.Nack{CN: 1, Round: 2}, fastct.Abort{CN: 1, Round: 2}, fastct.Call{CN: 1, Round: 2},
	fastct.Decide{CN: 1, Round: 2, Value: []byte("v"), Whole: true}, fastct.Counts{Counts: []uint64{1, 0, 3}}, fastct.Trimmed{Below: 4},
	abcast.Submit{Messages: []abcast.Message{{Client: machine.ID{1}, Seq: 2, Payload: []byte("p")}, {Client: machine.ID{2}, Seq: 1, Payload: []byte("q"), Change: true}}},
	abcast.Status{Delivered: 5, Began: 2, Position: 3, Digest: 4}, abcast.Fetch{From: 6}, abcast.Transfer{Base: base},
	life{3, 9, []birth{{8, 2}, {9, 4}}}, asynclease.Identity{Node: 1, Members: ids}, asynclease.Permitted{Request: request, Interval: between},
	asynclease.Cut{Request: request, From: 2}, asynclease.Floor{Below: 2}, fastct.Identity{Node: 1, Members: ids, Spread: true},
	fastct.Entered{CN: 1, Round: 5}, fastct.Adopted{CN: 1, Round: 0, Value: []byte("v")}, fastct.Settled{CN: 1, Adopted: true, Value: []byte{}},
	fastct.Gone{Below: 2}, base,
	abcast.In{Epoch: 7, Body: fastct.Ack{CN: 1, Round: 2}}, abcast.Decisions{From: 3, Values: [][]byte{[]byte("v"), []byte("w")}},
	abcast.Learned{CN: 4, Value: []byte("v")}, abcast.Started{Epoch: 7}, want{6},
	introduction{To: 1, Dir: 2, Life: 3, Mark: 4, Lives: []birth{{5, 6}}, Notes: []note{{1, 2, 3, 4, 5}}}, met{1, 2}, forgot{1, 2, 3, 4}, note{1, 2, 3, 4, 5}, counted{},
}

func TestCodec(t *testing.T) {
	seen := map[byte]bool{}
	for _, body := range bodies {
		b := encode(body)
		kind, payload := b[0], b[1:]
		if seen[kind] {
			t.Errorf("%T shares its kind, %d, with another", body, kind)
		}
		seen[kind] = true
		got, err := decode(kind, payload)
		if err != nil || !reflect.DeepEqual(got, body) {
			t.Errorf("%+v became %+v, %v", body, got, err)
		}
		for n := range payload {
			if got, err := decode(kind, payload[:n]); err == nil {
				t.Errorf("%T, cut to %d of %d bytes, became %+v", body, n, len(payload), got)
			}
		}
		if got, err := decode(kind, append(payload, 0)); err == nil {
			t.Errorf("%T with a byte behind it became %+v", body, got)
		}
	}
	nested := encode(abcast.In{Epoch: 7, Body: abcast.In{Epoch: 8, Body: fastct.Ack{CN: 1}}})
	if got, err := decode(nested[0], nested[1:]); err == nil {
		t.Errorf("a message of an epoch within another's became %+v", got)
	}
}

// A flag arrives, whether it is set or not.
func TestEveryFlagIsKept(t *testing.T) {
	for _, body := range bodies {
		for i := range reflect.TypeOf(body).NumField() {
			for _, set := range []bool{false, true} {
				v := reflect.New(reflect.TypeOf(body)).Elem()
				v.Set(reflect.ValueOf(body))
				field := v.Type().Field(i)
				if field.Type.Kind() != reflect.Bool {
					continue
				}
				v.Field(i).SetBool(set)
				b := encode(v.Interface())
				if got, err := decode(b[0], b[1:]); err != nil || !reflect.DeepEqual(got, v.Interface()) {
					t.Errorf("a %T with %s %v became %+v, %v", body, field.Name, set, got, err)
				}
			}
		}
	}
}

// A log that was written by an earlier version is read, and members of two versions understand each
// other: a kind keeps its number.
func TestKindsKeepTheirNumbers(t *testing.T) {
	for want, kind := range map[byte]byte{
		1: kindLease, 2: kindLeaseAck, 3: kindLeaseNack, 4: kindGive, 5: kindEstimate, 6: kindNewEstimate, 7: kindAck, 8: kindNack,
		9: kindAbort, 10: kindCall, 11: kindDecide, 12: kindCounts, 13: kindTrimmed, 14: kindSubmit, 16: kindFetch, 19: kindBegin,
		20: kindEnd, 21: kindLeaseIdentity, 22: kindPermitted, 23: kindCut, 24: kindFloor, 25: kindIdentity, 26: kindEntered,
		27: kindAdopted, 28: kindSettled, 29: kindGone, 31: kindIn, 32: kindDecisions, 33: kindLearned, 34: kindStarted, 35: kindWant,
		36: kindStatus, 37: kindTransfer, 38: kindLife, 39: kindBase, 40: kindIntroduction, 41: kindMet, 42: kindForgot, 43: kindNote,
		44: kindCounted,
	} {
		if kind != want {
			t.Errorf("the kind that was always %d is %d", want, kind)
		}
	}
}

// A message of an epoch is none of another epoch's, and has something in it.
func TestEpochsAreNotWithinEpochs(t *testing.T) {
	inner := encode(abcast.In{Epoch: 2, Body: fastct.Ack{CN: 1}})
	for name, payload := range map[string][]byte{
		"nothing": {5}, "an epoch without anything": {5, kindIn}, "an epoch": append([]byte{5}, inner...),
	} {
		if body, err := decode(kindIn, payload); err == nil {
			t.Errorf("%s within an epoch is read as %+v", name, body)
		}
	}
	if body, err := decode(kindIn, append([]byte{5}, encode(fastct.Ack{CN: 1})...)); err != nil || body != (abcast.In{Epoch: 5, Body: fastct.Ack{CN: 1}}) {
		t.Errorf("an acknowledgment within an epoch is read as %+v, %v", body, err)
	}
}

// FuzzDecode wants no input to panic, nor to take more memory than it has bytes.
func FuzzDecode(f *testing.F) {
	for _, body := range bodies {
		b := encode(body)
		kind, payload := b[0], b[1:]
		f.Add(kind, payload)
	}
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		body, err := decode(kind, payload)
		if err != nil {
			return
		}
		b := encode(body)
		again, payload := b[0], b[1:]
		if same, err := decode(again, payload); err != nil || !reflect.DeepEqual(body, same) {
			t.Errorf("%+v became %+v, %v", body, same, err)
		}
	})
}

// A member that is behind can be told of all clients that may be remembered.
func TestAllClientsFitInAMessage(t *testing.T) {
	b := abcast.Transfer{Base: abcast.Base{Order: abcast.State{Sessions: make([]abcast.Session, clientsMax)}}}
	for i := range b.Base.Order.Sessions {
		b.Base.Order.Sessions[i].Upto, b.Base.Order.Sessions[i].Position = math.MaxUint64, math.MaxUint64
	}
	if msg := encode(b); len(msg) > 63<<20 { // peer.Config.FrameBytesMax is a little more
		t.Errorf("%d bytes", len(msg))
	}
	cfg := Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: "x", Clients: clientsMax + 1}
	if cfg.validate() == nil {
		t.Error("more clients are taken")
	}
}
