package flease

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A batch takes urgent operations first, and no more of both queues together than there is room for. The rest
// comes with the next batch. News of a view are said once.
func TestWhatABatchTakes(t *testing.T) {
	long := strings.Repeat("x", maxName-8)
	for name, tt := range map[string]struct {
		urgent, patient int
		of              string // their names begin with it
		first           [2]int // how many of each the first batch has, at most
	}{
		"few":                      {2, 3, "", [2]int{2, 3}},
		"none that is urgent":      {0, 3, "", [2]int{0, 3}},
		"as many as a batch has":   {maxOps - 5, 5, "", [2]int{maxOps - 5, 5}},
		"more that is urgent":      {maxOps + 5, 5, "", [2]int{maxOps, 0}},
		"more that is patient":     {maxOps - 5, 9, "", [2]int{maxOps - 5, 5}},
		"long ones in both queues": {4000, 4000, long, [2]int{3900, 0}},
	} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		for how, n := range [2]int{tt.urgent, tt.patient} {
			for i := range n {
				p.add(p.lane(2), how, &Op{Kind: Peek, Name: fmt.Sprint(tt.of, how, "-", i), Ballot: 5})
			}
		}
		p.lane(2).news = &ViewNews{View: p.lay.view, Active: true}
		var next [2]int
		for batch, more := 0, true; more; batch++ {
			rd := p.Ready()
			more = rd.Alarm == c.now.Mono
			if len(rd.Sends) != 1 || rd.Sends[0].To != 2 || rd.Sends[0].From != 1 {
				t.Fatalf("%s: batch %d is for %+v", name, batch, rd.Sends)
			}
			b := rd.Sends[0].Body.(*Batch)
			if b.Incarnation != 1 || b.Epoch != 1 || b.Digest != p.lay.digest || (b.View != nil) != (batch == 0) {
				t.Errorf("%s: batch %d is %d, %d, %d, with news: %v", name, batch, b.Incarnation, b.Epoch, b.Digest, b.View != nil)
			}
			data, err := b.MarshalBinary()
			if err != nil || len(data) > MaxBatch/2+64<<10 || len(b.Ops) > maxOps {
				t.Errorf("%s: batch %d has %d operations and %d bytes, %v", name, batch, len(b.Ops), len(data), err)
			}
			for _, o := range b.Ops {
				how := urgent
				if next[urgent] == tt.urgent {
					how = patient
				}
				if want := fmt.Sprint(tt.of, how, "-", next[how]); o.Name != want {
					t.Fatalf("%s: in batch %d there comes %q, want %q", name, batch, o.Name, want)
				}
				next[how]++
			}
			if batch == 0 && (next[0] > tt.first[0] || next[1] > tt.first[1] || tt.of == "" && next != tt.first) {
				t.Errorf("%s: the first batch has %d urgent and %d patient operations, want %d and %d", name, next[0], next[1], tt.first[0], tt.first[1])
			}
			if batch > 9 {
				t.Fatalf("%s: there is no end", name)
			}
		}
		if next != [2]int{tt.urgent, tt.patient} {
			t.Errorf("%s: of %d and %d operations %d and %d are sent", name, tt.urgent, tt.patient, next[0], next[1])
		}
		if rd := p.Ready(); len(rd.Sends) > 0 {
			t.Errorf("%s: when all is sent there comes %d batches more", name, len(rd.Sends))
		}
	}
	var none machine.Ready[Report]
	c := newCluster(t, 3, nil)
	if more := c.peers[1].flush(&none); more || len(none.Sends) > 0 {
		t.Errorf("nothing is to be sent, and there is %+v", none)
	}
}

// Memory that is given back serves one batch at a time: messages for two peers never share it, and a
// list with too little room is not used.
func TestMemoryServesOnce(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	p.spare = nil
	back := &Batch{Incarnation: 1, Epoch: 3, Digest: 7, Ops: make([]Op, 5, 8)}
	mine := back.Ops[:8]
	p.Reuse(back)
	if !reflect.DeepEqual(back, &Batch{}) {
		t.Errorf("a batch that was given back is still %+v", back)
	}
	p.Reuse(&Batch{}) // nothing to give back
	lists := map[string][]Op{"2 urgent": nil, "2 patient": nil, "3 urgent": nil}
	p.add(p.lane(2), urgent, &Op{Kind: Peek, Name: "2 urgent"})
	p.add(p.lane(2), patient, &Op{Kind: Peek, Name: "2 patient"})
	p.add(p.lane(3), urgent, &Op{Kind: Peek, Name: "3 urgent"})
	lists["2 urgent"], lists["2 patient"], lists["3 urgent"] = p.lane(2).ops[urgent], p.lane(2).ops[patient], p.lane(3).ops[urgent]
	used := 0
	for name, ops := range lists {
		if len(ops) != 1 || ops[0].Name != name {
			t.Errorf("what is to be said first of %s is %+v", name, ops)
		}
		if &ops[:1][0] == &mine[0] {
			used++
		}
	}
	if used != 1 || len(p.spare) != 0 {
		t.Errorf("memory that was given back serves %d lists, and %d are left; want one list and none left", used, len(p.spare))
	}
	for range 2 * maxSpare {
		p.Reuse(&Batch{Ops: make([]Op, 1)})
	}
	if len(p.spare) != maxSpare {
		t.Errorf("%d lists are kept for later, want %d", len(p.spare), maxSpare)
	}
	p.spare = [][]Op{make([]Op, 0, 3)}
	if ops := p.opsFor(4); cap(ops) < 4 || len(ops) != 0 || len(p.spare) != 0 {
		t.Errorf("where 4 operations are to be said there is room for %d, and %d are there", cap(ops), len(ops))
	}
}
