package file

import (
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// record is one writer's entry of one register, as it is in a block.
type record struct {
	handle  machine.ID // in whose place it stands
	slot    int        // where in that
	gen     uint64     // grows with each write of the slot
	writer  machine.ID
	name    string // empty: the slot was never used
	floor   uint64 // a Seq that has been in use somewhere in the store
	version machine.Version
	data    []byte
	noteSeq uint64 // 0: no note
	note    []byte
}

func (r *record) encode(b []byte) {
	clear(b[:block])
	f := fields{b: b[body:block]}
	f.put32(uint32(r.slot))
	f.putBytes(r.handle[:])
	f.put64(r.gen)
	f.put64(r.floor)
	f.putBytes(r.writer[:])
	f.put64(r.version.Seq)
	f.putBytes(r.version.Writer[:])
	f.put64(r.noteSeq)
	f.put16(len(r.name))
	f.put16(len(r.data))
	f.put16(len(r.note))
	f.putBytes([]byte(r.name))
	f.putBytes(r.data)
	f.putBytes(r.note)
	seal(b, magicRecord)
}

// decodeRecord reads a block. The result shares no memory with b.
func decodeRecord(b []byte) (*record, error) {
	content, err := unseal(b, magicRecord)
	if err != nil {
		return nil, err
	}
	f := fields{b: content}
	r := &record{slot: int(f.get32()), handle: f.getID(), gen: f.get64(), floor: f.get64(), writer: f.getID()}
	r.version = machine.Version{Seq: f.get64(), Writer: f.getID()}
	r.noteSeq = f.get64()
	name, data, note := f.get16(), f.get16(), f.get16()
	if name > register.MaxName || data > register.MaxData || note > register.MaxNote {
		return nil, errForm
	}
	r.name = string(f.take(name))
	r.data = append([]byte(nil), f.take(data)...)
	r.note = append([]byte(nil), f.take(note)...)
	return r, f.rest()
}

// top is the greatest Seq that the record knows of.
func (r *record) top() uint64 { return max(r.floor, r.version.Seq) }

// wrote reports whether the record holds data, under any version.
func (r *record) wrote() bool { return r.version != machine.Version{} }

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a register needs a name")
	case len(name) > register.MaxName:
		return fmt.Errorf("%w: the name %.20q… has %d bytes, at most %d are possible", register.ErrTooLong, name, len(name), register.MaxName)
	}
	return nil
}
