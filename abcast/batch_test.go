package abcast

import (
	"bytes"
	"testing"
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
