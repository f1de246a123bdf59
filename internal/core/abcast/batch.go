package abcast

import (
	"errors"

	"github.com/tenure-lease/tenure/internal/wire"
)

// A batch is what an instance decides: messages, in order, as
//
//	a client (16 bytes), its Seq, the length of the payload (uvarints), the payload
//
// one after the other. The length's lowest bit says that the payload is a Change; the
// others are the length. An empty batch is no bytes.

func appendMessage(b []byte, m Message) []byte {
	w := wire.Writer(b)
	w.Put(m.Client[:])
	w.Uvarint(m.Seq)
	length := uint64(len(m.Payload)) << 1
	if m.Change {
		length |= 1
	}
	w.Uvarint(length)
	w.Put(m.Payload)
	return w
}

var errBatch = errors.New("not a batch of messages")

// decodeBatch returns the messages of a batch; payloads are parts of it.
func decodeBatch(b []byte) (messages []Message, err error) {
	for r := (wire.Reader{Rest: b}); len(r.Rest) > 0; {
		var m Message
		copy(m.Client[:], r.Take(uint64(len(m.Client))))
		m.Seq = r.Uvarint()
		length := r.Uvarint()
		m.Change, m.Payload = length&1 != 0, r.Take(length>>1)
		if r.Bad {
			return nil, errBatch
		}
		if messages == nil { // most often all are of about one size
			messages = make([]Message, 0, 1+len(r.Rest)/max(m.size(), 1))
		}
		messages = append(messages, m)
	}
	return messages, nil
}
