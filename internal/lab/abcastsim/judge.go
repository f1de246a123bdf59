package abcastsim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// judge knows the broadcast messages, and the one order that there is.
type judge struct {
	broadcast map[key][]byte
	order     []abcast.Message // position-1
	at        map[key]uint64
	payloads  map[string]uint64          // where each is, but changes: a client that begins anew takes its message along
	members   map[uint64][]abcast.Member // by position of a change
	digests   []uint64                   // position-1
	errs      []error
}

type key struct {
	client machine.ID
	seq    uint64
}

// newJudge returns a judge.
func newJudge() *judge {
	return &judge{broadcast: map[key][]byte{}, at: map[key]uint64{}, payloads: map[string]uint64{}, members: map[uint64][]abcast.Member{}}
}

func (j *judge) violated(format string, args ...any) {
	j.errs = append(j.errs, fmt.Errorf(format, args...))
}

// Err returns the violations so far.
func (j *judge) Err() error { return errors.Join(j.errs...) }

// onBroadcast is called before a client broadcasts, each time that it does.
func (j *judge) onBroadcast(m abcast.Message) { j.broadcast[key{m.Client, m.Seq}] = m.Payload }

// ordered reports whether a message has a position.
func (j *judge) ordered(m abcast.Message) bool { return j.at[key{m.Client, m.Seq}] > 0 }

// length is how many messages have a position.
func (j *judge) length() uint64 { return uint64(len(j.order)) }

// replica is the judge's record of a member's life.
type replica struct {
	name     string
	position uint64 // of the last message delivered
	owner    *owner
}

// onBegin is called with the position after which a member's life begins.
func (j *judge) onBegin(r *replica, base abcast.Base) {
	if base.Position > r.owner.has {
		j.violated("durability: %s begins after position %d, and its owner has what led to %d", r.name, base.Position, r.owner.has)
	}
	r.position = base.Position
}

// onDelivery is called at each delivery.
func (j *judge) onDelivery(r *replica, d abcast.Delivered) {
	if d.Position != r.position+1 {
		j.violated("contiguity: %s delivers position %d after %d", r.name, d.Position, r.position)
	}
	r.position = d.Position
	k := key{d.Client, d.Seq}
	payload, ok := j.broadcast[k]
	if !ok || !bytes.Equal(payload, d.Payload) {
		j.violated("creation: %s delivers %q of client %.4v, number %d, which was not broadcast", r.name, d.Payload, d.Client, d.Seq)
	}
	switch n := uint64(len(j.order)); {
	case d.Position <= n:
		if !slices.EqualFunc(j.members[d.Position], d.Members, func(a, b abcast.Member) bool { return a.ID == b.ID }) {
			j.violated("members: %s delivers a change to %v at position %d, and another member one to %v", r.name, d.Members, d.Position, j.members[d.Position])
		}
		if j.digests[d.Position-1] != d.Digest {
			j.violated("digest: %s has the digest %x at position %d, and another member %x", r.name, d.Digest, d.Position, j.digests[d.Position-1])
		}
		if o := j.order[d.Position-1]; o.Client != d.Client || o.Seq != d.Seq {
			j.violated("total order: %s delivers %q at position %d, and another member %q", r.name, d.Payload, d.Position, o.Payload)
		}
	case d.Position > n+1:
		j.violated("contiguity: %s delivers position %d, and nobody has delivered %d", r.name, d.Position, n+1)
	default:
		if at := j.at[k]; at > 0 {
			j.violated("duplication: %s delivers %q at positions %d and %d", r.name, d.Payload, at, d.Position)
		}
		if d.Seq > 1 && j.at[key{d.Client, d.Seq - 1}] == 0 {
			j.violated("turn: %s delivers number %d of client %.4v before the one before it", r.name, d.Seq, d.Client)
		}
		if at := j.payloads[string(d.Payload)]; at > 0 && !d.Change {
			j.violated("duplication: %s delivers %q at positions %d and %d, of a client that was told that it is not ordered", r.name, d.Payload, at, d.Position)
		}
		j.at[k] = d.Position
		j.payloads[string(d.Payload)] = d.Position
		j.order, j.digests = append(j.order, d.Message), append(j.digests, d.Digest)
		j.members[d.Position] = d.Members
	}
}

// onRepeat is called when a member says of a message that it is ordered: its client goes on.
// Some member has delivered it before.
func (j *judge) onRepeat(by string, r abcast.Repeated) {
	k := key{r.Client, r.Seq}
	if _, ok := j.broadcast[k]; !ok {
		j.violated("acknowledgment: %s says that number %d of client %.4v is ordered, which was not broadcast", by, r.Seq, r.Client)
	}
	if j.at[k] == 0 {
		j.violated("acknowledgment: %s says that number %d of client %.4v is ordered, and nobody has delivered it", by, r.Seq, r.Client)
	}
}

// onInstall is called when a member goes on from another one's state.
func (j *judge) onInstall(r *replica, in abcast.Installed) {
	if in.Position > r.owner.has || in.Position < r.position {
		j.violated("durability: %s is at %d and installs the state after %d, and its owner has what led to %d", r.name, r.position, in.Position, r.owner.has)
	}
	r.position = in.Position
}
