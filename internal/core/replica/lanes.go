package replica

import (
	"encoding/binary"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// lane is where requests wait that may share a batch.
//
// In strict order there is one lane. In key order a batch is released whole, when the
// holders of all its keys have it. So only requests that wait for the same holders share
// one: a put never waits for a holder of another's keys. That is a matter of time and not of
// safety. Each member finds out by itself which holders an entry waits for, from the entry
// and from all configurations in its log that may be in force (R13). The keys may be divided
// anew between the batching and the commit. Then the entry waits for the holders of all of
// its keys under either division, which may be more than any of its requests had waited for
// alone. It is released, and read past, as one.
type lane struct {
	company company
	open    []Propose    // not yet in a batch, oldest first
	since   machine.Mono // when the oldest of these came
	// Of the batches of this lane that are on their way:
	flying int
	last   machine.Mono // when the latest set out
}

// company says which requests share batches: those with the same. The zero company is
// that of strict order.
type company string

// apart is the company of requests that have a batch to themselves.
const apart company = "alone"

// maxBatches of a lane are on their way at once; what comes up meanwhile shares the next.
// One is being written while another is being applied; more of them would be smaller, and
// each costs every member a message, a record and a wake-up.
const maxBatches = 2

// maxApart are on their way at once in key order, of all lanes.
const maxApart = 1024

// Where members are near each other, two are enough, for batches as for rounds, and
// what comes up meanwhile shares the next. Where they are far, an answer takes longer
// than spacing: then another sets out, up to maxFlying of them.
const (
	spacing   = 5 * time.Millisecond
	maxFlying = 64
)

// mayGo reports whether another batch of the lane may set out.
func (l *lane) mayGo(now machine.Mono) bool {
	return l.company == apart || l.flying < maxBatches || l.flying < maxFlying && now.Sub(l.last) >= spacing
}

// next takes the requests of the next batch.
func (l *lane) next(maxBytes int) []Propose {
	n, bytes := 0, 0
	for n < len(l.open) && (n == 0 || l.company != apart) {
		bytes += l.open[n].size()
		alone := solitary(l.open[n:]) || solitary(l.open[max(0, n-1):n])
		if n > 0 && (bytes > maxBytes || alone) {
			break
		}
		n++
	}
	requests := l.open[:n:n]
	if l.open = l.open[n:]; len(l.open) == 0 {
		l.open = nil
	}
	return requests
}

// lane finds or makes the lane of a company.
func (p *proposals) lane(c company) *lane {
	for _, l := range p.lanes {
		if l.company == c {
			return l
		}
	}
	l := &lane{company: c}
	p.lanes = append(p.lanes, l)
	return l
}

// fileArrived puts what has come into lanes.
func (r *Replica) fileArrived() {
	for _, in := range r.proposals.arrived() {
		c := company("")
		if r.reads.keys.on {
			c = r.reads.companyOf(r.leading(), in.Body)
		}
		r.proposals.file(r.now, in, c)
	}
}

// file puts a request into the lane of its company, and it stays there: lanes decide which
// requests share a batch, and nothing else.
func (p *proposals) file(now machine.Mono, in Propose, c company) {
	l := p.lane(c)
	if len(l.open) == 0 {
		l.since = now
	}
	l.open = append(l.open, in)
}

// arrived takes the requests that have come since the last turn.
func (p *proposals) arrived() []Propose {
	come := p.come
	p.come = nil
	return come
}

// companyOf returns the company of a request in key order: that of others that wait for
// the same holders, to be visible or to be read past. A request that might have to wait for
// more goes alone. Such are requests that touch everything, change the holders of keys or the
// members, or end a lease, whose keys are not known here for sure. So are those that depend
// on a lease, or change a guard, of an entry that is not released.
func (rl *readLeases) companyOf(leads bool, body []byte) company {
	k := &rl.keys
	t := &k.scratch
	known := t.scanRequest(body)
	settles := len(body) > 0 && (body[0] == kindReadPolicy || body[0] == kindReadCells)
	if !known || settles || t.all || len(t.ended) > 0 || k.log.entangled(t) {
		return apart
	}
	kind := byte('w')
	switch {
	case len(t.Keys.Writes) == 0 && len(t.Keys.Reads) > 0:
		kind = 'r' // no holder has to have it, once its keys are released
	case leads && rl.plans.readHere(t.Keys.Writes):
		kind = 'k' // it may be kept
	}
	c := []byte{kind}
	holders := k.holdersOf(append(t.Keys.Writes, t.Keys.Reads...))
	if holders == nil {
		return company(append(c, '*'))
	}
	for _, id := range holders {
		c = binary.AppendUvarint(c, uint64(id))
	}
	return company(c)
}
