package disklease

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Shared is the Slots of a claim that is content with any number of other holders.
const Shared = 1<<31 - 1

// Config describes one claim to one lease, which lives in one register.
type Config struct {
	// ID is the claim's, random, and used for no other.
	ID machine.ID
	// Holder is shown to others. At most MaxHolder bytes.
	Holder string
	// Slots is how many may hold the lease at once, this claim included: 1 for an
	// exclusive one, Shared for a reader. 0 means 1.
	Slots int
	// LockDelay is for how long after a loss others have to wait in addition.
	LockDelay time.Duration

	// Term, Delay and Drift are those of the register's header, the same for all its users.
	Term  time.Duration // Δ: how long a lease lasts
	Delay time.Duration // δ while the register has no record yet; records carry their own
	Drift int           // ρ in parts per million

	// Poll is how often the claim that is next reads the register, about; those behind
	// it read less often. 0: ten δ, at most a fiftieth of Term.
	Poll time.Duration

	// Broken are the tokens of tenures that an operator ends by force: the claim waits for them as
	// little as for the released. Until their holders look again they hold beside it.
	Broken []uint64

	// The fields below are for experiments. Leave them zero.

	// Renewal is how a holder renews.
	Renewal Renewal
	// Wait and ReadBack are the waits of Figure 2 in tenths of δ: beyond Δ before a
	// write, 60 if zero; between write and read-back, 20 if zero.
	Wait, ReadBack int
	// RenewAfter is the time from the last write to the next renewal; 0: a third of
	// Term, or a little less. The paper renews at the instant of expiry.
	RenewAfter time.Duration
	// Trusting leaves out the fail-aware checks: a wrong δ then costs safety.
	Trusting bool
	// Plain contends exactly as Figure 2: no read in the middle of a wait, a wait
	// even if the register says that nobody holds, no queue.
	Plain bool

	// Witness is what an earlier claim to the same lease, by the same clock, had seen:
	// the Witness of its Refused. Nil if there was none.
	Witness []byte
}

// Renewal is one of section 7's two.
type Renewal int

const (
	EventuallyKnownDelay Renewal = iota // Figure 5: 2R + 1W + 2δ
	KnownDelay                          // section 7.1: 1W, without a check; unsafe after any instability
)

// MaxHolder is the longest Holder, in bytes.
const MaxHolder = 512

// Inputs.
type (
	// Acquire begins to contend, until Acquired or Leave.
	Acquire struct{}
	// TryAcquire contends only if the lease can be had without waiting for others;
	// Acquired or Refused follows.
	TryAcquire struct{}
	// Leave ends contending and holding: Left follows once others can know.
	Leave struct{}
	// Measured sets the δ that this claim would like: the longest time that an access takes
	// in ordinary times, and at least that of the header. It takes effect with the next
	// record.
	Measured struct{ Delay time.Duration }
	// Ended says what a release would have said: the claim's process held by this stamp, and does not
	// exist any more. See doc.go for when that may be said. Stamp 0 is of a claim that waits.
	Ended struct {
		ID    machine.ID
		Stamp uint64
	}
)

// Outcomes.
type (
	// Acquired: the lease is held until Deadline. Token is greater than that of every
	// earlier tenure.
	Acquired struct {
		Token    uint64
		Deadline machine.Mono
	}
	// Renewed moves the deadline.
	Renewed struct{ Deadline machine.Mono }
	// Lost: the deadline passed, or the register shows that we do not hold it any more.
	Lost struct{ Why string }
	// Refused answers TryAcquire. Err is set if the cause is not another claim. Witness is
	// for the next try: a single look cannot tell a dead holder from a living one, two
	// looks that are far enough apart can.
	Refused struct {
		State   State
		Witness []byte
		Err     error
	}
	// Left: nobody has to wait for us any more, or, when Err is set, only until our
	// lease ends by itself.
	Left struct{ Err error }
	// Trouble is an access that failed or takes long. The claim tries on.
	Trouble struct{ Err error }
)

// State describes a register to an onlooker.
type State struct {
	Members []Member // the claims that hold it or did until they were cut off
	Waiting int
	// Next is the claim that this one lets go first of all that wait; zero if there is none. Look does not
	// know it.
	Next machine.ID
}

// Member is an entry of a register's record.
type Member struct {
	ID     machine.ID
	Holder string
	Slots  int
	Token  uint64
	Stamp  uint64 // of the claim's last write
	// LockDelay is for how long others wait in addition if the claim is not released.
	LockDelay time.Duration
	// Released: by the claim, or as a later claim has learned by Ended.
	Released bool
	// Dead: it has shown no sign of life for so long that it holds no more. Since is
	// since when it has shown none, by our clock. Look knows neither.
	Dead  bool
	Since machine.Mono
}
