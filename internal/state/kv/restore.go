package kv

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tenure-lease/tenure/internal/wire"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Read makes a Store of a snapshot, which must be all that r holds. It returns
// errSnapshotCorrupt for bytes that no View wrote, errSnapshotVersion, or an
// error of r. It needs no more memory than the snapshot is long, times a small
// factor, whatever the bytes say.
func Read(r io.Reader) (*Store, error) {
	d := &decoder{in: bufio.NewReaderSize(r, 64<<10)}
	s := New()
	err := d.store(s)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: it ends too early", errSnapshotCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("read snapshot at byte %d: %w", d.n, err)
	}
	return s, nil
}

func corrupt(why string) error { return fmt.Errorf("%w: %s", errSnapshotCorrupt, why) }

// decoder reads and sums up. Its number and bytes methods keep the first error and
// give zeros after it.
type decoder struct {
	in     *bufio.Reader
	n      int64
	crc    uint32
	err    error
	failed bool  // in gave no byte
	head   int64 // where the records begin
}

// ReadByte makes the decoder an io.ByteReader for varints.
func (d *decoder) ReadByte() (byte, error) {
	b, err := d.in.ReadByte()
	if err == nil {
		d.n++
		d.crc = wire.Extend(d.crc, []byte{b})
	}
	d.failed = err != nil
	return b, err
}

func (d *decoder) number() (n int64) {
	if d.err == nil {
		n, d.err = binary.ReadVarint(d)
		d.noteVarint()
	}
	return n
}

// noteVarint gives the error of an overlong varint its proper name. A failed read proves
// nothing about the snapshot.
func (d *decoder) noteVarint() {
	if d.err != nil && !d.failed {
		d.err = corrupt(d.err.Error())
	}
}

// maxRevision leaves room for more than will ever happen.
const maxRevision = 1 << 62

// grain is how much memory a length is believed at once.
const grain = 1 << 20

func (d *decoder) bytes() []byte {
	if d.err != nil {
		return nil
	}
	var size uint64
	size, d.err = binary.ReadUvarint(d)
	d.noteVarint()
	if d.err != nil || size == 0 {
		return nil
	}
	if size <= grain {
		b := make([]byte, size)
		d.fill(b)
		return b
	}
	if size > 1<<40 {
		d.err = corrupt("absurd length")
		return nil
	}
	var all bytes.Buffer
	var n int64
	n, d.err = io.CopyN(&all, d.in, int64(size))
	d.n += n
	d.crc = wire.Extend(d.crc, all.Bytes())
	return bytes.Clone(all.Bytes())
}

func (d *decoder) fill(b []byte) {
	var n int
	n, d.err = io.ReadFull(d.in, b)
	d.n += int64(n)
	d.crc = wire.Extend(d.crc, b[:n])
}

// store fills s, which is new.
func (d *decoder) store(s *Store) error {
	if err := d.header(s); err != nil {
		return err
	}
	order := byte(recordBase) // the kinds come in this order
	var lastKey []byte
	var lastLease int64
	for {
		kind, err := d.ReadByte()
		if err != nil {
			return err
		}
		stage := kind
		switch {
		case kind == recordRaised && d.n == d.head+1 && s.compact > 1:
			s.raised = s.compact
			continue
		case kind == recordDelete:
			stage = recordPut
		}
		if kind > recordLease || kind != recordEnd && stage < order {
			return corrupt("unexpected kind of record")
		}
		order = max(order, stage)
		switch kind {
		case recordEnd:
			if err := d.end(); err != nil {
				return err
			}
			return s.complete()
		case recordLease:
			lastLease, err = d.lease(s, lastLease)
		default:
			v := d.version(kind)
			if err = d.err; err == nil {
				err = s.replay(kind, v, lastKey)
				lastKey = v.kv.Key
			}
		}
		if err != nil {
			return err
		}
	}
}

func (d *decoder) header(s *Store) error {
	head := make([]byte, len(snapshotMagic)+4)
	if d.fill(head); d.err != nil {
		return d.err
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return corrupt("it is not a snapshot of this program")
	}
	if v := binary.BigEndian.Uint32(head[len(snapshotMagic):]); v != snapshotVersion {
		return fmt.Errorf("%w: %d", errSnapshotVersion, v)
	}
	revision, compact := d.number(), d.number()
	if d.err != nil {
		return d.err
	}
	d.head = d.n
	return s.begin(revision, compact)
}

