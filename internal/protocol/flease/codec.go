package flease

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// Limits of a Batch on the wire.
const (
	// maxOps is how many operations a batch may carry.
	maxOps = 8192
	// MaxBatch is how long an encoded batch may be, in bytes. Peers fill batches up to half
	// of it.
	MaxBatch = 4 << 20
)

const batchVersion = 1

// errBatch is an encoding that no peer sends: of another version, damaged, too large.
var errBatch = errors.New("flease: bad batch")

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
	return b.appendBinary(make([]byte, 0, n))
}

// appendBinary appends what MarshalBinary returns to dst.
func (b *Batch) appendBinary(dst []byte) ([]byte, error) {
	if len(b.Ops) > maxOps {
		return dst, fmt.Errorf("%w: %d operations, at most %d", errBatch, len(b.Ops), maxOps)
	}
	begin := len(dst)
	flags := byte(0)
	if b.View != nil {
		flags = 1
	}
	w := wire.Writer(dst)
	w.Byte(batchVersion)
	w.Byte(flags)
	w.Uint32(b.Incarnation)
	w.Uvarint(b.Epoch)
	w.Uint32(b.Digest)
	if b.View != nil {
		w.Byte(oneIf(b.View.Closed) | oneIf(b.View.Active)<<1)
		b.View.View.encode(&w)
	}
	w.Count(len(b.Ops))
	for i := range b.Ops {
		b.Ops[i].encode(&w)
	}
	if n := len(w) - begin; n > MaxBatch {
		return w[:begin], fmt.Errorf("%w: %d bytes, at most %d", errBatch, n, MaxBatch)
	}
	return w, nil
}

func oneIf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (o *Op) encode(w *wire.Writer) {
	fields := oneIf(o.Name != "")*hasName | oneIf(o.Written != 0)*hasWritten | oneIf(o.Value != nil)*hasValue |
		oneIf(o.Ticket != 0)*hasTicket | oneIf(o.Slots != 0)*hasSlots | oneIf(len(o.Queue) > 0)*hasQueue | oneIf(o.Waiting != 0)*hasWaiting
	w.Byte(byte(o.Kind))
	w.Byte(fields)
	w.Uvarint(uint64(o.Ref))
	w.Uint64(uint64(o.Ballot))
	if fields&hasName != 0 {
		w.Text(o.Name)
	}
	if fields&hasWritten != 0 {
		w.Uint64(uint64(o.Written))
	}
	if fields&hasValue != 0 {
		o.Value.encode(w)
	}
	if fields&hasTicket != 0 {
		w.Uint64(uint64(o.Ticket))
	}
	if fields&hasSlots != 0 {
		w.Uvarint(uint64(o.Slots))
	}
	if fields&hasQueue != 0 {
		w.Count(len(o.Queue))
		for _, waiter := range o.Queue {
			w.Uint64(uint64(waiter.Ticket))
			w.Uvarint(uint64(waiter.Slots))
		}
	}
	if fields&hasWaiting != 0 {
		w.Uvarint(uint64(o.Waiting))
	}
}

