package abcast

import (
	"encoding/binary"
	"errors"
)

// A batch is what an instance decides: messages, in order, as
//
//	a client (16 bytes), its Seq, the length of the payload (uvarints), the payload
//
// one after the other. The length's lowest bit says that the payload is a Change; the
// others are the length. An empty batch is no bytes.

func appendMessage(b []byte, m Message) []byte {
	b = append(b, m.Client[:]...)
	b = binary.AppendUvarint(b, m.Seq)
	length := uint64(len(m.Payload)) << 1
	if m.Change {
		length |= 1
	}
	b = binary.AppendUvarint(b, length)
	return append(b, m.Payload...)
}

var errBatch = errors.New("not a batch of messages")

// decodeBatch returns the messages of a batch; payloads are parts of it.
func decodeBatch(b []byte) (messages []Message, err error) {
	for len(b) > 0 {
		var m Message
		if len(b) < len(m.Client) {
			return nil, errBatch
		}
		b = b[copy(m.Client[:], b):]
		seq, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errBatch
		}
		b = b[n:]
		length, n := binary.Uvarint(b)
		size := length >> 1
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, errBatch
		}
		m.Seq, m.Change = seq, length&1 != 0
		m.Payload, b = b[n:n+int(size):n+int(size)], b[n+int(size):]
		if messages == nil { // most often all are of about one size
			messages = make([]Message, 0, 1+len(b)/max(m.size(), 1))
		}
		messages = append(messages, m)
	}
	return messages, nil
}