func (d *decoder) version(kind byte) *version {
	v := new(version)
	kv := &v.kv
	if kind == recordDelete {
		kv.ModRevision = d.number()
		kv.Key = d.bytes()
		return v
	}
	kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease = d.number(), d.number(), d.number(), d.number()
	kv.Key, kv.Value = d.bytes(), d.bytes()
	return v
}

func (d *decoder) lease(s *Store, last int64) (int64, error) {
	l := LeaseInfo{ID: d.number(), TTL: d.number(), Remaining: d.number()}
	if d.err != nil {
		return 0, d.err
	}
	return l.ID, s.restoreLease(l, last)
}

func (d *decoder) end() error {
	want := d.crc
	var sum [4]byte
	if d.fill(sum[:]); d.err != nil {
		return d.err
	}
	if binary.BigEndian.Uint32(sum[:]) != want {
		return corrupt("the checksum does not match")
	}
	switch _, err := d.in.ReadByte(); err {
	case io.EOF:
		return nil
	case nil:
		return corrupt("there is more after its end")
	default:
		return err
	}
}

// replay adds a version that was read, if it can follow what is there.
func (s *Store) replay(kind byte, v *version, lastKey []byte) error {
	kv := &v.kv
	if len(kv.Key) == 0 || kv.ModRevision < 2 || kv.ModRevision > s.revision {
		return corrupt("impossible key or revision")
	}
	it, known := s.keys.Get(text(kv.Key))
	if !known {
		it = new(item)
	} else {
		kv.Key = it.key()
	}
	newest, live := it.head.Load(), it.live()
	switch kind {
	case recordBase:
		if bytes.Compare(kv.Key, lastKey) <= 0 || kv.ModRevision >= s.compact || !plausible(kv) {
			return corrupt("impossible key at the compact revision")
		}
		it.head.Store(v)
	default:
		if !s.follows(v, live) {
			return corrupt("impossible event")
		}
		if newest != nil {
			v.prev.Store(newest)
		}
		it.head.Store(v)
		s.log.add(v)
	}
	if !known {
		s.keys.Set(text(kv.Key), it)
	}
	s.stats.add(v, newest)
	return nil
}

// plausible judges a put by itself.
func plausible(kv *mvccpb.KeyValue) bool {
	return kv.Version >= 1 && kv.CreateRevision >= 2 && kv.CreateRevision <= kv.ModRevision
}

// lastReplayed is the revision of the last event that was read. Before the first
// it is the one before the compact revision, for each revision from there on has
// an event, but for one that was raised.
func (s *Store) lastReplayed() int64 {
	switch {
	case s.log.n == 0 && s.raised > 0:
		return s.compact
	case s.log.n == 0:
		return max(s.compact, 2) - 1
	}
	return s.log.at(s.log.n - 1).kv.ModRevision
}

// follows reports whether v can be the next event, after live, the key's newest
// version if it exists. The versions before events at the compact revision are
// gone.
func (s *Store) follows(v, live *version) bool {
	kv, last := &v.kv, s.lastReplayed()
	if kv.ModRevision != last+1 && (s.log.n == 0 || kv.ModRevision != last) {
		return false
	}
	orphan := live == nil && kv.ModRevision == s.compact
	switch {
	case v.dead():
		return live != nil || orphan
	case !plausible(kv):
		return false
	case live != nil:
		return kv.CreateRevision == live.kv.CreateRevision && kv.Version == live.kv.Version+1
	default:
		return kv.CreateRevision == kv.ModRevision && kv.Version == 1 || orphan
	}
}

// attachAll ties all keys to their leases.
func (s *Store) attachAll() (err error) {
	s.keys.Scan(func(_ string, it *item) bool {
		v := it.live()
		if v == nil || v.kv.Lease == 0 {
			return true
		}
		if _, ok := s.leases.Get(v.kv.Lease); !ok {
			err = corrupt("a key has a lease that does not exist")
			return false
		}
		s.attach(v.kv.Lease, it)
		return true
	})
	return err
}