func (v Value) encode(w *wire.Writer) {
	w.Count(len(v))
	for i := range v {
		h := &v[i]
		w.Byte(oneIf(h.Released) | oneIf(h.Heir != 0)<<1 | oneIf(h.Delay != 0)<<2)
		w.Uint64(uint64(h.Token))
		w.Uvarint(uint64(h.Until))
		w.Uvarint(uint64(h.Owner))
		w.Uint32(h.Incarnation)
		w.Uvarint(uint64(h.Slots))
		if h.Delay != 0 {
			w.Uvarint(uint64(h.Delay))
		}
		if h.Heir != 0 {
			w.Uvarint(uint64(h.Heir))
		}
		w.Text(h.Holder)
	}
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

// UnmarshalBinary decodes a batch. The error wraps errBatch.
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

// Decode decodes data into b, which is empty: new, or after Reset. The error wraps errBatch.
func (d *Decoder) Decode(data []byte, b *Batch) error {
	if len(data) > MaxBatch {
		return fmt.Errorf("%w: %d bytes, at most %d", errBatch, len(data), MaxBatch)
	}
	r := newReader(data, d)
	if v := r.Byte(); v != batchVersion {
		return fmt.Errorf("%w: version %d, this peer speaks %d", errBatch, v, batchVersion)
	}
	flags := r.Byte()
	b.Incarnation, b.Epoch, b.Digest = r.Uint32(), r.UvarintTo(1<<63-1), r.Uint32()
	if flags&1 != 0 {
		news := r.Byte()
		b.View = &ViewNews{Closed: news&1 != 0, Active: news&2 != 0, View: r.view()}
	}
	n := int(r.UvarintTo(maxOps))
	if flags > 1 || b.Incarnation == 0 || !r.ok(n*11) { // an Op has 11 bytes at least
		*b = Batch{}
		return fmt.Errorf("%w: damaged header", errBatch)
	}
	b.Ops = slices.Grow(b.Ops[:0], n)[:n]
	for i := range b.Ops {
		r.op(&b.Ops[i])
	}
	if !r.Done() {
		*b = Batch{}
		return fmt.Errorf("%w: damaged, or not %d bytes long", errBatch, len(data))
	}
	return nil
}

// reader takes fields off what came.
type reader struct {
	wire.Reader
	s string // all of what came
	d *Decoder
}

func newReader(data []byte, d *Decoder) reader {
	return reader{wire.Reader{Rest: data}, string(data), d}
}

// ok reports whether n bytes are there.
func (r *reader) ok(n int) bool {
	if n > len(r.Rest) {
		r.Fail()
	}
	return !r.Bad
}

func (r *reader) ballot() Ballot { return Ballot(r.Uint64()) }

// string takes one of at most so many bytes. It shares the memory of s.
func (r *reader) string(most uint64) string {
	n := len(r.Take(r.UvarintTo(most)))
	end := len(r.s) - len(r.Rest)
	return r.s[end-n : end]
}

func (r *reader) view() View {
	v := View{Epoch: r.UvarintTo(1<<63 - 1), Replicas: int(r.UvarintTo(maxReplicas))}
	n := int(r.UvarintTo(MaxMember))
	if !r.ok(n) {
		return View{}
	}
	v.Members = make([]machine.NodeID, n)
	for i := range v.Members {
		v.Members[i] = machine.NodeID(r.UvarintTo(MaxMember))
	}
	v.Places = r.Uint64()
	if v.Check() != nil {
		r.Fail()
	}
	return v
}

func (r *reader) op(o *Op) {
	o.Kind = Kind(r.Byte())
	fields := r.Byte()
	if o.Kind < Read || o.Kind > WrongView || fields > knownFields {
		r.Fail()
		return
	}
	o.Ref = uint32(r.UvarintTo(1<<32 - 1))
	o.Ballot = r.ballot()
	if fields&hasName != 0 {
		o.Name = r.string(maxName)
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
		o.Slots = int32(r.UvarintTo(Shared))
	}
	if fields&hasQueue != 0 {
		n := int(r.UvarintTo(maxQueue))
		if !r.ok(9 * n) {
			return
		}
		o.Queue = make([]Waiter, n)
		for i := range o.Queue {
			o.Queue[i] = Waiter{Ticket: r.ballot(), Slots: int32(r.UvarintTo(Shared))}
		}
	}
	if fields&hasWaiting != 0 {
		o.Waiting = uint32(r.UvarintTo(1<<32 - 1))
	}
}

func (r *reader) value() Value {
	n := int(r.UvarintTo(MaxHoldings))
	if !r.ok(17 * n) { // a Holding has 17 bytes at least
		return nil
	}
	v := make(Value, n)
	for i := range v {
		flags := r.Byte()
		h := Holding{Released: flags&1 != 0, Token: r.ballot(), Until: Time(r.UvarintTo(1<<42 - 1)),
			Owner: uint16(r.UvarintTo(MaxMember)), Incarnation: r.Uint32(), Slots: int32(r.UvarintTo(Shared))}
		if flags&4 != 0 {
			h.Delay = uint32(r.UvarintTo(1<<32 - 1))
		}
		if flags&2 != 0 {
			h.Heir = uint16(r.UvarintTo(MaxMember))
		}
		h.Holder = r.d.known(r.string(maxHolder))
		if flags > 7 || h.Owner == 0 || h.Slots == 0 {
			r.Fail()
		}
		v[i] = h
	}
	return v
}
