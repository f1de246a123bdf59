package flease

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/tenure-lease/tenure/internal/machine"
)

const (
	// recordsMax bounds the names whose records a peer keeps, of 2 KiB at most.
	recordsMax = 1 << 14
	// heardMax bounds them with those that others have and it had no room for. The names that came last, each when its
	// peer had one place left, differ from peer to peer.
	heardMax = 2 * recordsMax
)

// shelf is the records that a peer keeps, in memory.
type shelf struct {
	mu      sync.Mutex
	records map[string]kept
	knowledge
	shut    bool            // the peer has saved the records, and acknowledges no more
	fetches map[string]bool // names whose record is being fetched
}

// knowledge is what a peer knows of the records that it has acknowledged in earlier lives, and of the lives
// of others.
type knowledge struct {
	whole bool // none of them is missing
	// former is the life that has left the records in a file, as long as no other member has confirmed that
	// there was no life since. The peer is not whole then, and has forgotten nothing either.
	former uint32
	// began are the members that were blank at one moment, with their lives: the records began anew with
	// these. It was under the list of beganIn.
	began   map[machine.NodeID]uint32
	beganIn uint64
	lives   map[machine.NodeID][]uint32 // the last ones of each other member that were heard of, in order
	mine    []uint32                    // lives of the peer itself before the present one, as far as it knows
	earlier []uint32                    // those of them that the file names as before former
}

// put keeps a record unless there is a newer one. It reports whether the shelf has it, or a newer one.
func (s *shelf) put(k kept) bool { return s.putWithin(k, recordsMax) }

// putHeard keeps a record that members have shown, and that may have been acknowledged.
func (s *shelf) putHeard(k kept) bool { return s.putWithin(k, heardMax) }

func (s *shelf) putWithin(k kept, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.records[k.Name]
	switch {
	case s.shut, !known && len(s.records) >= most:
		return false
	case k.compare(old) > 0:
		s.records[k.Name] = k
	}
	return true
}

// recordQuestion asks a peer for the record of Name, or for all behind After.
type recordQuestion struct {
	Name  string         `json:"name,omitempty"`
	After string         `json:"after,omitempty"`
	Take  machine.NodeID `json:"take,omitempty"` // this member has a newer one: fetch it there
	From  machine.NodeID `json:"from,omitempty"` // the member that asks, if it asks for its lives, too
}

// recordAnswer is the answer. A peer that answers no such question has no Keeper.
type recordAnswer struct {
	Keeper  uint32         `json:"keeper"` // the peer's incarnation
	Self    machine.NodeID `json:"self"`
	Cluster string         `json:"cluster,omitempty"`
	Epoch   uint64         `json:"kept_in"`
	List    uint64         `json:"list,string"` // see Peer.list

	Whole    bool                      `json:"whole"`
	Restored bool                      `json:"restored,omitempty"` // it would be whole, if its file is the last
	Full     bool                      `json:"full,omitempty"`     // there is no room for another name
	Began    map[machine.NodeID]uint32 `json:"began,omitempty"`
	Lives    []uint32                  `json:"lives,omitempty"` // of the member that asks

	Records []kept `json:"records,omitempty"`
	More    bool   `json:"more,omitempty"`
}

// of returns the record of a name in an answer; the zero value if there is none.
func (a recordAnswer) of(name string) kept {
	for _, k := range a.Records {
		if k.Name == name {
			return k
		}
	}
	return kept{}
}

// blank reports whether the peer has forgotten records, for all that it knows.
func (a recordAnswer) blank() bool { return !a.Whole && !a.Restored }

// pageBytesMax bounds an answer roughly. It has to be heard in a few seconds.
const pageBytesMax = 128 << 10

// show fills in an answer; false if the shelf is shut.
func (s *shelf) show(q recordQuestion, a *recordAnswer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Whole, a.Restored, a.Full = s.whole, s.former != 0, len(s.records) >= recordsMax
	if s.beganIn == a.Epoch {
		a.Began = s.began
	}
	if q.From != 0 {
		a.Lives = slices.Clone(s.lives[q.From])
	}
	if q.Name != "" {
		if k, known := s.records[q.Name]; known {
			a.Records = []kept{k}
		}
		return !s.shut
	}
	size := 0
	for _, name := range s.names() {
		if name <= q.After {
			continue
		}
		k := s.records[name]
		b, _ := json.Marshal(k) // strings, numbers and bytes: never fails
		if size += len(b) + 1; size > pageBytesMax && len(a.Records) > 0 {
			a.More = true
			break
		}
		a.Records = append(a.Records, k)
	}
	return !s.shut
}

// names are those of all records, in order. s.mu is held.
func (s *shelf) names() []string { return slices.Sorted(maps.Keys(s.records)) }

// complete notes that no record is missing. began are the members that have begun anew under the list of an
// epoch, if that is why.
func (s *shelf) complete(began map[machine.NodeID]uint32, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole, s.former = true, 0
	if began != nil {
		s.began, s.beganIn = began, epoch
	}
}

// miss notes that records may be missing, and reports whether none was before.
func (s *shelf) miss() (was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, s.whole, s.former = s.whole, false, 0
	return was
}

// livesMax is how many lives of a member a peer remembers.
const livesMax = 8

// heard notes that a member was heard of in a life.
func (s *shelf) heard(id machine.NodeID, life uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lives == nil {
		s.lives = map[machine.NodeID][]uint32{}
	}
	s.lives[id] = remember(s.lives[id], life)
}

// lived notes lives of the peer itself, as another knows them: all but the present one are before that.
func (s *shelf) lived(lives []uint32, present uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, life := range lives {
		if life != present {
			s.mine = remember(s.mine, life)
		}
	}
}

// remember adds a life to the last ones, once.
func remember(lives []uint32, life uint32) []uint32 {
	if life == 0 || slices.Contains(lives, life) {
		return lives
	}
	lives = append(lives, life)
	if n := len(lives); n > livesMax {
		lives = slices.Clone(lives[n-livesMax:])
	}
	return lives
}

// restored is the life whose file the peer has restored, as long as it is not confirmed, else 0; and lives before that.
func (s *shelf) restored() (former uint32, earlier []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.former, slices.Clip(s.earlier)
}

// size returns the number of records, and whether none is missing.
func (s *shelf) size() (n int, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records), s.whole
}

// fetching notes that a record is being fetched; false if it is already, or too many are.
func (s *shelf) fetching(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut || s.fetches[name] || len(s.fetches) >= fetchesMax {
		return false
	}
	s.fetches[name] = true
	return true
}

// fetchesMax bounds the records that a peer fetches at one time: any stranger may send it to the others.
const fetchesMax = 16

func (s *shelf) fetched(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.fetches, name)
}
