package disklease

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// ErrRecord is data in the register that is no record of ours. It is never taken
// for a free lease.
var ErrRecord = errors.New("the register holds something that is not a lease record of this version")

// record is the content of register x: the claims that hold the lease, or did when it was
// written.
type record struct {
	delay   time.Duration // δ for all waits of a claim that reads this record (T-1)
	entries []entry
}

// entry is one claim in the record. Figure 2's timestamp is the pair (id, stamp).
type entry struct {
	id        machine.ID
	stamp     uint64
	slots     uint64
	token     uint64 // 0 in the record that brought the entry: then it is that version's Seq
	lockDelay time.Duration
	holder    string
}

// note is what a claim keeps beside the register for itself alone.
type note struct {
	ticket    uint64 // place in the queue while it waits; 0 when it does not
	slots     uint64 // of the claim that waits
	heartbeat uint64 // grows while it waits and lives
	stamp     uint64 // of the entry that beat is about
	beat      uint64 // grows while a shared entry is held
	released  uint64 // stamp of an entry that was held and is no more
}

const format = 1

// encode writes what δ has more than initial, the header's.
func (r record) encode(initial time.Duration) []byte {
	w := wire.Writer{format}
	w.Uvarint(uint64(r.delay - initial))
	w.Count(len(r.entries))
	for _, e := range r.entries {
		w.Put(e.id[:])
		for _, v := range []uint64{e.stamp, e.slots, e.token, uint64(e.lockDelay)} {
			w.Uvarint(v)
		}
		w.Text(e.holder)
	}
	return w
}

func (n note) encode() []byte {
	w := wire.Writer{format}
	for _, v := range []uint64{n.ticket, n.slots, n.heartbeat, n.stamp, n.beat, n.released} {
		w.Uvarint(v)
	}
	return w
}

// reader takes fields off what a register shows.
type reader struct{ wire.Reader }

// begin checks the format.
func begin(data []byte) (*reader, error) {
	if len(data) == 0 || data[0] != format {
		return nil, fmt.Errorf("%w: it begins with %.8x", ErrRecord, data)
	}
	return &reader{wire.Reader{Rest: data[1:]}}, nil
}

func (r *reader) end() error {
	if !r.Done() {
		return fmt.Errorf("%w: it is too short or too long", ErrRecord)
	}
	return nil
}

// Unreadable returns what a driver shows a claim in place of a record that it cannot decode,
// of these bytes: that of a claim which nobody knows. As long as the bytes change, or have
// not stayed for longer than a claim with that lock delay may last, somebody may hold.
func Unreadable(raw []byte, lockDelay time.Duration) []byte {
	e := entry{stamp: 1, slots: 1, lockDelay: lockDelay}
	sum := sha256.Sum256(raw)
	copy(e.id[:], sum[:])
	return record{entries: []entry{e}}.encode(0)
}

// decodeRecord reads what a register shows. initial is δ where nothing was written yet.
func decodeRecord(v machine.Value, initial time.Duration) (record, error) {
	if v.Version == (machine.Version{}) {
		return record{delay: initial}, nil
	}
	r, err := begin(v.Data)
	if err != nil {
		return record{}, err
	}
	rec := record{delay: initial + time.Duration(r.Uvarint())}
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		var e entry
		copy(e.id[:], r.Take(uint64(len(e.id))))
		e.stamp, e.slots, e.token = r.Uvarint(), r.Uvarint(), r.Uvarint()
		e.lockDelay = time.Duration(r.Uvarint())
		e.holder = r.Text()
		if e.token == 0 {
			e.token = v.Version.Seq
		}
		rec.entries = append(rec.entries, e)
	}
	if rec.delay < initial {
		return record{}, fmt.Errorf("%w: its delay is %v", ErrRecord, rec.delay)
	}
	return rec, r.end()
}

func decodeNote(data []byte) (note, error) {
	r, err := begin(data)
	if err != nil {
		return note{}, err
	}
	n := note{r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()}
	return n, r.end()
}
