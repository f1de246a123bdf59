package redis

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
)

const (
	magic  = "tenure lease store"
	format = 1
)

// headerText is a header as the server keeps it, for people to read as well.
type headerText struct {
	Magic  string `json:"magic"`
	Format int    `json:"format"`
	Set    string `json:"set"`
	Of     int    `json:"of"`
	Index  int    `json:"index"`
	Term   string `json:"term"`
	Delay  string `json:"delay"`
	Drift  int    `json:"drift"`
}

func encodeHeader(h register.Header) string {
	text, err := json.Marshal(headerText{magic, format, h.Set.String(), h.Of, h.Index, h.Term.String(), h.Delay.String(), h.Drift})
	if err != nil {
		panic(err) // strings and numbers always have a JSON form
	}
	return string(text)
}

func decodeHeader(text string) (h register.Header, err error) {
	var t headerText
	if json.Unmarshal([]byte(text), &t) != nil || t.Magic != magic {
		return h, fmt.Errorf("%w: its header is %.80q", register.ErrForeign, text)
	}
	if t.Format != format {
		return h, fmt.Errorf("it has format %d, this program knows %d: %w", t.Format, format, register.ErrNewer)
	}
	set, err := hex.DecodeString(t.Set)
	if err != nil || copy(h.Set[:], set) != len(h.Set) {
		return h, fmt.Errorf("%w: its header names the set %q", register.ErrDamaged, t.Set)
	}
	h.Of, h.Index, h.Drift = t.Of, t.Index, t.Drift
	h.Term, err = time.ParseDuration(t.Term)
	if err == nil {
		h.Delay, err = time.ParseDuration(t.Delay)
	}
	if err == nil {
		err = h.Check()
	}
	if err != nil {
		return h, fmt.Errorf("%w: its header makes no sense: %w", register.ErrDamaged, err)
	}
	return h, nil
}
