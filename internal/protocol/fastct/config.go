package fastct

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Config names the members that agree, and sets how they do it.
type Config struct {
	ID      machine.NodeID
	Members []machine.NodeID // all, this one included; the same at each of them
	// Plain is CT96 without leases: no FAST mode. The same at all members.
	Plain bool
	// Spread lets the coordinator of an instance's first NORMAL round depend on the
	// instance; else it is always the first member, and a dead one costs each of them
	// a round (F15). The same at all members.
	Spread bool
	// Lambda is for how many instances a lease is asked for, at most; up to LambdaMax, for
	// what is known of each of them is kept.
	Lambda uint64
	// Fixed asks for Lambda always; else that adapts (section 5), and begins with
	// half of Lambda, or with Lambda if Optimistic.
	Fixed, Optimistic bool
	// Prefetch asks for the next lease when a quarter of one is left.
	Prefetch bool
	// Retry is the time from a message without an answer to its repetition. From there to the
	// next it is twice as long, and so on, up to four times as long.
	Retry time.Duration
	// Heartbeat is the time from one step of task Transform to the next, each of which
	// tells the others that this member lives. 0: there is no failure detector, and
	// only the owner says which members are suspected.
	Heartbeat time.Duration
	// Timeout is after what silence a member is suspected at first, a day at most. It doubles
	// with each suspicion that was false, up to 64 times as much, and in quiet times it
	// becomes less again.
	Timeout time.Duration
	// Volatile makes nothing durable: the crash-stop model of the paper. A member that
	// crashed must not come back.
	Volatile bool
}

// Window is how many instances beyond the highest that the owner has proposed to, or
// that was decided here, messages are kept for. Others are dropped, and will be
// repeated.
const Window = 1024

// retryMax is how many times Retry it is at most from one repetition to the next.
const retryMax = 4

// LambdaMax is how many instances a lease may have.
const LambdaMax = 1 << 20

// ErrLog says that the records are not this member's.
var ErrLog = errors.New("the log is of another group or member")

func (c Config) validate() error {
	switch {
	case c.ID == 0 || !slices.Contains(c.Members, c.ID):
		return fmt.Errorf("member %d is not one of the group %v", c.ID, c.Members)
	case c.Retry <= 0 || c.Heartbeat < 0:
		return fmt.Errorf("a Retry of %v and a Heartbeat of %v are not possible", c.Retry, c.Heartbeat)
	case c.Heartbeat > 0 && c.Timeout < 2*c.Heartbeat:
		return fmt.Errorf("a timeout of %v with heartbeats each %v would suspect every member", c.Timeout, c.Heartbeat)
	case c.Heartbeat > 0 && c.Timeout > 24*time.Hour:
		return fmt.Errorf("a timeout of %v is too long: a day is the limit", c.Timeout)
	case c.Lambda == 0 && !c.Plain:
		return errors.New("a Lambda of 0: a lease must cover at least one instance")
	case c.Lambda > LambdaMax:
		return fmt.Errorf("a Lambda of %d: a lease may cover at most %d instances", c.Lambda, LambdaMax)
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

// normal is the first round of NORMAL mode, n: rounds below are FAST.
func (c Config) normal() int64 { return int64(len(c.Members)) }

// coordinator is the member that coordinates a round of an instance: the (r mod n)+1st.
func (c Config) coordinator(cn uint64, r int64) machine.NodeID {
	n := uint64(len(c.Members))
	if c.Spread && r >= c.normal() {
		return c.Members[(uint64(r)%n+cn%n)%n]
	}
	return c.Members[uint64(r)%n]
}
