package flease

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A message that no peer sends is not decoded, and leaves nothing behind. One at the limits is decoded.
func TestWhatNoPeerSends(t *testing.T) {
	holding := func(change func(h *Holding)) func(b *Batch) {
		return func(b *Batch) {
			h := Holding{Token: 7, Until: 5, Incarnation: 1, Slots: 1, Owner: 1}
			change(&h)
			b.Ops[0].Value = Value{h}
		}
	}
	view := func(v View) func(b *Batch) { return func(b *Batch) { b.View = &ViewNews{View: v, Active: true} } }
	many := make([]machine.NodeID, MaxMember)
	for i := range many {
		many[i] = machine.NodeID(i + 1)
	}
	for name, tt := range map[string]struct {
		change func(b *Batch)
		bytes  func(data []byte) []byte // of version, flags, incarnation (4), epoch, digest (4), count, kind, fields …
		good   bool
	}{
		"a batch":                             {good: true},
		"of no life":                          {change: func(b *Batch) { b.Incarnation = 0 }},
		"of another version":                  {bytes: func(d []byte) []byte { d[0] = 2; return d }},
		"with flags of a later one":           {bytes: func(d []byte) []byte { d[1] = 2; return d }},
		"with a byte too many":                {bytes: func(d []byte) []byte { return append(d, 0) }},
		"with fewer operations than are said": {bytes: func(d []byte) []byte { d[11] = 2; return d }},
		"with more operations than are said":  {bytes: func(d []byte) []byte { d[11] = 0; return d }},
		"with no operations":                  {change: func(b *Batch) { b.Ops = nil }, good: true},
		"with the first kind":                 {change: func(b *Batch) { b.Ops[0].Kind = Read }, good: true},
		"with the last kind":                  {change: func(b *Batch) { b.Ops[0].Kind = WrongView }, good: true},
		"with no kind":                        {change: func(b *Batch) { b.Ops[0].Kind = 0 }},
		"with a kind beyond":                  {change: func(b *Batch) { b.Ops[0].Kind = WrongView + 1 }},
		"with a field beyond":                 {bytes: func(d []byte) []byte { d[13] |= 1 << 7; return d }},
		"with the longest name":               {change: func(b *Batch) { b.Ops[0].Name = strings.Repeat("x", maxName) }, good: true},
		"with a longer name":                  {change: func(b *Batch) { b.Ops[0].Name = strings.Repeat("x", maxName+1) }},
		"with all slots":                      {change: func(b *Batch) { b.Ops[0].Slots = Shared }, good: true},
		"with the longest queue":              {change: func(b *Batch) { b.Ops[0].Queue = make([]Waiter, maxQueue) }, good: true},
		"with a longer queue":                 {change: func(b *Batch) { b.Ops[0].Queue = make([]Waiter, maxQueue+1) }},
		"with a lease":                        {change: holding(func(*Holding) {}), good: true},
		"with a lease of nobody":              {change: holding(func(h *Holding) { h.Owner = 0 })},
		"with a lease of the last":            {change: holding(func(h *Holding) { h.Owner = MaxMember }), good: true},
		"with one of an owner beyond":         {change: holding(func(h *Holding) { h.Owner = MaxMember + 1 })},
		"with one for an heir beyond":         {change: holding(func(h *Holding) { h.Heir = MaxMember + 1 })},
		"with a lease for nobody":             {change: holding(func(h *Holding) { h.Slots = 0 })},
		"with the latest end":                 {change: holding(func(h *Holding) { h.Until = 1<<42 - 1 }), good: true},
		"with a later end":                    {change: holding(func(h *Holding) { h.Until = 1 << 42 })},
		"with the longest holder":             {change: holding(func(h *Holding) { h.Holder = strings.Repeat("x", maxHolder) }), good: true},
		"with a longer holder":                {change: holding(func(h *Holding) { h.Holder = strings.Repeat("x", maxHolder+1) })},
		"with flags of a later lease":         {change: holding(func(*Holding) {}), bytes: func(d []byte) []byte { d[24] |= 8; return d }},
		"with the most leases": {change: func(b *Batch) {
			for range MaxHoldings {
				b.Ops[0].Value = append(b.Ops[0].Value, Holding{Incarnation: 1, Slots: 1, Owner: 1})
			}
		}, good: true},
		"with more leases": {change: func(b *Batch) {
			for range MaxHoldings + 1 {
				b.Ops[0].Value = append(b.Ops[0].Value, Holding{Incarnation: 1, Slots: 1, Owner: 1})
			}
		}},
		"with a view":                    {change: view(View{Epoch: 1, Members: many, Replicas: maxReplicas}), good: true},
		"with a view of no epoch":        {change: view(View{Members: many[:3]})},
		"with a view of nobody":          {change: view(View{Epoch: 1})},
		"with a view of one twice":       {change: view(View{Epoch: 1, Members: []machine.NodeID{1, 2, 2}})},
		"with a view in disorder":        {change: view(View{Epoch: 1, Members: []machine.NodeID{2, 1}})},
		"with a view of member 0":        {change: view(View{Epoch: 1, Members: []machine.NodeID{0, 1}})},
		"with a view of a member beyond": {change: view(View{Epoch: 1, Members: []machine.NodeID{1, MaxMember + 1}})},
	} {
		b := &Batch{Incarnation: 1, Epoch: 1, Digest: 2, Ops: []Op{{Kind: Peek, Ballot: 5}}}
		if tt.change != nil {
			tt.change(b)
		}
		data, err := b.appendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.bytes != nil {
			data = tt.bytes(data)
		}
		got := &Batch{}
		err = got.UnmarshalBinary(data)
		switch {
		case tt.good && (err != nil || len(got.Ops) != len(b.Ops)):
			t.Errorf("a batch %s does not decode: %v", name, err)
		case !tt.good && (!errors.Is(err, errBatch) || got.Incarnation != 0 || got.View != nil || len(got.Ops) > 0):
			t.Errorf("a batch %s decodes to %+v, %v", name, got, err)
		}
		// A record has values, too.
		if b.Ops == nil || b.Ops[0].Value == nil || tt.bytes != nil {
			continue
		}
		r := &Record{Cells: []CellRecord{{Name: "a", Value: b.Ops[0].Value}}}
		if data, err = r.MarshalBinary(); err != nil {
			t.Fatal(err)
		}
		var back Record
		if err := back.UnmarshalBinary(data); (err == nil) != tt.good || err != nil && !errors.Is(err, errRecord) || err == nil && !reflect.DeepEqual(back.Cells, r.Cells) {
			t.Errorf("a record %s decodes to %+v, %v", name, back, err)
		}
	}
	long := &Batch{Incarnation: 1, Ops: []Op{{Kind: Peek, Value: Value{{Holder: strings.Repeat("x", MaxBatch)}}}}}
	if data, err := long.appendBinary([]byte("before")); !errors.Is(err, errBatch) || string(data) != "before" {
		t.Errorf("a batch of more than %d bytes is encoded to %d, %v", MaxBatch, len(data), err)
	}
}
