package login

import (
	"container/list"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// maxTokens are remembered. Beyond that, those that were not used for longest are forgotten, and
// their clients log in again.
const maxTokens = 100_000

// Simple remembers simple tokens, and forgets those that are not used.
type Simple struct {
	ttl time.Duration
	now func() time.Time

	mu    sync.Mutex
	known map[place]*list.Element
	order *list.List // of *remembered, the one that was used last at the end
}

// place says of a token what the log has of it.
type place struct {
	digest string
	index  uint64
}

type remembered struct {
	replica.Token
	used time.Time
}

func newSimple(ttl time.Duration) *Simple {
	return &Simple{ttl: ttl, now: time.Now, known: map[place]*list.Element{}, order: list.New()}
}

// Add remembers a token that the log has. It is called at each member.
func (s *Simple) Add(t replica.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	at := place{t.Digest, t.Index}
	if s.known[at] == nil {
		s.known[at] = s.order.PushBack(&remembered{t, s.now()})
	}
}

// find returns a token that a client shows, and counts that as a use.
func (s *Simple) find(shown string) (replica.Token, bool) {
	at, ok := placeOf(shown)
	if !ok {
		return replica.Token{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	e := s.known[at]
	if e == nil {
		return replica.Token{}, false
	}
	r := e.Value.(*remembered)
	r.used = s.now()
	s.order.MoveToBack(e)
	return r.Token, true
}

// placeOf reads what a client shows.
func placeOf(shown string) (place, bool) {
	secret, end, _ := strings.Cut(shown, ".")
	index, err := strconv.ParseUint(end, 10, 64)
	return place{digest(secret), index}, err == nil
}

// forget drops the tokens whose time is over, and the oldest if there are too many.
func (s *Simple) forget() {
	for e := s.order.Front(); e != nil; e = s.order.Front() {
		r := e.Value.(*remembered)
		if s.now().Sub(r.used) < s.ttl && s.order.Len() < maxTokens {
			return
		}
		s.order.Remove(e)
		delete(s.known, place{r.Digest, r.Index})
	}
}

// newSecret returns the part of a token that only its bearer knows.
func newSecret() string { return rand.Text() }

// digest is what the log has of a secret.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
