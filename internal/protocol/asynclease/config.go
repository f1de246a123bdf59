package asynclease

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Config names the members that grant leases, and this member.
type Config struct {
	ID      machine.NodeID
	Members []machine.NodeID // all, this one included; the same at each of them
	// Life is greater at each start of this member.
	Life uint64
	// Retry is the time from asking a member that does not answer to asking it again. From
	// there to the next time it is twice as long, and so on, up to four times as long.
	Retry time.Duration
	// MarkRefused marks the interval of a refused request, too, as line 10 of Figure 2
	// does: then two that race may spoil it for all.
	MarkRefused bool
	// Volatile makes nothing durable: the crash-stop model of the paper. A member that
	// crashed must not come back.
	Volatile bool
}

// retryMax is how many times Retry it is at most from one try to the next.
const retryMax = 4

// ErrLog says that the records are not this member's.
var ErrLog = errors.New("the log is of another group or member")

func (c Config) validate() error {
	switch {
	case c.ID == 0 || !slices.Contains(c.Members, c.ID):
		return fmt.Errorf("member %d is not one of the group %v", c.ID, c.Members)
	case c.Retry <= 0:
		return fmt.Errorf("a Retry of %v is not positive", c.Retry)
	}
	for i, m := range c.Members {
		if m == 0 || slices.Contains(c.Members[:i], m) {
			return fmt.Errorf("the group %v is empty or names a member twice", c.Members)
		}
	}
	return nil
}

// majority is floor(n/2)+1: any two majorities have a member in common (F21).
func (c Config) majority() int { return len(c.Members)/2 + 1 }
