package broadcast

import (
	"encoding/binary"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Counts is closed once this member takes part.
func (n *Node) Counts() <-chan struct{} { return n.counts }

// lifeOf is the number of a life that a test makes up for another member.
func lifeOf(id machine.NodeID) uint64 { return 1000 + uint64(id) }

// madeUp is what members say that a test makes up.
func madeUp(id machine.NodeID, body any) []byte {
	return sealedAs(lifeOf(id), encode(body))
}

func sealedAs(life uint64, msg []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, life), msg...)
}

// acquaint has a member know others that a test makes up, and they know it.
func (n *Node) acquaint(t testing.TB, others ...machine.NodeID) {
	for _, id := range others {
		n.deliver(id, [][]byte{
			madeUp(id, introduction{To: n.self, Dir: lifeOf(id), Life: 1, Lives: []birth{{lifeOf(id), 1}}}),
			madeUp(id, met{Life: n.self}),
		})
	}
	t.Helper()
	patience.Within(t, n.counts, "the member takes part")
}
