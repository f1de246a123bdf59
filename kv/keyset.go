package kv

import (
	"slices"
	"strings"
)

// fewKeys is how many keys a keySet holds in a slice.
const fewKeys = 4

// keySet is the set of a lease's keys, in order. Most leases have one key, which
// costs a pointer; large sets are copy-on-write trees. The slice is never changed
// in place, so that a copy of the value shares it.
type keySet struct {
	few  []*item
	many *keyTree // nil: all are in few
}

// copy gives a set that can be changed without changing k. It may be called beside
// readers of k: copying a tree changes only what writers of the tree look at.
func (k keySet) copy() keySet {
	if k.many != nil {
		k.many = k.many.Copy()
	}
	return k
}

func (k *keySet) add(it *item) {
	if k.many != nil {
		k.many.Set(text(it.key()), it)
		return
	}
	i, found := k.search(it)
	if found {
		return
	}
	if len(k.few) < fewKeys {
		few := make([]*item, len(k.few)+1)
		copy(few, k.few[:i])
		few[i] = it
		copy(few[i+1:], k.few[i:])
		k.few = few
		return
	}
	k.many = new(keyTree)
	for _, other := range k.few {
		k.many.Set(text(other.key()), other)
	}
	k.many.Set(text(it.key()), it)
	k.few = nil
}

func (k *keySet) remove(it *item) {
	if k.many != nil {
		k.many.Delete(text(it.key()))
		if k.many.Len() == 0 {
			k.many = nil
		}
		return
	}
	i, found := k.search(it)
	switch {
	case !found:
	case len(k.few) == 1:
		k.few = nil
	default:
		k.few = slices.Concat(k.few[:i], k.few[i+1:])
	}
}

func (k *keySet) search(it *item) (int, bool) {
	return slices.BinarySearchFunc(k.few, text(it.key()), func(other *item, key string) int {
		return strings.Compare(text(other.key()), key)
	})
}

// scan visits the keys in order until visit returns false.
func (k *keySet) scan(visit func(*item) bool) {
	if k.many != nil {
		k.many.Scan(func(_ string, it *item) bool { return visit(it) })
		return
	}
	for _, it := range k.few {
		if !visit(it) {
			return
		}
	}
}

func (k *keySet) len() int {
	if k.many != nil {
		return k.many.Len()
	}
	return len(k.few)
}
