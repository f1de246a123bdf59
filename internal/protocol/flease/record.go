package flease

import (
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/wire"
)

// Record is the state that outlives a peer: one step of a Durable one, or all live state at
// a planned shutdown. Later records of a sequence replace what earlier ones say of a name.
type Record struct {
	// Floor: every ballot up to this time has been, or may have been, refused or forgotten.
	Floor Time
	// Highest is the greatest ballot that the peer has drawn or seen.
	Highest Ballot
	Cells   []CellRecord
	// Silent: the peer was in quarantine, and there may be more that it had forgotten. The
	// next life has a quarantine of its own, and this record keeps its tokens from going
	// back.
	Silent bool
}

// CellRecord is the state of an acceptor for one resource: readi, writei and vi of
// Algorithm 1, the greater of the first two in one word (E11).
type CellRecord struct {
	Name              string
	Promised, Written Ballot
	Value             Value
}

// Version 2 is a Silent one: a peer that knows only version 1 has a quarantine anyway.
const recordVersion, silentVersion = 1, 2

// errRecord is an encoding of a record that no peer wrote.
var errRecord = errors.New("flease: bad record")

// MarshalBinary encodes a record. Its storage sees to damage.
func (r *Record) MarshalBinary() ([]byte, error) {
	w := wire.Writer{recordVersion + oneIf(r.Silent)*(silentVersion-recordVersion)}
	w.Varint(int64(r.Floor))
	w.Uint64(uint64(r.Highest))
	w.Count(len(r.Cells))
	for i := range r.Cells {
		c := &r.Cells[i]
		w.Text(c.Name)
		w.Uint64(uint64(c.Promised))
		w.Uint64(uint64(c.Written))
		w.Byte(oneIf(c.Value != nil))
		if c.Value != nil {
			c.Value.encode(&w)
		}
	}
	return w, nil
}

// UnmarshalBinary decodes a record. The error wraps errRecord.
func (r *Record) UnmarshalBinary(data []byte) error {
	rd := newReader(data, new(Decoder))
	version := rd.Byte()
	if version != recordVersion && version != silentVersion {
		return fmt.Errorf("%w: version %d, this peer knows %d and %d", errRecord, version, recordVersion, silentVersion)
	}
	floor := rd.Varint()
	if rd.Bad {
		return fmt.Errorf("%w: damaged at its beginning", errRecord)
	}
	*r = Record{Floor: Time(floor), Highest: rd.ballot(), Silent: version == silentVersion}
	for count := rd.UvarintTo(1 << 32); count > 0 && !rd.Bad; count-- {
		c := CellRecord{Name: rd.string(maxName), Promised: rd.ballot(), Written: rd.ballot()}
		if rd.Byte() == 1 {
			c.Value = rd.value()
		}
		r.Cells = append(r.Cells, c)
	}
	if !rd.Done() {
		return fmt.Errorf("%w: damaged, or not %d bytes long", errRecord, len(data))
	}
	return nil
}
