package main

import (
	"encoding/json"
	"net/http"
	"sync"
)

// Entry is what is replicated: the count, with the place of its writing. The later of two
// has the higher token, or the same and the higher Seq.
type Entry struct {
	Token, Seq uint64
	Count      int
}

func (e Entry) after(o Entry) bool {
	return e.Token > o.Token || e.Token == o.Token && e.Seq > o.Seq
}

// Replica stores what primaries tell it, in memory.
type Replica struct {
	mu      sync.Mutex
	highest uint64 // token
	entry   Entry
	blank   bool // it was started anew, and does not know what it had stored
}

// Promise answers a new primary with the stored entry, unless there is a primary with a
// higher token. After it, nothing of an older primary is stored.
func (r *Replica) Promise(token uint64) (e Entry, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blank || token < r.highest {
		return e, false
	}
	r.highest = token
	return r.entry, true
}

// Store stores an entry, unless there is a primary with a higher token than the entry's.
func (r *Replica) Store(e Entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Token < r.highest || r.blank && r.highest == 0 {
		return false
	}
	r.highest = e.Token
	r.blank = false // an entry is all that there is to know
	if e.after(r.entry) {
		r.entry = e
	}
	return true
}

// Rejoin tells a replica that was started anew the token of a primary. It may have promised
// itself to that primary, or to an earlier one, and must not store for an older one.
func (r *Replica) Rejoin(token uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.highest = max(r.highest, token)
}

// ServeHTTP lets other processes ask: POST /replica/promise and /replica/store, each with an
// Entry, of which a promise needs the token only.
func (r *Replica) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var e Entry
	if err := json.NewDecoder(http.MaxBytesReader(w, q.Body, 1<<10)).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ok := false
	switch q.URL.Path {
	case "/replica/promise":
		e, ok = r.Promise(e.Token)
	case "/replica/store":
		ok = r.Store(e)
	}
	if !ok {
		http.Error(w, "a newer primary was here, or this replica has to get the state first", http.StatusConflict)
		return
	}
	_ = json.NewEncoder(w).Encode(e)
}
