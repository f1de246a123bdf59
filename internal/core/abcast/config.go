package abcast

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Config names the members of the broadcast, and bounds its portions.
type Config struct {
	// Consensus is that of each instance. Its Heartbeat is also how often members tell each
	// other how far they are. Its Members are the founders; they and Addresses describe the
	// first start. Afterwards the log knows the members, and these are not looked at.
	Consensus fastct.Config
	// Addresses are where the founders can be reached from here; see Member. Other members
	// may have others.
	Addresses map[machine.NodeID]string
	// Join is for a member that is not a founder: at its first start it knows nothing, and
	// waits until the others tell it. Members is passed over.
	Join bool
	// Life is greater at each start of this member.
	Life uint64
	// BatchCount and BatchBytes bound what one instance orders. A message that is alone
	// greater than BatchBytes is refused.
	BatchCount, BatchBytes int
	// PendingCount and PendingBytes bound what waits at this member to be ordered.
	PendingCount, PendingBytes int
	// Pipeline is how many instances may be undecided at a time; the paper has 1.
	Pipeline int
	// Relay is after how long a member passes on a message of another one that is not
	// ordered yet: the sender may have crashed in the middle of its sending. A message that
	// was passed on or repeated is so once more after twice that time, and after four times
	// that.
	Relay time.Duration
	// Direct sends a message at first only to the member that is trusted to lead, as long as
	// the leader imposes its proposals: the last instance was decided like that. It saves
	// half of the traffic. The message goes to all if it is not ordered for
	// Consensus.Retry, and at once if that member is suspected, or another one leads, or
	// instances are decided in NORMAL mode. The paper sends a message to all.
	Direct bool
	// Clients is how many clients are remembered, so that what they broadcast twice is
	// ordered once: those whose messages were ordered last. It decides what is ordered, so it
	// is part of the State, from the founders', and the same at all members for good.
	Clients int
}

// Why a Broadcast is refused.
var (
	// ErrBusy says that too much waits to be ordered. Nothing was sent; try again.
	ErrBusy = errors.New("too many messages wait to be ordered; try again later")
	// ErrTooLarge says that a message is greater than a batch may be.
	ErrTooLarge = errors.New("the message is too large")
	// ErrSequence says that a client's messages come out of turn: one before this was
	// neither ordered nor broadcast here, or the client is not remembered any more. It is
	// said later if that turns out while the message waits. This Broadcast has not ordered
	// it, and will not; an earlier one may have.
	ErrSequence = errors.New("the message before this one is missing, or the client was forgotten")
	// ErrClient says that a client's ID was made at a position that this member has not
	// delivered: not by NewClient, or by a member that is further. Nothing was sent.
	ErrClient = errors.New("the client's ID is of a position that is not known here: IDs are made by NewClient, and one of a member that is further can be used a little later")
	// ErrOutside says that this member is none yet, or none any more. Nothing was sent.
	ErrOutside = errors.New("this is not a member of the group")
	// ErrLog says that the log has a gap or is of another group.
	ErrLog = errors.New("the log has a gap or is of another group")
)

func (c Config) validate() error {
	if c.BatchCount < 1 || c.BatchBytes < 1 || c.PendingCount < 1 || c.PendingBytes < c.BatchBytes || c.Pipeline < 1 || c.Relay <= 0 || c.Clients < 1 || c.Consensus.ID == 0 {
		return fmt.Errorf("abcast: a bound is missing, or less waits than a batch may have: %+v", c)
	}
	if c.Pipeline > fastct.Window/2 {
		return fmt.Errorf("abcast: a pipeline of %d is more than the %d that consensus keeps messages for", c.Pipeline, fastct.Window/2)
	}
	return nil
}

// founders are the members of the first epoch.
func (c Config) founders() Group {
	g := Group{First: 1}
	for _, id := range slices.Sorted(slices.Values(c.Consensus.Members)) {
		g.Members = append(g.Members, Member{id, c.Addresses[id]})
	}
	g.Configured = g.IDs()
	return g
}
