package flease

import "cmp"

// stamp says which tenure has set a record, and which of the tenure's records it is.
type stamp struct {
	Token  uint64 `json:"token,string"`
	Number uint64 `json:"number,omitempty"`
}

func (s stamp) compare(o stamp) int {
	return cmp.Or(cmp.Compare(s.Token, o.Token), cmp.Compare(s.Number, o.Number))
}

// kept is the record of a name, as peers keep it.
type kept struct {
	Name   string `json:"name"`
	Token  uint64 `json:"token,string"` // of its tenure
	Number uint64 `json:"number,omitempty"`
	// Over are the greater stamps of earlier records, from before clocks were set back; see over.
	Over []stamp `json:"over,omitempty"`
	Data []byte  `json:"data,omitempty"`
}

// at is the i-th stamp that orders the record: those of Over, then its own. The zero stamp follows.
func (k kept) at(i int) stamp {
	switch {
	case i < len(k.Over):
		return k.Over[i]
	case i == len(k.Over):
		return stamp{k.Token, k.Number}
	}
	return stamp{}
}

// compare orders records of one name. The zero value is before all.
func (k kept) compare(o kept) int {
	for i := range max(len(k.Over), len(o.Over)) + 1 {
		if c := k.at(i).compare(o.at(i)); c != 0 {
			return c
		}
	}
	return 0
}

// over returns k behind an earlier record that has a greater stamp. A majority must have the earlier one at a
// moment at which k's tenure holds its lease.
//
// Each stamp in front of k's own is as great as that or greater. So a tenure that was stopped before it put
// its record never replaces that of a later tenure, whose stamp is greater: let A be the stopped one's record,
// over E, and B the later one's. B was acknowledged, and so is behind E. Were B before A, it would lie between E
// and A, and have A's first stamps and then one less than A's own; but all of B's stamps are greater than
// that. Or it would be all of A's stamps but its own, and E, too, would begin with B's stamp, which did not
// exist yet.
func (k kept) over(earlier kept) kept {
	own := stamp{k.Token, k.Number}
	k.Over = nil
	for i := range len(earlier.Over) + 1 {
		if own.compare(earlier.at(i)) > 0 {
			break
		}
		k.Over = append(k.Over, earlier.at(i))
	}
	return k
}
