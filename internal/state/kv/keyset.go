package kv

// keySet is the set of a lease's keys, in order. Most leases have one key or none,
// which costs no memory beside the lease's own; larger sets are copy-on-write
// trees.
type keySet struct {
	one  *item    // the only one
	many *keyTree // nil: there are less than two
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
	switch {
	case k.many != nil:
		k.many.Set(text(it.key()), it)
	case k.one == nil || k.one == it:
		k.one = it
	default:
		k.many = new(keyTree)
		k.many.Set(text(k.one.key()), k.one)
		k.many.Set(text(it.key()), it)
		k.one = nil
	}
}

func (k *keySet) remove(it *item) {
	switch {
	case k.one == it:
		k.one = nil
	case k.many != nil:
		k.many.Delete(text(it.key()))
		if k.many.Len() == 1 {
			_, k.one, _ = k.many.Min()
			k.many = nil
		}
	}
}

// bytes is about what the set takes beside its lease.
func (k *keySet) bytes() int64 {
	if k.many == nil {
		return 0
	}
	return int64(k.many.Len()) * tiedBytes
}

// scan visits the keys in order until visit returns false.
func (k *keySet) scan(visit func(*item) bool) {
	switch {
	case k.one != nil:
		visit(k.one)
	case k.many != nil:
		k.many.Scan(func(_ string, it *item) bool { return visit(it) })
	}
}

func (k *keySet) len() int {
	switch {
	case k.one != nil:
		return 1
	case k.many != nil:
		return k.many.Len()
	}
	return 0
}
