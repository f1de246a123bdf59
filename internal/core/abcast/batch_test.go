package abcast

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// FuzzBatch wants whatever decodes to encode to a batch that decodes to the same, and
// nothing to panic.
func FuzzBatch(f *testing.F) {
	f.Add(appendMessage(appendMessage(nil, Message{Client: NewClient(0, 1), Seq: 1, Payload: []byte("x")}), Message{Client: NewClient(0, 2), Seq: 1 << 40, Change: true}))
	f.Add([]byte{1})
	f.Add(append(make([]byte, 16), 1, 200, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		messages, err := decodeBatch(b)
		if err != nil {
			return
		}
		var again []byte
		for _, m := range messages {
			again = appendMessage(again, m)
		}
		same, err := decodeBatch(again)
		if err != nil || len(same) != len(messages) {
			t.Fatalf("%d messages became %d, %v", len(messages), len(same), err)
		}
		for i, m := range messages {
			if o := same[i]; o.Client != m.Client || o.Seq != m.Seq || o.Change != m.Change || !bytes.Equal(o.Payload, m.Payload) {
				t.Errorf("message %d: %+v became %+v", i, m, o)
			}
		}
	})
}

// A batch has no more messages than it may have, and no more bytes; the rest goes into the
// next.
func TestBatchesAreBounded(t *testing.T) {
	for name, bound := range map[string]struct{ count, size int }{"messages": {2, 1 << 20}, "bytes": {100, 0}} {
		var p pending
		p.clear()
		o := newOrder(State{Clients: 10})
		left := map[machine.ID]bool{}
		for i := range uint64(5) {
			w := &waiting{Message: Message{Client: NewClient(0, i), Seq: 1, Payload: make([]byte, 100)}}
			p.add(w)
			left[w.Client] = true
			if bound.size == 0 {
				bound.size = 2*w.size() + 1
			}
		}
		for _, want := range []int{2, 2, 1, 0} {
			messages, err := decodeBatch(p.batch(1, o, bound.count, bound.size))
			if err != nil || len(messages) != want {
				t.Fatalf("%s: a batch of %d, %v, want %d", name, len(messages), err, want)
			}
			for _, m := range messages {
				delete(left, m.Client)
			}
		}
		if len(left) > 0 {
			t.Errorf("%s: %d messages are in no batch", name, len(left))
		}
	}
}

// A batch keeps its messages as they are.
func TestBatchesKeepTheirMessages(t *testing.T) {
	want := []Message{
		{Client: NewClient(3, 1), Seq: 1, Payload: []byte("x")},
		{Client: NewClient(1<<40, 2), Seq: 1 << 60, Payload: []byte("a change of the group"), Change: true},
		{Client: NewClient(3, 1), Seq: 2, Payload: []byte{}},
	}
	var b []byte
	for _, m := range want {
		b = appendMessage(b, m)
	}
	got, err := decodeBatch(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("of %+v a batch keeps %+v, %v", want, got, err)
	}
}

// A batch that is none orders nothing, and does not stop what follows.
func TestDamagedBatch(t *testing.T) {
	o := newOrder(State{Clients: 10})
	if got := o.next([]byte("not a batch")); len(got) != 0 || o.instance != 1 {
		t.Errorf("got %v at instance %d", got, o.instance)
	}
	if got := o.next(appendMessage(nil, Message{Client: NewClient(0, 1), Seq: 1, Payload: []byte("x")})); len(got) != 1 || got[0].Position != 1 {
		t.Errorf("got %v, want a message at position 1", got)
	}
}
