package storage

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// Spec is fixed when stores of any kind are made. Zero values are chosen.
type Spec struct {
	// Term is how long a lease lasts without a renewal, the TTL of all. Default
	// tenure.DefaultTTL.
	Term time.Duration
	// Delay is δ: how long an access takes at most, in ordinary times. By default it is
	// measured: it must be given here.
	Delay time.Duration
	// Drift is by how much clocks may differ in rate from true time, in parts per
	// million. Default 1,000: NTP corrects by half of that at most.
	Drift int
}

// LeastDelay is the least δ to choose without being told: a busy machine takes that long
// to let us run.
const LeastDelay = 5 * time.Millisecond

const usualDrift = 1000

// Header returns that of the first of n stores of a new set.
func (s Spec) Header(n int) (register.Header, error) {
	h := register.Header{Of: n, Term: s.Term, Delay: s.Delay, Drift: s.Drift}
	if h.Term == 0 {
		h.Term = tenure.DefaultTTL
	}
	if h.Drift == 0 {
		h.Drift = usualDrift
	}
	if least := disklease.MinTerms * h.Delay; h.Term < least {
		return h, register.Choice(fmt.Errorf("leases of %v are too short for accesses that take up to %v: a renewal could not be confirmed in time; make them at least %v", h.Term, h.Delay, least))
	}
	rand.Read(h.Set[:]) // never fails
	return h, nil
}
