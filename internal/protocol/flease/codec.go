package flease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Limits of a Batch on the wire.
const (
	// MaxOps is how many operations a batch may carry.
	MaxOps = 8192
	// MaxBatch is how long an encoded batch may be, in bytes. Peers fill batches up to half
	// of it.
	MaxBatch = 4 << 20
)

const batchVersion = 1

// ErrBatch is an encoding that no peer sends: of another version, damaged, too large.
var ErrBatch = errors.New("flease: bad batch")

// Which of an Op's fields follow.
const (
	hasName = 1 << iota
	hasWritten
	hasValue
	hasTicket
	hasSlots
	hasQueue
	hasWaiting
	knownFields = 1<<iota - 1
)

// MarshalBinary encodes a batch: a version, a header, operations of only the fields that
// they have, integers as uvarints but ballots, which are little endian. The transport
// detects damage on the way.
func (b *Batch) MarshalBinary() ([]byte, error) {
	n := 64
	for i := range b.Ops {
		n += b.Ops[i].size()
	}
	return b.AppendBinary(make([]byte, 0, n))
}

// AppendBinary appends what MarshalBinary returns to dst.
func (b *Batch) AppendBinary(dst []byte) ([]byte, error) {
	if len(b.Ops) > MaxOps {
		return dst, fmt.Errorf("%w: %d operations, at most %d", ErrBatch, len(b.Ops), MaxOps)
	}
	begin := len(dst)
	flags := byte(0)
	if b.View != nil {
		flags = 1
	}
	dst = append(dst, batchVersion, flags)
	dst = binary.LittleEndian.AppendUint32(dst, b.Incarnation)
	dst = binary.AppendUvarint(dst, b.Epoch)
	dst = binary.LittleEndian.AppendUint32(dst, b.Digest)
	if b.View != nil {
		dst = append(dst, oneIf(b.View.Closed)|oneIf(b.View.Active)<<1)
		dst = b.View.View.append(dst)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Ops)))
	for i := range b.Ops {
		dst = b.Ops[i].append(dst)
	}
	if n := len(dst) - begin; n > MaxBatch {
		return dst[:begin], fmt.Errorf("%w: %d bytes, at most %d", ErrBatch, n, MaxBatch)
	}
	return dst, nil
}

func oneIf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (o *Op) append(dst []byte) []byte {
	fields := oneIf(o.Name != "")*hasName | oneIf(o.Written != 0)*hasWritten | oneIf(o.Value != nil)*hasValue |
		oneIf(o.Ticket != 0)*hasTicket | oneIf(o.Slots != 0)*hasSlots | oneIf(len(o.Queue) > 0)*hasQueue | oneIf(o.Waiting != 0)*hasWaiting
	dst = append(dst, byte(o.Kind), fields)
	dst = binary.AppendUvarint(dst, uint64(o.Ref))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(o.Ballot))
	if fields&hasName != 0 {
		dst = appendString(dst, o.Name)
	}
	if fields&hasWritten != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(o.Written))
	}
	if fields&hasValue != 0 {
		dst = o.Value.append(dst)
	}
	if fields&hasTicket != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(o.Ticket))
	}
	if fields&hasSlots != 0 {
		dst = binary.AppendUvarint(dst, uint64(o.Slots))
	}
	if fields&hasQueue != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(o.Queue)))
		for _, w := range o.Queue {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(w.Ticket))
			dst = binary.AppendUvarint(dst, uint64(w.Slots))
		}
	}
	if fields&hasWaiting != 0 {
		dst = binary.AppendUvarint(dst, uint64(o.Waiting))
	}
	return dst
}

func (v Value) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	for i := range v {
		h := &v[i]
		dst = append(dst, oneIf(h.Released)|oneIf(h.Heir != 0)<<1|oneIf(h.Delay != 0)<<2)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(h.Token))
		dst = binary.AppendUvarint(dst, uint64(h.Until))
		dst = binary.AppendUvarint(dst, uint64(h.Owner))
		dst = binary.LittleEndian.AppendUint32(dst, h.Incarnation)
		dst = binary.AppendUvarint(dst, uint64(h.Slots))
		if h.Delay != 0 {
			dst = binary.AppendUvarint(dst, uint64(h.Delay))
		}
		if h.Heir != 0 {
			dst = binary.AppendUvarint(dst, uint64(h.Heir))
		}
		dst = appendString(dst, h.Holder)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// size is at least how many bytes the operation takes on the wire.
func (o *Op) size() int {
	n := 32 + len(o.Name) + 16*len(o.Queue)
	for i := range o.Value {
		n += 48 + len(o.Value[i].Holder)
	}
	return n
}

// Reset empties a batch and keeps its memory for the next one that is decoded into it.
// Nobody may use it any more; a Peer keeps no batch that it was stepped with.
func (b *Batch) Reset() {
	clear(b.Ops)
	*b = Batch{Ops: b.Ops[:0]}
}

// UnmarshalBinary decodes a batch. The error wraps ErrBatch.
func (b *Batch) UnmarshalBinary(data []byte) error {
	b.Reset()
	return new(Decoder).Decode(data, b)
}

// Decoder decodes batches. It knows the holders that it has met lately, so that what a
// register keeps does not keep the whole batch that it came in. Names share the memory of one
// copy of data.
type Decoder struct{ holders [64]string }

// known returns s, in memory of its own.
func (d *Decoder) known(s string) string {
	if s == "" {
		return ""
	}
	at := &d.holders[(len(s)*31+int(s[0])*7+int(s[len(s)-1]))%len(d.holders)]
	if *at != s {
		*at = strings.Clone(s)
	}
	return *at
}

