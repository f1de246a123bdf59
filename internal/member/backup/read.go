package backup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Content is what a file has.
type Content struct {
	Revision int64  // the newest
	Compact  int64  // the oldest that can be read; -1: all of them
	Keys     int    // that exist
	Leases   int    // that are granted
	Orphans  int    // keys whose lease is not there: they stay, without a lease
	Version  string // of etcd's data format; empty before etcd 3.6
	Bytes    int64  // of the database
	Hash     uint32 // CRC-32C of all buckets, as etcd's tools print it

	raised bool
	base   []*mvccpb.KeyValue
	events []*mvccpb.KeyValue
	leases []kv.LeaseInfo
	users  *auth.State
}

var errNotThere = errors.New("it has no bucket of keys: it is not a snapshot of etcd's or of `tenure snapshot save`")

// Read reads a file, and judges that it is whole as far as that can be seen without its checksum (CheckSum).
func Read(path string) (c *Content, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	// A file that is damaged may lead the database's own code astray, in memory that is mapped. Its
	// own check would panic in a goroutine of its own.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			c, err = nil, fmt.Errorf("%s: it is damaged: %v", path, r)
		}
	}()
	db, err := bbolt.Open(path, 0o400, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return nil, fmt.Errorf("%s: it is no database of etcd's: %w", path, err)
	}
	defer db.Close()
	c = new(Content)
	if err := db.View(c.read); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c *Content) read(tx *bbolt.Tx) error {
	c.Bytes = tx.Size()
	keys, meta, leases := tx.Bucket(keyBucket), tx.Bucket(metaBucket), tx.Bucket(leaseBucket)
	if keys == nil || meta == nil {
		return errNotThere
	}
	if err := c.readUsers(tx); err != nil {
		return err
	}
	c.Version = string(meta.Get(storageVersion))
	if err := c.hash(tx); err != nil {
		return err
	}
	if err := c.readCompact(keys, meta); err != nil {
		return err
	}
	if err := c.readKeys(keys); err != nil {
		return err
	}
	if leases == nil {
		return c.tie()
	}
	err := leases.ForEach(func(k, v []byte) error {
		l, err := decodeLease(v)
		if err == nil && !bytes.Equal(leaseKey(l.ID), k) {
			err = errLease
		}
		c.leases = append(c.leases, l)
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(c.leases, func(a, b kv.LeaseInfo) int { return cmp.Compare(a.ID, b.ID) })
	return c.tie()
}

// hash sums up all buckets.
func (c *Content) hash(tx *bbolt.Tx) error {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		h.Write(name)
		err := b.ForEach(func(k, v []byte) error {
			h.Write(k)
			h.Write(v)
			return nil
		})
		c.Hash = h.Sum32()
		return err
	})
}

// readCompact finds the oldest revision from which on nothing is missing.
func (c *Content) readCompact(keys, meta *bbolt.Bucket) error {
	c.Compact = -1
	for _, name := range [][]byte{scheduledCompact, finishedCompact} {
		if b := meta.Get(name); b != nil {
			r, err := decodeRevision(b)
			if err != nil {
				return err
			}
			if r.main > 0 {
				c.Compact = max(c.Compact, r.main)
			}
		}
	}
	last := max(c.Compact, 1)
	err := keys.ForEach(func(k, v []byte) error {
		r, err := decodeRevision(k)
		if err != nil || r.main < c.Compact {
			return err
		}
		if empty(r, v) || r.main > last+1 {
			c.Compact = r.main
		}
		last = r.main
		return nil
	})
	c.Revision = last
	if err != nil || c.Compact < 2 {
		return err
	}
	c.raised = true // unless something happened at the compact revision
	if k, v := keys.Cursor().Seek(revision{main: c.Compact}.encode()); k != nil {
		r, err := decodeRevision(k)
		c.raised = r.main != c.Compact || empty(r, v)
		return err
	}
	return nil
}

// empty reports whether an entry of the bucket of keys is no change of a key: a restore has raised the revision.
func empty(r revision, value []byte) bool { return len(value) == 0 && !r.deletion }

// readKeys reads what is visible at the compact revision and what came later.
func (c *Content) readKeys(keys *bbolt.Bucket) error {
	visible := map[string]*mvccpb.KeyValue{}
	err := keys.ForEach(func(k, v []byte) error {
		r, err := decodeRevision(k)
		if err != nil || empty(r, v) {
			return err
		}
		kv := new(mvccpb.KeyValue)
		if err := proto.Unmarshal(v, kv); err != nil {
			return fmt.Errorf("a value of the bucket of keys is no key-value: %w", err)
		}
		if r.deletion {
			kv = &mvccpb.KeyValue{Key: kv.Key, ModRevision: r.main}
		} else if kv.ModRevision != r.main {
			return errors.New("a value of the bucket of keys is of another revision")
		}
		if r.main <= c.Compact {
			if visible[string(kv.Key)] = kv; r.deletion {
				delete(visible, string(kv.Key))
			}
		}
		if r.main >= c.Compact {
			c.events = append(c.events, kv)
		}
		return nil
	})
	for _, kv := range visible {
		if kv.ModRevision < c.Compact {
			c.base = append(c.base, kv)
		}
	}
	c.sortBase()
	return err
}

func (c *Content) sortBase() {
	slices.SortFunc(c.base, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
}

// newest returns the key-values that exist, by key.
func (c *Content) newest() map[string]*mvccpb.KeyValue {
	newest := map[string]*mvccpb.KeyValue{}
	for _, kv := range c.base {
		newest[string(kv.Key)] = kv
	}
	for _, kv := range c.events {
		if newest[string(kv.Key)] = kv; kv.Version == 0 {
			delete(newest, string(kv.Key))
		}
	}
	return newest
}

// tie counts, and takes leases that are not there off the keys.
func (c *Content) tie() error {
	newest := c.newest()
	c.Keys, c.Leases = len(newest), len(c.leases)
	for _, kv := range newest {
		_, found := slices.BinarySearchFunc(c.leases, kv.Lease, func(l leaseInfo, id int64) int { return cmp.Compare(l.ID, id) })
		if kv.Lease != 0 && !found {
			kv.Lease = 0
			c.Orphans++
		}
	}
	return nil
}

type leaseInfo = kv.LeaseInfo

// Raise adds to the revision, and compacts all history before that. Watches of clients that have seen a later
// state than the file's begin anew then, and no revision that they know comes a second time with another content.
func (c *Content) Raise(by int64) error {
	if by < 1 || by > maxRaise {
		return fmt.Errorf("a revision is raised by 1 to %d, and not by %d", int64(maxRaise), by)
	}
	newest := c.newest()
	c.base = c.base[:0:0]
	for _, kv := range newest {
		c.base = append(c.base, kv)
	}
	c.sortBase()
	c.Revision += by
	c.Compact, c.raised, c.events = c.Revision, true, nil
	return nil
}

// maxRaise leaves room for as many revisions as will ever be.
const maxRaise = 1 << 60

// Store makes a state of the content, which is used up.
func (c *Content) Store() (*kv.Store, error) {
	s, err := kv.Build(kv.Content{
		Revision: c.Revision, Compact: c.Compact, Raised: c.raised,
		Base: slices.Values(c.base), Events: slices.Values(c.events), Leases: slices.Values(c.leases),
	})
	if err != nil {
		return nil, fmt.Errorf("its history makes no sense: %w", err)
	}
	return s, nil
}
