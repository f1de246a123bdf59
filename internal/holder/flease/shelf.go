package flease

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"

	"github.com/tenure-lease/tenure/internal/machine"
)

// kept is the record of a name, as peers keep it. Its tenure's token and its number within the tenure order
// it among all records of the name.
type kept struct {
	Name   string `json:"name"`
	Token  uint64 `json:"token,string"`
	Number uint64 `json:"number,omitempty"`
	Data   []byte `json:"data,omitempty"`
}

// compare orders records of one name. The zero value is before all.
func (k kept) compare(o kept) int {
	return cmp.Or(cmp.Compare(k.Token, o.Token), cmp.Compare(k.Number, o.Number))
}

// recordsMax bounds the names whose records a peer keeps, of 2 KiB at most.
const recordsMax = 1 << 14

// shelf is the records that a peer keeps, in memory.
type shelf struct {
	mu      sync.Mutex
	records map[string]kept
	whole   bool            // no record is missing that this peer has acknowledged in an earlier life
	shut    bool            // the peer has saved the records, and acknowledges no more
	fetches map[string]bool // names whose record is being fetched
}

// put keeps a record unless there is a newer one. It reports whether the shelf has it, or a newer one.
func (s *shelf) put(k kept) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.records[k.Name]
	switch {
	case s.shut, !known && len(s.records) >= recordsMax:
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
}

// recordAnswer is the answer. A peer that answers no such question has no Keeper.
type recordAnswer struct {
	Keeper  uint32 `json:"keeper"` // the peer's incarnation
	Epoch   uint64 `json:"kept_in"`
	Whole   bool   `json:"whole"`
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

// show fills in an answer; false if the shelf is shut.
func (s *shelf) show(q recordQuestion, a *recordAnswer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Whole = s.whole
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
		if size += len(b) + 1; size > namesBytesMax {
			a.More = true
			break
		}
		a.Records = append(a.Records, k)
	}
	return !s.shut
}

// names are those of all records, in order. s.mu is held.
func (s *shelf) names() []string {
	names := make([]string, 0, len(s.records))
	for name := range s.records {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// complete notes that no record is missing.
func (s *shelf) complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = true
}

// size returns the number of records, and whether none is missing.
func (s *shelf) size() (n int, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records), s.whole
}

// savedShelf is a shelf in the file of a planned end.
type savedShelf struct {
	Whole   bool   `json:"whole"`
	Records []kept `json:"records"`
}

// save shuts the shelf and returns what the next life of the peer begins with.
func (s *shelf) save() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	saved := savedShelf{Whole: s.whole}
	for _, name := range s.names() {
		saved.Records = append(saved.Records, s.records[name])
	}
	b, _ := json.Marshal(saved) // strings, numbers and bytes: never fails
	return b
}

// restore fills a new shelf.
func (s *shelf) restore(saved []byte) error {
	var all savedShelf
	if err := json.Unmarshal(saved, &all); err != nil {
		return err
	}
	for _, k := range all.Records {
		s.put(k)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = all.Whole
	return nil
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
