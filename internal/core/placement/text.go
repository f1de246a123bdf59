package placement

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Parse reads a static configuration in the form in which people write it.
//
//	prefix:/jp/ = JP,CA,OR; range:/eu/a../eu/n = CA,VA,IRL; key:/motd = *; default = CA
//
// A selector is one of these:
//
//   - prefix: or key: and a key,
//   - range: and two keys, of which the second is not part of it and may be left out,
//   - hash:i/n for the i-th of n hash buckets, from 0, where n is a power of two,
//   - default, which there has to be.
//
// Keys with a space or one of = ; , " .. in them are written as Go strings. Holders are members' names; * is all of them. Keys in
// no bucket have the default's holders. Ranges come before buckets.
//
// Errors are ErrConfiguration and name the faulty part: an unknown member, a default
// that is missing, ranges that overlap.
func Parse(text string, members []Member) (*Configuration, error) {
	p := parser{members: members, ids: identities(members)}
	if err := checkMembers(p.ids); err != nil {
		return nil, err
	}
	for _, part := range split(text, ';') {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if err := p.part(part); err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrConfiguration, part, err)
		}
	}
	if p.fallback == 0 {
		return nil, fmt.Errorf("%w: name the holders of everything else: default=…", ErrConfiguration)
	}
	return New(p.ids, p.fallback, p.cells, p.buckets)
}

type parser struct {
	members  []Member
	ids      []machine.NodeID
	fallback Set
	cells    []Cell
	buckets  []Set
}

func (p *parser) part(part string) error {
	sides := split(part, '=')
	if len(sides) != 2 {
		return fmt.Errorf("write it as SELECTOR=NAME,NAME")
	}
	holders, err := p.holders(sides[1])
	if err != nil {
		return err
	}
	selector := strings.TrimSpace(sides[0])
	if selector == "default" {
		if p.fallback != 0 {
			return fmt.Errorf("default is given twice")
		}
		p.fallback = holders
		return nil
	}
	kind, rest, _ := strings.Cut(selector, ":")
	if kind == "hash" {
		return p.hash(rest, holders)
	}
	s, err := parseSpan(kind, rest)
	if err != nil {
		return err
	}
	for _, c := range p.cells {
		if c.span().meets(s) {
			return fmt.Errorf("it has keys in common with %v", c)
		}
	}
	p.cells = append(p.cells, Cell{[]byte(s.lo), []byte(s.end()), holders})
	return nil
}

func parseSpan(kind, rest string) (span, error) {
	key, rest, err := unquote(rest)
	switch {
	case err != nil:
		return span{}, err
	case key == "":
		return span{}, fmt.Errorf("name a key: for all keys there is default")
	case kind == "range":
		end, ok := strings.CutPrefix(rest, "..")
		if !ok {
			return span{}, fmt.Errorf("write a range as range:FROM..TO")
		}
		if end, rest, err = unquote(end); err != nil {
			return span{}, err
		}
		if s := (span{key, end}); rest == "" && !s.empty() {
			return s, nil
		}
		return span{}, fmt.Errorf("a range ends after it begins: range:FROM..TO")
	case rest != "":
		return span{}, fmt.Errorf("what is %q after the key? Put keys with dots in quotes", rest)
	case kind == "prefix":
		return span{key, prefixEnd(key)}, nil
	case kind == "key":
		return spanOf(key, ""), nil
	}
	return span{}, fmt.Errorf("no selector begins like that: use prefix:, key:, range:, hash: or default")
}

// unquote takes a key from the front, which ends at "..", or with its quotes.
func unquote(s string) (key, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		at := strings.Index(s, "..")
		if at < 0 {
			at = len(s)
		}
		return s[:at], s[at:], nil
	}
	q, err := strconv.QuotedPrefix(s)
	if err == nil {
		key, err = strconv.Unquote(q)
	}
	if err != nil {
		return "", "", fmt.Errorf("the quotes around a key are not those of a Go string")
	}
	return key, s[len(q):], nil
}

func (p *parser) hash(rest string, holders Set) error {
	a, b, _ := strings.Cut(rest, "/")
	i, err1 := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if err1 != nil || err2 != nil || n < 1 || n > MaxBuckets || n&(n-1) != 0 || i < 0 || i >= n {
		return fmt.Errorf("write it as hash:I/N, with N a power of two up to %d and I from 0 to less than N", MaxBuckets)
	}
	if p.buckets == nil {
		p.buckets = make([]Set, 1)
	}
	for have := len(p.buckets); have < n; have = len(p.buckets) {
		p.buckets = append(p.buckets, p.buckets...)
	}
	for j := i; j < len(p.buckets); j += n {
		if p.buckets[j] != 0 {
			return fmt.Errorf("bucket %d of %d has holders already", j, len(p.buckets))
		}
		p.buckets[j] = holders
	}
	return nil
}

func (p *parser) holders(names string) (s Set, err error) {
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if name == "*" {
			s |= first(len(p.ids))
			continue
		}
		at := -1
		for _, m := range p.members {
			if m.Name != name || name == "" {
				continue
			}
			if at >= 0 {
				return 0, fmt.Errorf("two members are called %q", name)
			}
			at = place(p.ids, m.ID)
		}
		if at < 0 {
			return 0, fmt.Errorf("no member is called %q", name)
		}
		s |= SetOf(at)
	}
	return s, nil
}

// split cuts a text at each sep that is not within quotes.
func split(text string, sep byte) (parts []string) {
	from, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == sep && !quoted:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
}

// Format writes the configuration as Parse reads it. Members without a name are
// called by their number.
func (c *Configuration) Format(members []Member) string {
	return strings.Join(c.Parts(members), "; ")
}

// Parts are the parts of what Format writes: keys and ranges in order, then hash
// buckets, at last the default.
func (c *Configuration) Parts(members []Member) []string {
	names := make([]string, len(c.members))
	for i, id := range c.members {
		names[i] = strconv.FormatUint(uint64(id), 10)
		for _, m := range members {
			if m.ID == id && m.Name != "" {
				names[i] = m.Name
			}
		}
	}
	parts := make([]string, 0, len(c.cells)+len(c.buckets)+1)
	part := func(selector string, s Set) {
		var b strings.Builder
		b.WriteString(selector)
		sep := "="
		for i, name := range names {
			if s.Has(i) {
				b.WriteString(sep + name)
				sep = ","
			}
		}
		parts = append(parts, b.String())
	}
	for _, cell := range c.cells {
		part(cell.String(), cell.Holders)
	}
	for i, s := range c.buckets {
		if s != 0 {
			part(fmt.Sprintf("hash:%d/%d", i, len(c.buckets)), s)
		}
	}
	part("default", c.fallback)
	return parts
}
