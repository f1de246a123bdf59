package file

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// claimBlock is the content of one of an area's two claim blocks: a record of package
// disklease under its version, or the note of the claim that was released last.
//
// A block cannot compare versions: the last write to land is there, and its version may be
// lower than an earlier one. That is enough for claims that are exclusive and go by their
// time stamps; package disklease's doc.go has the argument.
type claimBlock struct {
	version machine.Version
	data    []byte
}

func (c claimBlock) encode(b []byte) {
	clear(b[:block])
	f := fields{b: b[body:block]}
	f.put64(c.version.Seq)
	f.putBytes(c.version.Writer[:])
	f.put16(len(c.data))
	f.putBytes(c.data)
	seal(b, magicClaim)
}

func decodeClaim(b []byte) (c claimBlock, err error) {
	content, err := unseal(b, magicClaim)
	if err != nil {
		return c, err
	}
	f := fields{b: content}
	c.version = machine.Version{Seq: f.get64(), Writer: f.getID()}
	c.data = slices.Clone(f.take(f.get16()))
	return c, f.rest()
}

// claimed has the contents of an area's claim blocks.
type claimed struct {
	record, note claimBlock
	// unreadable is the record's block if that cannot be decoded. A note that cannot be
	// decoded counts as none: nothing is released by it.
	unreadable []byte
}

func decodeClaimed(b []byte) (c claimed) {
	var err error
	if c.record, err = decodeClaim(b[:block]); err != nil {
		c.unreadable = slices.Clone(b[:block])
	}
	if c.note, err = decodeClaim(b[block : 2*block]); err != nil {
		c.note = claimBlock{}
	}
	return c
}

// virgin reports whether nobody ever claimed the area.
func (c *claimed) virgin() bool { return c.unreadable == nil && c.record.version == machine.Version{} }

// value is the value that a claim reads. A block that cannot be decoded may be the claim of a
// living process.
func (c *claimed) value(h *storeHeader) machine.Value {
	v := machine.Value{Version: c.record.version, Data: c.record.data, Next: c.record.version.Seq + 1}
	if c.unreadable != nil {
		v.Version, v.Data = machine.Version{Seq: 1}, disklease.Unreadable(c.unreadable, h.lateWrite())
		v.Next = 2
	}
	if len(c.note.data) > 0 {
		v.Notes = []machine.Noted{{Writer: c.note.version.Writer, Data: c.note.data}}
	}
	return v
}

// claims reads the claim blocks of all areas.
func (d *device) claims() ([]claimed, error) {
	b := aligned(2 * d.header.areas * block)
	if _, err := d.f.ReadAt(b, claimAt(0)); err != nil {
		return nil, err
	}
	out := make([]claimed, d.header.areas)
	for i := range out {
		out[i] = decodeClaimed(b[2*i*block:])
	}
	return out, nil
}

// claim reads those of one.
func (d *device) claim(area int) (claimed, error) {
	b := aligned(2 * block)
	if _, err := d.f.ReadAt(b, claimAt(area)); err != nil {
		return claimed{}, err
	}
	return decodeClaimed(b), nil
}

func (d *device) write(c claimBlock, at int64) error {
	b := aligned(block)
	c.encode(b)
	_, err := d.f.WriteAt(b, at)
	return err
}
