package flease

import (
	"encoding/json"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// savedShelf is a shelf in the file of a planned end. It is not about terms.
type savedShelf struct {
	Cluster string                      `json:"cluster,omitempty"`
	List    uint64                      `json:"list,string"`     // the members, see Peer.list
	Epoch   uint64                      `json:"epoch,omitempty"` // of these
	Life    uint32                      `json:"life"`            // that has left the file
	Whole   bool                        `json:"whole"`
	Lives   map[machine.NodeID][]uint32 `json:"lives,omitempty"`
	Earlier []uint32                    `json:"earlier,omitempty"` // lives of the peer itself before Life
	// Began are the members that have begun anew with this peer, under the same list.
	Began   map[machine.NodeID]uint32 `json:"began,omitempty"`
	Records []kept                    `json:"records"`
}

// save shuts the shelf and returns what the next life of the peer begins with.
func (s *shelf) save(saved savedShelf) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	saved.Whole, saved.Lives, saved.Earlier = s.whole, s.lives, s.mine
	if s.beganIn == saved.Epoch {
		saved.Began = s.began
	}
	for _, name := range s.names() {
		saved.Records = append(saved.Records, s.records[name])
	}
	b, _ := json.Marshal(saved) // strings, numbers and bytes: never fails
	return b
}

// restore fills a new shelf of a peer with the list of members. Nobody else has to confirm that the file
// is the last one if the peer is alone.
func (s *shelf) restore(saved savedShelf, list uint64, alone bool) {
	for _, k := range saved.Records {
		s.putHeard(k)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if saved.Lives != nil {
		s.lives = saved.Lives
	}
	s.earlier, s.mine = saved.Earlier, remember(slices.Clone(saved.Earlier), saved.Life)
	if saved.List == list { // the others may not have heard of it yet
		s.began, s.beganIn = saved.Began, saved.Epoch
	}
	switch {
	case !saved.Whole || saved.List != list:
		// Under other lists, others may have been given records since.
	case alone:
		s.whole = true
	default:
		s.former = saved.Life
	}
}
