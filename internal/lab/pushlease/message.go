package pushlease

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// Lengths are the paper's times.
type Lengths struct {
	// Guard bounds how long after a holder's acknowledgment a promise may be in transit. It
	// must be longer than any round trip, or promises come too late.
	Guard time.Duration
	// Lease is how long a promise lasts, from when its holder has it.
	Lease time.Duration
	// Grace bounds for how long a holder that acknowledges nothing still gets promises.
	Grace time.Duration
	// Renew is the time between two promises.
	Renew time.Duration
}

// PaperLengths are those of section 5.2 and Figure 7.
var PaperLengths = Lengths{Guard: 2 * time.Second, Lease: 2 * time.Second, Grace: 5 * time.Second, Renew: 500 * time.Millisecond}

// maxGrace bounds Grace.
const maxGrace = time.Minute

// errLengths reports Lengths out of bounds.
var errLengths = errors.New("pushlease: the lengths of pushed promises are out of bounds")

// Check returns an error if a length is out of bounds.
func (l Lengths) Check() error {
	switch {
	case l.Lease < quorumlease.MinTTL || l.Lease > quorumlease.MaxTTL:
		return fmt.Errorf("%w: Lease %v is not from %v to %v", errLengths, l.Lease, quorumlease.MinTTL, quorumlease.MaxTTL)
	case l.Guard < quorumlease.MinTTL || l.Guard > quorumlease.MaxTTL:
		return fmt.Errorf("%w: Guard %v is not from %v to %v", errLengths, l.Guard, quorumlease.MinTTL, quorumlease.MaxTTL)
	case l.Renew <= 0 || l.Renew >= l.Lease:
		return fmt.Errorf("%w: Renew %v is not less than Lease, %v", errLengths, l.Renew, l.Lease)
	case l.Grace < l.Renew || l.Grace > maxGrace:
		return fmt.Errorf("%w: Grace %v is not from Renew, %v, to %v", errLengths, l.Grace, l.Renew, maxGrace)
	}
	return nil
}

// Wait returns for how long a promise may bind its sender: the paper's t_wait. The next
// life needs it as its EarlierTTL.
func (l Lengths) Wait() time.Duration { return l.Guard + l.Lease }

// Stall returns for how long a holder's death may delay writes (section 3.8).
func (l Lengths) Stall() time.Duration { return l.Grace + l.Wait() }

// Messages of the paper's protocol. Boot is the grantor's life and To the holder's. Seq counts
// the grantor's messages to this holder, guards and promises, in this life; an acknowledgment
// bears the number of its message.
type (
	// Guard asks for a first acknowledgment.
	Guard struct{ Boot, Seq uint64 }
	// GuardAck is the paper's GuardACK.
	GuardAck struct{ Boot, To, Seq uint64 }
	// Pushed is the paper's Promise. For Lease from its arrival on, the sender names the
	// receiver as a holder in each report. It counts only if it arrives no later than Since
	// plus Guard after the receiver sent the acknowledgment Acked.
	Pushed struct {
		Boot, To, Seq       uint64
		Acked               uint64
		Since, Guard, Lease time.Duration
		Stamp               quorumlease.Stamp // as in a Promise
	}
	// PromiseReply acknowledges a promise that came in time.
	PromiseReply struct{ Boot, To, Seq uint64 }
)

// Push is a message for a grantor to send: a Guard or a Pushed.
