package auth

import (
	"bytes"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
)

// span is the keys from one on up to, but without, another; or without an end.
type span struct {
	from, to string
	open     bool // there is no end
}

// spans are apart from each other, and in order. None touches the next one.
type spans []span

// spanOf reads a range of etcd's: an empty end means the key alone, and "\0" no end (AU-2).
func spanOf(key, end []byte) span {
	switch {
	case len(end) == 0:
		return span{from: string(key), to: string(key) + "\x00"}
	case isOpen(end):
		return span{from: string(key), open: true}
	}
	return span{from: string(key), to: string(end)}
}

func isOpen(end []byte) bool { return len(end) == 1 && end[0] == 0 }

// validRange reports whether a permission can be of a range: it has a key, and an end that is
// behind it, if any.
func validRange(key, end []byte) bool {
	return len(key) > 0 && (len(end) == 0 || isOpen(end) || bytes.Compare(key, end) < 0)
}

// merge joins spans that meet or touch each other.
func merge(all spans) spans {
	slices.SortFunc(all, func(a, b span) int { return strings.Compare(a.from, b.from) })
	var out spans
	for _, s := range all {
		if n := len(out); n > 0 && (out[n-1].open || s.from <= out[n-1].to) {
			last := &out[n-1]
			last.open = last.open || s.open
			last.to = max(last.to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// reach returns the span that has a key.
func (all spans) reach(key []byte) (s span, ok bool) {
	at, found := slices.BinarySearchFunc(all, key, func(s span, key []byte) int { return compare(s.from, key) })
	if !found {
		at--
	}
	if at < 0 || !all[at].open && compare(all[at].to, key) <= 0 {
		return span{}, false
	}
	return all[at], true
}

// compare is strings.Compare, without making a string of bytes.
func compare(s string, b []byte) int {
	switch {
	case s < string(b):
		return -1
	case s > string(b):
		return 1
	}
	return 0
}

// granting makes the spans of some permissions.
func granting(list []*authpb.Permission) (read, write spans) {
	for _, p := range list {
		s := spanOf(p.Key, p.RangeEnd)
		if p.PermType == authpb.READ || p.PermType == authpb.READWRITE {
			read = append(read, s)
		}
		if p.PermType == authpb.WRITE || p.PermType == authpb.READWRITE {
			write = append(write, s)
		}
	}
	return merge(read), merge(write)
}

// covers reports whether the roles of a user permit all keys of a range (AU-2).
func (s *State) covers(u *user, key, end []byte, write bool) bool {
	switch {
	case len(end) == 0:
		_, ok := s.reach(u, key, write)
		return ok
	case isOpen(end):
		return s.coversFrom(u, key, nil, write)
	case bytes.Compare(key, end) >= 0: // an empty range: as etcd, judged from its end to its key
		return s.coversFrom(u, end, append(slices.Clone(key), 0), write)
	}
	return s.coversFrom(u, key, end, write)
}

// coversFrom reports whether all keys from one on are permitted, up to an end, if there is one.
func (s *State) coversFrom(u *user, key, end []byte, write bool) bool {
	for {
		got, ok := s.reach(u, key, write)
		switch {
		case !ok:
			return false
		case got.open:
			return true
		case end != nil && compare(got.to, end) >= 0:
			return true
		}
		key = []byte(got.to)
	}
}

// reach returns the span that has a key and goes furthest, of all roles of a user.
func (s *State) reach(u *user, key []byte, write bool) (best span, found bool) {
	for _, name := range u.roles {
		r := s.role(name)
		if r == nil {
			continue
		}
		all := r.read
		if write {
			all = r.write
		}
		if got, ok := all.reach(key); ok && (!found || got.open || !best.open && got.to > best.to) {
			best, found = got, true
		}
	}
	return best, found
}
