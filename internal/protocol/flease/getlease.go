package flease

import "fmt"

// Form says which of the paper's procedures GetLease is.
type Form int

const (
	// Basic is Algorithm 2.
	Basic Form = iota
	// Renewing is Algorithm 3: an owner extends its lease.
	Renewing
	// Loose is Algorithm 4: clocks differ by up to ε.
	Loose
)

func (f Form) String() string { return [...]string{"Algorithm 2", "Algorithm 3", "Algorithm 4"}[f] }

// GetLease is one call of the paper's procedure at one process, to the letter: with the
// faults that the package comment lists. Nothing that serves uses it. It sends nothing
// itself: the caller carries READ and WRITE to all Registers and reports what they say,
// each Register's answer once.
//
//	g := NewGetLease(Loose, 3, n, k, tmax, eps)
//	for each process:  g.AckRead(order, at, v, clock) or g.NackRead()
//	if v, ok := g.Writes(); ok: for each process:  g.AckWrite() or g.NackWrite()
//	g.Result()
type GetLease struct {
	Form      Form
	Proc, N   int
	K         Rank
	TMax, Eps Time

	stage       int // reading, writing, over
	acks, nacks int
	best        *Rank
	value       *Lambda
	outcome     Outcome
}

// Outcome of a GetLease.
type Outcome int

const (
	// Pending: answers are missing.
	Pending Outcome = iota
	// Committed: Lambda is decided.
	Committed
	// Aborted: somebody else was there.
	Aborted
	// Again: `wait for ε; return GetLease(k') . with k' > k`, of Algorithm 4.
	Again
)

func (o Outcome) String() string {
	return [...]string{"pending", "committed", "aborted", "again"}[o]
}

// NewGetLease begins by read(k). N is the number of processes.
func NewGetLease(form Form, proc, n int, k Rank, tmax, eps Time) *GetLease {
	if n < 1 || tmax <= 0 || eps < 0 {
		panic(fmt.Sprintf("flease: GetLease of %d processes, t_max %d, ε %d", n, tmax, eps))
	}
	return &GetLease{Form: form, Proc: proc, N: n, K: k, TMax: tmax, Eps: eps}
}

// majority is ⌈(n+1)/2⌉.
func (g *GetLease) majority() int { return g.N/2 + 1 }

// AckRead is an (ackREAD,k,k',v), of which the one with the highest k' counts. The clock is
// read each time that the text says t_now, which is more than once (E6).
func (g *GetLease) AckRead(order Order, at *Rank, v *Lambda, clock func() Time) {
	if g.stage != 0 || g.outcome != Pending {
		return
	}
	if at != nil && (g.best == nil || order(*at, *g.best) > 0) {
		g.best, g.value = at, v
	}
	if g.acks++; g.acks+g.nacks == g.majority() {
		g.read(clock)
	}
}

// NackRead is a (nackREAD,k).
func (g *GetLease) NackRead() {
	if g.stage == 0 && g.outcome == Pending {
		g.nacks++
		if g.acks+g.nacks == g.majority() {
			g.outcome = Aborted
		}
	}
}

// read is what follows `if read(k) = (commit, λ)`.
func (g *GetLease) read(clock func() Time) {
	if g.nacks > 0 {
		g.outcome = Aborted
		return
	}
	if l := g.value; g.Form == Loose && l != nil && l.Until < clock() && l.Until+g.Eps > clock() {
		g.outcome = Again
		return
	}
	switch l := g.value; {
	case l == nil || l.Until < clock():
		g.value = &Lambda{g.Proc, clock() + g.TMax}
	case g.Form != Basic && l.Proc == g.Proc:
		g.value = &Lambda{g.Proc, clock() + g.TMax}
	}
	g.stage, g.acks, g.nacks = 1, 0, 0
}

// Writes returns what write(k,λ) sends, once the read has committed.
func (g *GetLease) Writes() (*Lambda, bool) { return g.value, g.stage == 1 }

// AckWrite is an (ackWRITE,k).
func (g *GetLease) AckWrite() { g.wrote(true) }

// NackWrite is a (nackWRITE,k).
func (g *GetLease) NackWrite() { g.wrote(false) }

func (g *GetLease) wrote(ack bool) {
	if g.stage != 1 || g.outcome != Pending {
		return
	}
	if ack {
		g.acks++
	} else {
		g.nacks++
	}
	if g.acks+g.nacks < g.majority() {
		return
	}
	if g.outcome = Committed; g.nacks > 0 {
		g.outcome = Aborted
	}
}

// Result is what the procedure returns. Lambda is set if it is Committed.
func (g *GetLease) Result() (Outcome, Lambda) {
	if g.outcome == Committed {
		return g.outcome, *g.value
	}
	return g.outcome, Lambda{}
}
