package replica

import (
	"cmp"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// unapplied is the end of the log that the Applier has not applied.
type unapplied struct {
	tail     []*raftpb.Entry
	settings []uint64        // entries of it that change the holders of keys
	held     []*raftpb.Entry // committed and not given to the Applier
	loading  uint64          // the index of the snapshot that is being loaded; 0: none is
}

// cut forgets the entries from an index on.
func (u *unapplied) cut(from uint64) {
	n, _ := u.search(from)
	u.tail = u.tail[:n:n]
}

// add takes entries that are being appended.
func (u *unapplied) add(entries []*raftpb.Entry) {
	u.tail = append(u.tail, entries...)
	for len(u.settings) > 0 && u.settings[len(u.settings)-1] >= entries[0].GetIndex() {
		u.settings = u.settings[:len(u.settings)-1]
	}
}

// search finds an entry.
func (u *unapplied) search(index uint64) (n int, found bool) {
	return slices.BinarySearchFunc(u.tail, index, func(e *raftpb.Entry, i uint64) int { return cmp.Compare(e.GetIndex(), i) })
}

// forget gives up what was applied.
func (u *unapplied) forget(applied uint64) {
	for len(u.tail) > 0 && u.tail[0].GetIndex() <= applied {
		u.tail = u.tail[1:]
	}
	for len(u.settings) > 0 && u.settings[0] <= applied {
		u.settings = u.settings[1:]
	}
}

// take returns the committed entries up to an index that the Applier has not been given.
func (u *unapplied) take(upTo uint64) []*raftpb.Entry {
	n := 0
	for n < len(u.held) && u.held[n].GetIndex() <= upTo {
		n++
	}
	entries := u.held[:n:n]
	u.held = u.held[n:]
	return entries
}

// bytes returns how much it is.
func (u *unapplied) bytes() (n int) {
	for _, e := range u.tail {
		n += entryBytes(e)
	}
	return n
}

// unsettled reports whether the log has an entry that changes the holders of keys, and that is
// not applied. Until it is, this member cannot read in the order of the log, for by that entry
// it may hold less (R13).
func (u *unapplied) unsettled() bool { return u.loading != 0 || len(u.settings) > 0 }
