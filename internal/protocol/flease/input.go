package flease

import (
	"errors"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Limits of what a caller can ask for.
const (
	maxName   = 512 // bytes of a resource's name
	maxHolder = 512 // bytes of a holder's
	// MaxHoldings is how many may share a resource.
	MaxHoldings = 64
)

// Shared is the Slots of a claim that is content with any number of other holders.
const Shared = 1<<31 - 1

// Inputs, beside messages, whose Body is a *Batch. IDs are the caller's;
// claims and observations share them, and one may be used again only after its last
// outcome.
type (
	// Acquire begins a claim. Acquired or Refused follows, or Released if the caller
	// gives up by Release.
	Acquire struct {
		ID   uint64
		Name string
		// Holder is shown to others and decides nothing.
		Holder string
		// TTL is how long the lease lasts from before it is asked for, in whole
		// milliseconds; 0 for as long as possible. At least MinTTL, and with LockDelay at
		// most TMax.
		TTL time.Duration
		// LockDelay is how much longer others wait if the lease is not released.
		LockDelay time.Duration
		// Slots is how many may hold the resource at once, this claim included: 1 (or 0)
		// for an exclusive lease.
		Slots int
		// Try refuses the claim instead of letting it wait for others.
		Try bool
		// Decide is the paper's GetLease, with Try: a proposer that finds another's lease
		// writes it back, so that Refused shows a decided lease (Property L2), not only one
		// that was seen.
		Decide bool
	}
	// Release ends a claim, held or not; Released follows. Call it when the guarded work
	// is over: the claim counts as over from here on.
	Release struct{ ID uint64 }
	// Handover is Release in favor of a claim that waits at another peer: others let
	// it go first, for a moment.
	Handover struct {
		ID uint64
		To machine.NodeID
	}
	// Observe looks at a resource without contending; Observed follows.
	Observe struct {
		ID   uint64
		Name string
	}
	// ChangeView installs the next view. Give it to all peers of both views, some
	// authority having decided it; peers also tell each other. Its epoch is one more than
	// that of the view that is active here: another has no effect but an Alarm.
	ChangeView struct{ View View }
	// Shutdown makes the peer fall silent for good and report a Snapshot. Claims
	// are lost; release them before.
	Shutdown struct{}
	// ClockFault reports that the synchronized clock cannot be trusted (its error estimate
	// exceeds ε, the host was suspended …). It is as good as a crash, see Alarm.
	ClockFault struct{ Why string }
)

// Input is one of these.
type Input interface{ input() }

func (Acquire) input()    {}
func (Release) input()    {}
func (Handover) input()   {}
func (Observe) input()    {}
func (ChangeView) input() {}
func (Shutdown) input()   {}
func (ClockFault) input() {}

// Outcomes: the reports of a peer.
type (
	// Acquired: the lease is held while the monotonic clock shows less than Deadline and
	// the synchronized one less than Until. Both have to be looked at: the paper's rule is
	// about the second, the first is for clocks that are set back.
	Acquired struct {
		ID uint64
		// Token is greater than that of every earlier tenure of the name: the ballot of this
		// tenure's first WRITE.
		Token    uint64
		Deadline machine.Mono
		Until    machine.Wall
	}
	// Renewed moves both.
	Renewed struct {
		ID       uint64
		Deadline machine.Mono
		Until    machine.Wall
	}
	// Lost: the lease was not renewed in time, or the register shows others. The claim
	// is gone; Release is not needed and has no answer.
	Lost struct {
		ID  uint64
		Why string
	}
	// Refused ends a claim that was not admitted. Err is nil if others hold the resource;
	// then State names them.
	Refused struct {
		ID    uint64
		State State
		Err   error
	}
	// Waits reports a change in the holders that a claim has to wait for. Err is
	// ErrNoMajority while nobody can tell.
	Waits struct {
		ID    uint64
		State State
		Err   error
	}
	// Released ends a claim. Confirmed: nobody has to wait for it. Else its lease
	// ends by itself, at TTL and lock delay after its last renewal.
	Released struct {
		ID        uint64
		Confirmed bool
	}
	// Observed answers Observe.
	Observed struct {
		ID    uint64
		State State
		// Err is set if no majority answered.
		Err error
	}
	// Alarm is trouble that people should hear of. It is repeated at most once per TMax.
	Alarm struct {
		Kind AlarmKind
		Peer machine.NodeID // the heir, 0 if it is not known
		By   time.Duration  // Skew: how far it is ahead beyond ε, about; Jump: how far
		Why  string
	}
	// Active says that a view is complete: all its cells vote.
	Active struct{ View View }
	// Quarantined says that the peer is silent, until both clocks have come this far.
	Quarantined struct {
		Deadline machine.Mono
		Until    machine.Wall
	}
	// Serving says that a quarantine is over, or that none was needed.
	Serving struct{}
	// Snapshot answers Shutdown. Make Record durable; give it to the next life at most
	// once: remove it, durably, before New. If the peer was silent, the next life has a
	// quarantine of its own.
	Snapshot struct{ Record *Record }
)

// Report is one of these.
type Report interface{ outcome() }

func (Acquired) outcome()    {}
func (Renewed) outcome()     {}
func (Lost) outcome()        {}
func (Refused) outcome()     {}
func (Waits) outcome()       {}
func (Released) outcome()    {}
func (Observed) outcome()    {}
func (Alarm) outcome()       {}
func (Active) outcome()      {}
func (Quarantined) outcome() {}
func (Serving) outcome()     {}
func (Snapshot) outcome()    {}

// AlarmKind says what an Alarm is about.
type AlarmKind int

const (
	// Skew: a ballot came from ahead of our clock and ε. One of the two clocks is wrong.
	Skew AlarmKind = iota
	// Jump: our own clocks moved apart. All claims were lost, a quarantine began.
	Jump
	// Disagreement: a peer has other members under the same epoch.
	Disagreement
	// Late: renewals are late; new claims are refused until they are not.
	Late
	// Gap: a view was to be installed that does not follow on the one that is active. Give
	// it again when the one before it is Active.
	Gap
)

func (k AlarmKind) String() string {
	return [...]string{"skew", "jump", "disagreement", "late", "gap"}[k]
}

// State describes a resource at a look. It may be out of date when it is read.
type State struct {
	Name string
	// Holdings are the leases that may still be valid.
	Holdings []Holding
	// Waiting is how many claims wait, as far as is known.
	Waiting int
	// Stable: a majority showed the same, so this was the state at some moment during the
	// look. Else it is a hint.
	Stable bool
}

// Errors of Refused and Observed.
var (
	// ErrClaim is a claim that cannot be served; the error says why.
	ErrClaim = errors.New("flease: bad claim")
	// ErrBusy: too many claims wait, or renewals are late. Try again later.
	ErrBusy = errors.New("flease: too much to do; try again later")
	// ErrNoMajority: a majority of the resource's cell did not answer in time.
	ErrNoMajority = errors.New("flease: no majority of the cell answers")
	// ErrQuarantine: the peer has restarted and must be silent for a while.
	ErrQuarantine = errors.New("flease: the peer is in quarantine after its start")
	// errShutdown: the peer has been shut down.
	errShutdown = errors.New("flease: the peer is shut down")
)
