package abcast

import (
	"encoding/binary"
	"hash/crc64"
	"maps"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Members that work agree on the order. One that has forgotten what it promised (its disk was
// emptied, or is an older copy) may have been part of a majority that ordered something else.
// To find that, members tell each other a digest of all messages up to a position: a sum
// against accidents, not against members that lie.

var digests = crc64.MakeTable(crc64.ECMA)

// digest is that of an order behind one more message.
func digest(before uint64, m Message) uint64 {
	head := binary.LittleEndian.AppendUint64(make([]byte, 0, 64), before)
	head = append(head, m.Client[:]...)
	head = binary.LittleEndian.AppendUint64(head, m.Seq)
	if m.Change {
		head = append(head, 1)
	}
	return crc64.Update(crc64.Checksum(head, digests), digests, m.Payload)
}

// digestsKept is for how many positions a digest is remembered. Members that can hear each
// other are not further apart for long.
const digestsKept = 1 << 12

// agreement compares the order of this member with what others say of theirs.
type agreement struct {
	at     []uint64                  // by position modulo its length: the digest
	first  uint64                    // the lowest position of which it is known
	last   uint64                    // and the highest
	ahead  map[machine.NodeID]Status // of those that are further than this member
	denied map[machine.NodeID]bool   // the members that contradict it
}

func newAgreement() agreement {
	return agreement{at: make([]uint64, digestsKept), first: 1, ahead: map[machine.NodeID]Status{}, denied: map[machine.NodeID]bool{}}
}

// note remembers the digest at a position, which follows on the last one or begins anew.
func (a *agreement) note(position, digest uint64) {
	if position != a.last+1 {
		a.first = position
	}
	a.last = position
	if position >= digestsKept {
		a.first = max(a.first, position-digestsKept+1)
	}
	a.at[position%digestsKept] = digest
}

// contradicts reports whether what another member says is not what this one has. A position of
// which nothing is known here contradicts nothing.
func (a *agreement) contradicts(s Status) bool {
	return s.Position >= a.first && s.Position <= a.last && a.at[s.Position%digestsKept] != s.Digest
}

// compare looks at what another member says of its order, now or when this one is there.
func (m *Machine) compare(from machine.NodeID, s Status) {
	if s.Position > m.order.position {
		m.agreed.ahead[from] = s
		return
	}
	delete(m.agreed.ahead, from)
	if !m.agreed.contradicts(s) {
		return
	}
	m.agreed.denied[from] = true
	others, denied := 0, 0
	for _, member := range m.order.group.Members {
		if member.ID != m.cfg.Consensus.ID {
			others++
			if m.agreed.denied[member.ID] {
				denied++
			}
		}
	}
	m.out(Contradicted{from, s.Position, 2*denied > others})
}

// compareReached compares what those said that were further.
func (m *Machine) compareReached() {
	if len(m.agreed.ahead) == 0 {
		return
	}
	for _, from := range slices.Sorted(maps.Keys(m.agreed.ahead)) {
		if s := m.agreed.ahead[from]; s.Position <= m.order.position {
			m.compare(from, s)
		}
	}
}