// Decode decodes data into b, which is empty: new, or after Reset. The error wraps ErrBatch.
func (d *Decoder) Decode(data []byte, b *Batch) error {
	if len(data) > MaxBatch {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrBatch, len(data), MaxBatch)
	}
	r := reader{b: data, s: string(data), d: d}
	if v := r.byte(); v != batchVersion {
		return fmt.Errorf("%w: version %d, this peer speaks %d", ErrBatch, v, batchVersion)
	}
	flags := r.byte()
	b.Incarnation, b.Epoch, b.Digest = r.uint32(), r.uvarint(1<<63-1), r.uint32()
	if flags&1 != 0 {
		news := r.byte()
		b.View = &ViewNews{Closed: news&1 != 0, Active: news&2 != 0, View: r.view()}
	}
	n := int(r.uvarint(MaxOps))
	if flags > 1 || b.Incarnation == 0 || !r.ok(n*11) { // an Op has 11 bytes at least
		*b = Batch{}
		return fmt.Errorf("%w: damaged header", ErrBatch)
	}
	b.Ops = slices.Grow(b.Ops[:0], n)[:n]
	for i := range b.Ops {
		r.op(&b.Ops[i])
	}
	if r.bad || len(r.b) != r.at {
		*b = Batch{}
		return fmt.Errorf("%w: damaged at byte %d of %d", ErrBatch, r.at, len(data))
	}
	return nil
}

// reader takes integers off the front; bad once there were not enough bytes.
type reader struct {
	b   []byte
	s   string // the same bytes
	at  int
	bad bool
	d   *Decoder
}

// ok reports whether n bytes are there.
func (r *reader) ok(n int) bool {
	if r.bad || n < 0 || len(r.b)-r.at < n {
		r.bad = true
	}
	return !r.bad
}

func (r *reader) byte() byte {
	if !r.ok(1) {
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

func (r *reader) uint32() uint32 {
	if !r.ok(4) {
		return 0
	}
	r.at += 4
	return binary.LittleEndian.Uint32(r.b[r.at-4:])
}

func (r *reader) ballot() Ballot { return Ballot(r.uint64()) }

func (r *reader) uint64() uint64 {
	if !r.ok(8) {
		return 0
	}
	r.at += 8
	return binary.LittleEndian.Uint64(r.b[r.at-8:])
}

func (r *reader) uvarint(most uint64) uint64 {
	if r.bad {
		return 0
	}
	x, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 || x > most {
		r.bad = true
		return 0
	}
	r.at += n
	return x
}

func (r *reader) string(most uint64) string {
	n := int(r.uvarint(most))
	if !r.ok(n) {
		return ""
	}
	r.at += n
	return r.s[r.at-n : r.at]
}

func (r *reader) view() View {
	v := View{Epoch: r.uvarint(1<<63 - 1), Replicas: int(r.uvarint(MaxReplicas))}
	n := int(r.uvarint(MaxMember))
	if !r.ok(n) {
		return View{}
	}
	v.Members = make([]machine.NodeID, n)
	for i := range v.Members {
		v.Members[i] = machine.NodeID(r.uvarint(MaxMember))
	}
	v.Places = r.uint64()
	if v.Check() != nil {
		r.bad = true
	}
	return v
}

func (r *reader) op(o *Op) {
	o.Kind = Kind(r.byte())
	fields := r.byte()
	if o.Kind < Read || o.Kind > WrongView || fields > knownFields {
		r.bad = true
		return
	}
	o.Ref = uint32(r.uvarint(1<<32 - 1))
	o.Ballot = r.ballot()
	if fields&hasName != 0 {
		o.Name = r.string(MaxName)
	}
	if fields&hasWritten != 0 {
		o.Written = r.ballot()
	}
	if fields&hasValue != 0 {
		o.Value = r.value()
	}
	if fields&hasTicket != 0 {
		o.Ticket = r.ballot()
	}
	if fields&hasSlots != 0 {
		o.Slots = int32(r.uvarint(Shared))
	}
	if fields&hasQueue != 0 {
		n := int(r.uvarint(maxQueue))
		if !r.ok(9 * n) {
			return
		}
		o.Queue = make([]Waiter, n)
		for i := range o.Queue {
			o.Queue[i] = Waiter{Ticket: r.ballot(), Slots: int32(r.uvarint(Shared))}
		}
	}
	if fields&hasWaiting != 0 {
		o.Waiting = uint32(r.uvarint(1<<32 - 1))
	}
}

func (r *reader) value() Value {
	n := int(r.uvarint(MaxHoldings))
	if !r.ok(17 * n) { // a Holding has 17 bytes at least
		return nil
	}
	v := make(Value, n)
	for i := range v {
		flags := r.byte()
		h := Holding{Released: flags&1 != 0, Token: r.ballot(), Until: Time(r.uvarint(1<<42 - 1)),
			Owner: uint16(r.uvarint(MaxMember)), Incarnation: r.uint32(), Slots: int32(r.uvarint(Shared))}
		if flags&4 != 0 {
			h.Delay = uint32(r.uvarint(1<<32 - 1))
		}
		if flags&2 != 0 {
			h.Heir = uint16(r.uvarint(MaxMember))
		}
		h.Holder = r.d.known(r.string(MaxHolder))
		if flags > 7 || h.Owner == 0 || h.Slots == 0 {
			r.bad = true
		}
		v[i] = h
	}
	return v
}
