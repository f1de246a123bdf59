package flease

import (
	"encoding/binary"
	"errors"
	"fmt"
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

// ErrRecord is an encoding of a record that no peer wrote.
var ErrRecord = errors.New("flease: bad record")

// MarshalBinary encodes a record. Its storage sees to damage.
func (r *Record) MarshalBinary() ([]byte, error) {
	dst := []byte{recordVersion + oneIf(r.Silent)*(silentVersion-recordVersion)}
	dst = binary.AppendVarint(dst, int64(r.Floor))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Highest))
	dst = binary.AppendUvarint(dst, uint64(len(r.Cells)))
	for i := range r.Cells {
		c := &r.Cells[i]
		dst = appendString(dst, c.Name)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Promised))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Written))
		dst = append(dst, oneIf(c.Value != nil))
		if c.Value != nil {
			dst = c.Value.append(dst)
		}
	}
	return dst, nil
}

// UnmarshalBinary decodes a record. The error wraps ErrRecord.
func (r *Record) UnmarshalBinary(data []byte) error {
	rd := reader{b: data, s: string(data), d: new(Decoder)}
	version := rd.byte()
	if version != recordVersion && version != silentVersion {
		return fmt.Errorf("%w: version %d, this peer knows %d and %d", ErrRecord, version, recordVersion, silentVersion)
	}
	floor, n := binary.Varint(data[rd.at:])
	if n <= 0 {
		return fmt.Errorf("%w: damaged at its beginning", ErrRecord)
	}
	rd.at += n
	*r = Record{Floor: Time(floor), Highest: rd.ballot(), Silent: version == silentVersion}
	for count := rd.uvarint(1 << 32); count > 0 && !rd.bad; count-- {
		c := CellRecord{Name: rd.string(MaxName), Promised: rd.ballot(), Written: rd.ballot()}
		if rd.byte() == 1 {
			c.Value = rd.value()
		}
		r.Cells = append(r.Cells, c)
	}
	if rd.bad || rd.at != len(data) {
		return fmt.Errorf("%w: damaged at byte %d of %d", ErrRecord, rd.at, len(data))
	}
	return nil
}
