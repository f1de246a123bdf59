package placement

import (
	"bytes"
	"math"
	"math/bits"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// format is the first byte of an encoded configuration.
const format = 1

// Encode writes the configuration; equal ones give the same bytes. The size is 3
// bytes a member, the keys and 4 bytes a cell, and 2 to 3 bytes for each run of
// neighbouring buckets with the same holders. So 65,536 buckets of five members
// that all differ from their neighbours take 128 KiB, and a configuration with
// nothing special takes 9 bytes.
//
//	1, members, each ID less the one before, default,
//	cells, each: key's length, key, end's length, end, holders,
//	0 or 1 + log2(buckets), and runs: length, holders, until all buckets are named
//
// Numbers are varints.
func (c *Configuration) Encode() []byte {
	w := wire.Writer{format}
	writeMembers(&w, c.members)
	w.Uvarint(uint64(c.fallback))
	w.Count(len(c.cells))
	for _, cell := range c.cells {
		w.Bytes(cell.Key)
		w.Bytes(cell.End)
		w.Uvarint(uint64(cell.Holders))
	}
	w.Byte(byte(bits.Len(uint(len(c.buckets)))))
	for i := 0; i < len(c.buckets); {
		run := 1
		for i+run < len(c.buckets) && c.buckets[i+run] == c.buckets[i] {
			run++
		}
		w.Uvarint(uint64(run))
		w.Uvarint(uint64(c.buckets[i]))
		i += run
	}
	return w
}

// Decode reads what Encode wrote. Anything else is refused with ErrConfiguration:
// damage, overlapping cells, unknown members, and bytes that Encode would have
// written differently. It keeps no reference to data.
func Decode(data []byte) (*Configuration, error) {
	r := newReader(data, ErrConfiguration)
	if v := r.number(255, "the format"); r.err == nil && v != format {
		r.fail("format %d is not known here: a newer version wrote it", v)
	}
	members := make([]machine.NodeID, r.count(maxMembers, "members"))
	var last uint64
	for i := range members {
		last += r.number(math.MaxUint64-last, "a member")
		members[i] = machine.NodeID(last)
	}
	fallback := Set(r.number(math.MaxUint64, "the default"))
	cells := make([]Cell, r.count(maxCells, "cells"))
	for i := range cells {
		cells[i] = Cell{r.text(maxKey, "a key"), r.text(maxKey, "an end"), Set(r.number(math.MaxUint64, "holders"))}
	}
	var buckets []Set
	if n := r.number(uint64(bits.Len(MaxBuckets)), "the number of buckets"); n > 0 && r.err == nil {
		buckets = make([]Set, 0, 1<<(n-1))
	}
	for len(buckets) < cap(buckets) && r.err == nil {
		run := int(r.number(uint64(cap(buckets)-len(buckets)), "a run of buckets"))
		s := Set(r.number(math.MaxUint64, "holders of buckets"))
		if run == 0 {
			r.fail("a run of no buckets")
		}
		for range run {
			buckets = append(buckets, s)
		}
	}
	if err := r.done(); err != nil {
		return nil, err
	}
	c, err := New(members, fallback, cells, buckets)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(c.Encode(), data) {
		r.fail("it is not in the one form in which it is written")
		return nil, r.err
	}
	return c, nil
}
