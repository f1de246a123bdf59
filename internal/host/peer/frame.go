package peer

import (
	"encoding/binary"
	"io"

	"github.com/tenure-lease/tenure/internal/wire"
)

var le = binary.LittleEndian

const (
	frameVersion     = 1
	frameHeaderBytes = 12
	// batchBytes is about how much one frame takes of the queue. Larger frames
	// would save nothing and delay the first message in them.
	batchBytes = 1 << 20
	// growBytes bounds the memory that a frame's length alone can claim.
	growBytes = 1 << 20
)

type frameType byte

const (
	frameBatch   frameType = 1 + iota // messages
	framePing                         // u64, to be sent back
	framePong                         // the u64 of a ping
	frameHeader                       // bulk: the kind of stream
	frameChunk                        // bulk: some bytes of it
	frameEnd                          // bulk: all was sent
	frameAbort                        // bulk: the sender's reader failed; why
	frameVerdict                      // bulk: the receiver's error text, empty if none
)

// beginFrame adds an unfinished header to b; endFrame, given the offset that
// the header is at, finishes it.
func beginFrame(b []byte, typ frameType) []byte {
	var h [frameHeaderBytes]byte
	h[0], h[1] = frameVersion, byte(typ)
	return append(b, h[:]...)
}

func endFrame(b []byte, at int) []byte {
	f := b[at:]
	le.PutUint32(f[4:], uint32(len(f)-frameHeaderBytes))
	le.PutUint32(f[8:], frameSum(f[:8], f[frameHeaderBytes:]))
	return b
}

func appendFrame(b []byte, typ frameType, body []byte) []byte {
	at := len(b)
	return endFrame(append(beginFrame(b, typ), body...), at)
}

// appendBatch adds a frame of the first messages of msgs, at least one and as
// many as a body of limit bytes has room for, and returns how many those are.
func appendBatch(to []byte, msgs [][]byte, limit int) ([]byte, int) {
	at, n := len(to), 0
	b := wire.Writer(beginFrame(to, frameBatch))
	limit += len(b)
	for n < len(msgs) && (n == 0 || len(b)+binary.MaxVarintLen32+len(msgs[n]) <= limit) {
		b.Bytes(msgs[n])
		n++
	}
	return endFrame(b, at), n
}

// splitBatch appends the messages of a batch's body, which they share, to msgs.
func splitBatch(msgs [][]byte, body []byte) ([][]byte, error) {
	for r := (wire.Reader{Rest: body}); len(r.Rest) > 0; {
		msg := r.Bytes()
		if r.Bad {
			return msgs, violation("a message is longer than its batch")
		}
		msgs = append(msgs, msg)
	}
	return msgs, nil
}

func frameSum(head, body []byte) uint32 {
	return wire.Extend(wire.Checksum(head), body)
}

// readFrame reads a frame with a body of at most limit bytes, into buf if it is
// large enough. The body is valid until buf is used again.
func readFrame(r io.Reader, buf []byte, limit int) (typ frameType, body []byte, err error) {
	var head [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, buf, err
	}
	if head[0] != frameVersion || head[2] != 0 || head[3] != 0 {
		return 0, buf, violation("frame header % x", head[:4])
	}
	length := int64(le.Uint32(head[4:]))
	if length > int64(limit) {
		return 0, buf, violation("a frame of %d bytes, %d are the limit", length, limit)
	}
	body = buf[:0]
	for int64(len(body)) < length {
		from := len(body)
		n := int(min(length-int64(from), max(growBytes, int64(cap(body)-from))))
		if cap(body)-from < n {
			body = append(body, make([]byte, n)...)
		} else {
			body = body[:from+n]
		}
		if _, err := io.ReadFull(r, body[from:]); err != nil {
			return 0, body, noEOF(err)
		}
	}
	if frameSum(head[:8], body) != le.Uint32(head[8:]) {
		return 0, body, violation("a frame's checksum is wrong")
	}
	return frameType(head[1]), body, nil
}

// noEOF tells an end within something from one between two things.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
