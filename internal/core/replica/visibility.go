package replica

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// visibility decides how much of the log is visible: to readers here, to writers that wait for
// an answer, and to the other members. There are two: [strictOrder] and [keyOrder]. Each is told
// what happens to the log, and returns what follows as values, which [readLeases] act on.
type visibility interface {
	// appended takes an entry into account, before it is acknowledged (R8).
	appended(e *raftpb.Entry) account
	// truncated forgets the entries from an index on; the log ended at last.
	truncated(from, last uint64)
	// committed returns up to where the Applier may have committed entries, and whether these
	// are held: not visible before reported says so. Ending says that the log has decided for
	// the other order.
	committed(at positions, ending bool) (upTo uint64, held bool)
	// reported finds out from reports what is released, and returns what becomes visible by
	// that.
	reported(at positions, by reports) (Released, bool)
	// mayRead answers reads of keys that wait, as far as they may be served; the slice is good
	// until the next call.
	mayRead(at reading) []KeysReady

	// visible returns up to where the state is visible that was applied up to an index.
	visible(applied uint64) uint64
	// releasedHere returns up to where the log that is here is known to be released.
	releasedHere(at positions) uint64
	// hidesSome reports whether there is anything that was given to the Applier and is not
	// known to be released.
	hidesSome(at positions) bool
	// tells completes the news for the others.
	addNews(at positions, news quorumlease.News) quorumlease.News
	// lacking returns the members that hold up what is committed.
	lacking(at positions, l *quorumlease.Ledger) []machine.NodeID
}

// order returns the order of the log in which entries are released now.
func (rl *readLeases) order() visibility {
	if rl.keys.on {
		return &rl.keys
	}
	return strictOrder{&rl.keys.revealed}
}

// positions are how far this member's log has come, in several respects; doc.go has a table.
type positions struct {
	// Of the present term: up to where the leader has vouched for the log, and up
	// to where that is durable.
	received, durable uint64
	// committed is up to where the log is committed that this member has accounted for:
	// raft may have replaced more of it in this turn.
	committed uint64
	released  uint64 // in the order of the log, as far as is known: see releasedHere
	handedOut uint64 // up to where entries were given to the Applier
	applied   uint64 // up to where it has applied them
	recorded  uint64 // up to where the disk knows it to be released
}

// account is what an entry was found to be: its sender, whether that keeps it, and what
// it touches, valid until the next one; nothing if everyone must have it.
type account struct {
	from  machine.NodeID
	kept  bool
	touch *Touch
}

// reports are by what a member finds out what is released. Without a ledger it takes the
// leader's word; with one, and with entries that are left to their leader, both count.
type reports struct {
	ledger *quorumlease.Ledger
	left   keeper
}

// revealed is what both orders know, and go on from when one takes the place of the other.
type revealed struct {
	through uint64     // everything up to here is released, as far as is known
	told    uint64     // through, as reported
	reads   []*keyRead // by arrival
	ready   []KeysReady
}

// reading is what reads of keys are judged by.
type reading struct {
	positions
	self      machine.NodeID
	now       machine.Mono
	until     machine.Mono // when the lease ends
	patience  time.Duration
	leads     bool   // beyond doubt
	unsettled bool   // the log has an entry that changes the holders of keys, and that is not applied
	last      uint64 // of the log
}
