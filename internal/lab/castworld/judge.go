package castworld

import (
	"fmt"
	"sync"

	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// judge knows the one order that there is, and the messages that were broadcast and
// acknowledged.
type judge struct {
	w *world.World

	mu           sync.Mutex
	order        []string // position-1
	sums         []uint64
	at           map[string]broadcast.Position
	broadcast    map[string]bool
	acknowledged map[string]broadcast.Position
	changes      int // of the members, in the order
}

// what is the content of a message: a payload, or the members from there on.
func what(m broadcast.Message) []byte {
	if m.Members != nil {
		return fmt.Appendf(nil, "members %v", m.Members)
	}
	return m.Payload
}

func newJudge(w *world.World) *judge {
	return &judge{w: w, at: map[string]broadcast.Position{}, broadcast: map[string]bool{}, acknowledged: map[string]broadcast.Position{}}
}

func (j *judge) onBroadcast(payload string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broadcast[payload] = true
}

// onAcknowledgment is called with the answers that a client gets. At 0 the position is not known.
func (j *judge) onAcknowledgment(payload string, at broadcast.Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acknowledged[payload] = at
}

func (j *judge) onDelivery(id machine.NodeID, s state, m broadcast.Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if m.Position != s.position {
		j.w.Fail("contiguity: member %d delivers %d after %d", id, m.Position, s.position-1)
	}
	payload := string(what(m))
	switch n := broadcast.Position(len(j.order)); {
	case s.position <= n:
		if j.order[s.position-1] != payload || j.sums[s.position-1] != s.sum {
			j.w.Fail("one order: member %d delivers %.10q at %d, and another member %.10q", id, payload, s.position, j.order[s.position-1])
		}
		return
	case s.position > n+1:
		j.w.Fail("contiguity: member %d delivers %d, and nobody has delivered %d", id, s.position, n+1)
		return
	}
	if m.Members != nil {
		j.changes++
		j.w.Count("changes of members", 1)
	} else if payload != "" {
		if at := j.at[payload]; at > 0 {
			j.w.Fail("duplicate: member %d delivers %.10q at %d, and it was at %d", id, payload, s.position, at)
		}
		if !j.broadcast[payload] {
			j.w.Fail("invention: member %d delivers %.10q at %d", id, payload, s.position)
		}
		j.at[payload] = s.position
	}
	j.order, j.sums = append(j.order, payload), append(j.sums, s.sum)
	j.w.Count("ordered", 1)
}

func (j *judge) onInstall(id machine.NodeID, s state) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s.position > broadcast.Position(len(j.order)) || j.sums[s.position-1] != s.sum {
		j.w.Fail("snapshot: member %d installs another state after %d", id, s.position)
	}
}

func (j *judge) length() broadcast.Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return broadcast.Position(len(j.order))
}

// judgeAcknowledged judges the acknowledged messages.
func (j *judge) judgeAcknowledged() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for payload, said := range j.acknowledged {
		switch at := j.at[payload]; {
		case at == 0:
			j.w.Fail("acknowledged: %.10q was said to be ordered, and is not", payload)
		case said != 0 && at != said:
			j.w.Fail("acknowledged: %.10q was said to be at %d, and is at %d", payload, said, at)
		}
	}
}
