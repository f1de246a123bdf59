package replicasim

import (
	"errors"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/tenure-lease/tenure/internal/lab/sim"
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
	void    []string                  // values whose writers were told that they will never exist
	// newest is the highest revision that any client has seen.
	newest    int64
	revisions revisions
	// published is the highest index of a state that any member has shown.
	published uint64
	calm      calm
	surveys   []survey
	floors    floors
	turn      int           // of these, the member that is read next by mayReadKey
	apart     time.Duration // how far members are from each other, at most
	// quiet is since when there was no fault and no change of leader.
	quiet time.Duration

	// Of the lock: the client that was last inside, its lease, its token.
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

func (k *checks) fail(w *sim.World, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	w.Note("VIOLATION %v", err)
	w.Mark(sim.Violation, "", "%v", err)
	if len(k.faults) < 20 { // the first are those that tell
		k.faults = append(k.faults, err)
	}
}

// operation records a client's observation.
func (k *checks) operation(client int, o op, output string, call, ret int64, known bool) {
	if o.new != "" {
		k.wrote(o.key, o.new)
	}
	if !known {
		if o.kind == 'r' {
			return
		}
		ret = 1 << 62 // it may take effect at any later time
	}
	k.history = append(k.history, porcupine.Operation{ClientId: client, Input: o, Output: outcome{output, known}, Call: call, Return: ret})
}

func (k *checks) wrote(key, value string) { k.values[key] = append(k.values[key], value) }

func (k *checks) someValue(w *sim.World, key string) string {
	values := k.values[key]
	if len(values) == 0 {
		return "none"
	}
	// A recent one, so that it often matches.
	return values[len(values)-1-w.Rand.IntN(min(3, len(values)))]
}

// applied checks that members agree on every entry, and watches leases go.
func (k *checks) applied(w *sim.World, m *Member, e *raftpb.Entry) {
	mine := appliedEntry{e.GetTerm(), string(e.GetData()), uint64(m.ID)}
	if first, ok := k.entries[e.GetIndex()]; !ok {
		k.entries[e.GetIndex()] = mine
	} else if first.term != mine.term || first.data != mine.data {
		k.fail(w, "state machine safety: members %d and %d applied different entries at %d", first.by, mine.by, e.GetIndex())
	}
	k.watchLeases(w, m)
	k.watchEvents(w, m)
}

// told judges the revision that a client was told, by the highest that anybody had
// been told when it asked.
func (k *checks) told(w *sim.World, who string, rev, floor int64) {
	if rev < floor {
		k.fail(w, "%s was told of revision %d after somebody had seen %d", who, rev, floor)
	}
	k.newest = max(k.newest, rev)
}

// timely judges how long an operation took that ends now, answered or given up.
func (k *checks) timely(w *sim.World, who string, call time.Duration) {
	if k.calm.broken(call, w.Now()) {
		k.fail(w, "liveness: what %s asked at %v took more than %v, and nothing was amiss", who, call, k.calm.bound)
	}
}

// patience is how long it may take to decide on a history. One that is not decided has
// shown nothing, and fails its world.
const patience = 2 * time.Minute

// Check judges the whole run.
func (c *Cluster) Check() error {
	k := &c.checks
	switch porcupine.CheckOperationsTimeout(registers, k.history, patience) {
	case porcupine.Illegal:
		k.fail(c.w, "linearizability: the history of %d operations has no order", len(k.history))
	case porcupine.Unknown:
		k.fail(c.w, "linearizability: the history of %d operations was not decided in %v", len(k.history), patience)
	}
	for _, m := range c.members {
		m.hub.close()
	}
	k.once(c.w)
	k.surveyed(c.w, c.byKey())
	return errors.Join(k.faults...)
}
