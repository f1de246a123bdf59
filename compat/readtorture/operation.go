package readtorture

import (
	"fmt"
	"slices"
	"time"
)

// together is how many keys make an object: they are read and written together.
const together = 3

// kind is by which call an operation was made.
type kind int

const (
	kindGet    kind = iota
	kindSerial      // a serializable get
	kindRange       // of the object
	kindReadTxn
	kindPut
	kindDelete
	kindClear // a range of the object
	kindCAS   // a txn: if the value is Old then put Value, else get
	kindTxn   // a range of the object, then puts of some of its keys
)

var kindNames = [...]string{"get", "serializable get", "range", "read txn", "put", "delete", "clear", "cas", "txn"}

func (k kind) String() string               { return kindNames[k] }
func (k kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

func (k *kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("there is no operation %q", text)
	}
	*k = kind(i)
	return nil
}

// operation is one call and its result. It is about the keys of one object.
type operation struct {
	Member int
	Kind   kind
	Object string
	Looks  [together]bool // the keys that it reads, before it writes
	Writes [together]bool // its writes, a CAS if it swaps
	Value  string         // "" deletes
	Old    string         // of a CAS; "" for no key

	Start, End time.Duration

	Known    bool // an answer came; else it may have happened, or happen later
	Revision int64
	Saw      [together]string // of those that it looks at; "" for no key
	Mods     [together]int64  // their revisions, if they were told
	Swapped  bool
}

func key(object string, i int) string { return fmt.Sprintf("%s/%d", object, i) }

// changes reports whether the answer says that something changed, and so made a revision.
func (o *operation) changes() bool {
	switch {
	case !o.Known || !slices.Contains(o.Writes[:], true):
		return false
	case o.Kind == kindCAS:
		return o.Swapped
	case o.Value != "":
		return true
	}
	for i, writes := range o.Writes { // deletions look at what they delete
		if writes && o.Saw[i] != "" {
			return true
		}
	}
	return false
}

// told is whether the answer tells what a key held.
func (o *operation) told(i int) bool {
	return o.Known && o.Looks[i] && !(o.Kind == kindCAS && o.Swapped)
}

// from is the revision of the state that it looked at.
func (o *operation) from() int64 {
	if o.changes() {
		return o.Revision - 1
	}
	return o.Revision
}

// event is a change of a key as a watch showed it.
type event struct {
	Key      string
	Value    string // "" for a deletion
	Revision int64
	At       time.Duration // when it was shown first
}
