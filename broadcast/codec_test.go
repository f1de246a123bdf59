package broadcast

import (
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/abcast"
	"github.com/tenure-lease/tenure/asynclease"
	"github.com/tenure-lease/tenure/fastct"
	"github.com/tenure-lease/tenure/machine"
)

var (
	request = asynclease.Request{Node: 3, Life: 2, Seq: 1 << 40}
	between = asynclease.Interval{First: 7, Last: 1 << 63}
	ids     = []machine.NodeID{1, 2, 1 << 50}
	base    = abcast.Base{Order: order, Position: 11, App: []byte("app")}
	order   = abcast.State{Instance: 9, Position: 8, Sessions: []abcast.Session{{Client: machine.ID{5}, Upto: 6}}}
)

// bodies is one of each.
var bodies = []any{
	asynclease.Lease{Request: request, Interval: between, Open: 4}, asynclease.Ack{Request: request},
	asynclease.Nack{Request: request, Until: 3}, asynclease.Give{Request: request, From: 2},
	fastct.Estimate{CN: 1, Round: 2, TS: -1, Value: []byte("v"), Again: true}, fastct.NewEstimate{CN: 1, Round: 2, Value: []byte("v"), Again: true},
	fastct.Ack{CN: 1, Round: 2, Again: true}, fastct.Nack{CN: 1, Round: 2}, fastct.Abort{CN: 1, Round: 2}, fastct.Call{CN: 1, Round: 2},
	fastct.Decide{CN: 1, Round: 2, Value: []byte("v"), Whole: true}, fastct.Counts{Counts: []uint64{1, 0, 3}}, fastct.Trimmed{Below: 4},
	abcast.Submit{Messages: []abcast.Message{{Client: machine.ID{1}, Seq: 2, Payload: []byte("p")}, {Client: machine.ID{2}, Seq: 1, Payload: []byte("q")}}},
	abcast.Status{Delivered: 5}, abcast.Fetch{From: 6}, abcast.Transfer{Base: base},
	life{3}, asynclease.Identity{Node: 1, Members: ids}, asynclease.Permitted{Request: request, Interval: between},
	asynclease.Cut{Request: request, From: 2}, asynclease.Floor{Below: 2}, fastct.Identity{Node: 1, Members: ids, Spread: true},
	fastct.Entered{CN: 1, Round: 5}, fastct.Adopted{CN: 1, Round: 0, Value: []byte("v")}, fastct.Settled{CN: 1, Adopted: true, Value: []byte{}},
	fastct.Gone{Below: 2}, base,
}

func TestCodec(t *testing.T) {
	seen := map[byte]bool{}
	for _, body := range bodies {
		kind, payload := encode(body)
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
	}
}

// FuzzDecode wants no input to panic, nor to take more memory than it has bytes.
func FuzzDecode(f *testing.F) {
	for _, body := range bodies {
		kind, payload := encode(body)
		f.Add(kind, payload)
	}
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		body, err := decode(kind, payload)
		if err != nil {
			return
		}
		again, payload := encode(body)
		if same, err := decode(again, payload); err != nil || !reflect.DeepEqual(body, same) {
			t.Errorf("%+v became %+v, %v", body, same, err)
		}
	})
}
