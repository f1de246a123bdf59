package broadcast

import (
	"maps"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// syncBytes is how much of a history is written between two fsyncs: the log's own must
// not wait for long behind it.
const syncBytes = 4 << 20

// keep moves delivered messages from memory to disk when there are many, and gets the messages
// that this member lacks, until the node ends.
func (n *Node) keep() {
	retry := time.NewTicker(n.cfg.timeout())
	defer retry.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-n.stir:
		case <-retry.C:
		}
		if err := n.moveToHistory(); err != nil {
			n.failDisk(err)
			return
		}
		n.mu.Lock()
		lacks, taking := n.lacks, n.taking
		n.mu.Unlock()
		switch _, has := n.history.bounds(); {
		case lacks.Position == 0:
		case has >= Position(lacks.Position):
			n.reportRestored(lacks, has)
		case !taking:
			n.askForMissing(lacks, has+1)
		}
	}
}

// wakeKeeper has the keeper look.
func (n *Node) wakeKeeper() {
	select {
	case n.stir <- struct{}{}:
	default:
	}
}

// moveToHistory makes delivered messages durable as history, and forgets them elsewhere: those up to
// the position from which others have begun to forget, or three quarters of the memory's bound.
func (n *Node) moveToHistory() error {
	n.keeping.Lock()
	defer n.keeping.Unlock()
	n.mu.Lock()
	var messages []Message
	if upto := Position(n.lacks.Position); upto > n.ram {
		messages = n.log[:min(upto-n.ram, Position(len(n.log)))]
	} else if n.bytes > n.cfg.memoryBytes() {
		left := n.bytes
		k := 0
		for ; k < len(n.log) && left > n.cfg.memoryBytes()/4; k++ {
			left -= n.log[k].size()
		}
		messages = n.log[:k]
	}
	n.mu.Unlock()
	if err := n.storeInHistory(messages); err != nil || len(messages) == 0 {
		return err
	}
	n.forget(messages[len(messages)-1].Position)
	return nil
}

// storeInHistory makes messages durable as history. n.keeping is held.
func (n *Node) storeInHistory(messages []Message) error {
	for from := 0; from < len(messages); {
		size, k := 0, from
		for ; k < len(messages) && size < syncBytes; k++ {
			size += messages[k].size()
		}
		if err := n.history.append(messages[from:k]); err != nil {
			return err
		}
		from = k
	}
	return nil
}

// forget drops from memory the messages up to a position, which are kept elsewhere, durably.
func (n *Node) forget(position Position) {
	n.mu.Lock()
	if k := min(position-min(n.ram, position), Position(len(n.log))); k > 0 {
		for _, m := range n.log[:k] {
			n.bytes -= m.size()
		}
		n.log = slices.Clone(n.log[k:])
		n.ram += k
		n.room.Broadcast()
	}
	more := n.bytes > n.cfg.memoryBytes()
	n.mu.Unlock()
	if more {
		n.wakeKeeper()
	}
	n.driver.Look(func() (abcast.Input, bool) {
		// If this one is not, a later one will be: until then the log has these messages, too.
		trim := abcast.Trim{Position: uint64(position)}
		return trim, n.machine.Worthwhile(trim)
	})
}

// reportRestored tells the machine the position that its owner has.
func (n *Node) reportRestored(lacked abcast.Lacks, has Position) {
	n.mu.Lock()
	if n.lacks == lacked {
		n.lacks = abcast.Lacks{}
	}
	n.mu.Unlock()
	n.driver.Step(abcast.Restored{Position: uint64(has)})
}

// askForMissing asks a member for the missing messages from a position on, another one at each try. The
// source of the last transfer comes first, because it holds the messages that follow.
func (n *Node) askForMissing(lacks abcast.Lacks, from Position) {
	n.mu.Lock()
	whom := []machine.NodeID{lacks.From}
	if n.source != 0 && n.source != lacks.From {
		whom = []machine.NodeID{n.source, lacks.From}
	}
	all := n.addresses(n.group, false)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if id != n.cfg.ID && !slices.Contains(whom, id) {
			whom = append(whom, id)
		}
	}
	to := whom[n.tries%len(whom)]
	n.tries++
	n.mu.Unlock()
	n.cfg.Logger.Info("broadcast: this member is behind, and asks for the messages that it lacks", "member", to, "from", from, "to", lacks.Position)
	n.send([]machine.Envelope{{From: n.cfg.ID, To: to, Body: want{from}}})
}
