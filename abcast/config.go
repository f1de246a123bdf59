package abcast

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/fastct"
)

// Config says who broadcasts to whom, and in which portions.
type Config struct {
	// Consensus is that of each instance. Its Heartbeat is also how often members tell
	// each other how far they are.
	Consensus fastct.Config
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
	// ordered yet: the sender may have crashed in the middle of its sending.
	Relay time.Duration
	// Clients is how many clients are remembered, so that what they broadcast twice is
	// ordered once: those whose messages were ordered last. The same at all members.
	Clients int
}

// Why a Broadcast is refused.
var (
	// ErrBusy says that too much waits to be ordered. Nothing was sent; try again.
	ErrBusy = errors.New("too many messages wait to be ordered; try again later")
	// ErrTooLarge says that a message is greater than a batch may be.
	ErrTooLarge = errors.New("the message is too large")
	// ErrSequence says that a client's messages come out of turn: the one before was
	// neither ordered nor broadcast here, or the client is not remembered any more.
	ErrSequence = errors.New("the message before this one is missing, or the client was forgotten")
	// ErrLog says that the log has a gap or is of another group.
	ErrLog = errors.New("the log has a gap or is of another group")
)

func (c Config) validate() error {
	if c.BatchCount < 1 || c.BatchBytes < 1 || c.PendingCount < 1 || c.PendingBytes < c.BatchBytes || c.Pipeline < 1 || c.Relay <= 0 || c.Clients < 1 {
		return fmt.Errorf("abcast: a bound is missing, or less waits than a batch may have: %+v", c)
	}
	if c.Pipeline > fastct.Window/2 {
		return fmt.Errorf("abcast: a pipeline of %d is more than the %d that consensus keeps messages for", c.Pipeline, fastct.Window/2)
	}
	return nil
}
