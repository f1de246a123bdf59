package kv

import (
	"sync/atomic"
	"unsafe"

	"github.com/tidwall/btree"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// version is a key-value since one revision, or the tombstone of a deleted key.
// It fills a size class of 128 bytes exactly.
type version struct {
	// kv never changes after the version was linked. A tombstone has only Key and
	// ModRevision.
	kv mvccpb.KeyValue
	// prev is the version before; nil if there is none or it was reclaimed.
	prev atomic.Pointer[version]
}

func (v *version) dead() bool { return v.kv.Version == 0 }

// item is a key: the newest of its versions, never nil once it is in a tree.
type item struct {
	head atomic.Pointer[version]
}

// live is the newest version, or nil if the key is deleted.
func (it *item) live() *version {
	if v := it.head.Load(); v != nil && !v.dead() {
		return v
	}
	return nil
}

// at is the version that is visible at revision rev, or nil.
func (it *item) at(rev int64) *version {
	v := it.head.Load()
	for v != nil && v.kv.ModRevision > rev {
		v = v.prev.Load()
	}
	if v == nil || v.dead() {
		return nil
	}
	return v
}

func (it *item) key() []byte { return it.head.Load().kv.Key }

// keyTree holds items by key.
type keyTree = btree.Map[string, *item]

// text is b as a string without a copy. Keys in requests and in the store are
// never changed, which is what makes this sound.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// fromKey is the range end that stands for no end.
const fromKey = "\x00"

// scan calls visit with the items of [key, end) in order until it returns false.
// An empty end means key alone, the end "\x00" means no end, as in etcd's API.
func scan(keys *keyTree, key, end []byte, visit func(*item) bool) {
	first, last := text(key), text(end)
	switch last {
	case "":
		if it, ok := keys.Get(first); ok {
			visit(it)
		}
	case fromKey:
		keys.Ascend(first, func(_ string, it *item) bool { return visit(it) })
	default:
		keys.Ascend(first, func(k string, it *item) bool { return k < last && visit(it) })
	}
}
