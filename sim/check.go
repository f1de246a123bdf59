package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/raft/v3/raftpb"
)

// checks stand outside the cluster and know true time.
type checks struct {
	history []porcupine.Operation
	values  map[string][]string // that were ever written, by key
	entries map[uint64]appliedEntry
	leases  map[int64]*held
	holders []*holder
	known   map[uint64]map[int64]bool // leases by member, to see them go
	void    []string                  // values whose writers were told that they will never be
	// newest is the highest revision that any client has seen.
	newest    int64
	revisions revisions
	// quiet is since when there was no fault and no change of leader.
	quiet time.Duration

	// Of the lock: who was last inside, under which lease, with which token.
	inside      *locker
	insideRound int
	token       int64
	entered     int

	faults []error
}

type appliedEntry struct {
	term uint64
	data string
	by   uint64
}

func newChecks() checks {
	return checks{
		values: map[string][]string{}, entries: map[uint64]appliedEntry{},
		leases: map[int64]*held{}, known: map[uint64]map[int64]bool{},
		revisions: newRevisions(),
	}
}

func (k *checks) fail(w *World, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	w.Note("VIOLATION %v", err)
	k.faults = append(k.faults, err)
}

// operation records what a client saw.
func (k *checks) operation(client int, o op, output string, call, ret int64, known bool) {
	if o.new != "" {
		k.values[o.key] = append(k.values[o.key], o.new)
	}
	if !known {
		if o.kind == 'r' {
			return
		}
		ret = 1 << 62 // it may take effect at any later time
	}
	k.history = append(k.history, porcupine.Operation{ClientId: client, Input: o, Output: outcome{output, known}, Call: call, Return: ret})
}

func (k *checks) someValue(w *World, key string) string {
	values := k.values[key]
	if len(values) == 0 {
		return "none"
	}
	// A recent one, so that it often matches.
	return values[len(values)-1-w.Rand.IntN(min(3, len(values)))]
}

// applied checks that members agree on every entry, and watches leases go.
func (k *checks) applied(w *World, m *Member, e *raftpb.Entry) {
	mine := appliedEntry{e.GetTerm(), string(e.GetData()), uint64(m.ID)}
	if first, ok := k.entries[e.GetIndex()]; !ok {
		k.entries[e.GetIndex()] = mine
	} else if first.term != mine.term || first.data != mine.data {
		k.fail(w, "state machine safety: members %d and %d applied different entries at %d", first.by, mine.by, e.GetIndex())
	}
	k.watchLeases(w, m)
	k.watchEvents(w, m)
}

// sawRevision notes a revision that a client was told of.
func (k *checks) sawRevision(rev int64) { k.newest = max(k.newest, rev) }

// Check judges the whole run.
func (c *Cluster) Check() error {
	k := &c.checks
	if r := porcupine.CheckOperationsTimeout(registers, k.history, 20*time.Second); r == porcupine.Illegal {
		k.fail(c.w, "linearizability: the history of %d operations has no order", len(k.history))
	} else if r == porcupine.Unknown {
		c.w.Note("linearizability was not decided in time")
	}
	k.once(c.w)
	return errors.Join(k.faults...)
}
