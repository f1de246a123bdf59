package broadcast

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A member's promises are in its directory. If that was emptied, or is an older copy, the
// member has forgotten promises, and two orders may come of it. Only others can notice. So:
//
//   - A directory has a number, drawn when it is made, each life of a member in it another, and
//     a mark: up to which of the log's records promises are durable. Members introduce
//     themselves to each other with theirs (introduction), and note each other's on disk
//     (note).
//   - A member contradicts its note if its directory is another one, lacks the noted life, or
//     has not reached the noted mark. Then it is told that it has forgotten something (forgot),
//     and its messages are ignored.
//   - A founder's new directory counts when more than half of the other founders have it on
//     disk, and takes no part before. So of a founder's first directory and a second one only
//     the first can ever count. More than half of the others noted the first, and more than
//     half would have to note the second; one of them would have noted both.
//   - One that joins counts when one of the others has noted it. Members tell each other their
//     notes with the introduction, before anything else. So a member that hears of a group with
//     a new member also hears of the new directory, if the sender knows it.
//
// A member's message is believed only with the number of the life that sends it, which the
// sender tells only to those that it dials. An introduction is believed only with the number of
// the receiver's life. A stranger that merely reaches the port knows neither, with TLS or
// without.

// introduction describes a member's directory.
type introduction struct {
	To    uint64 // the number of the life that this is said to, as far as it was heard; else 0
	Dir   uint64
	Life  uint64 // from 1
	Mark  uint64
	Lives []birth // the last ones, the present one included, the oldest first
	Notes []note  // of other members
}

// birth is that of a life.
type birth struct {
	Number uint64 // drawn
	At     uint64 // the number of its record in the log; the records durable in earlier lives are below
}

// livesKept is how many of its lives a member can show. One that has had more since another
// member heard of it last is judged by its mark alone.
const livesKept = 64

// notesMax bounds the notes in an introduction, and the notes that are kept.
const notesMax = 1024

// met answers an introduction that is noted here, durably; forgot answers one that contradicts
// the note. Both are to a life with a number.
type (
	met    struct{ Life, Mark uint64 }
	forgot struct{ Life, Dir, Lives, Mark uint64 }
)

// note is the record of another member's introduction, counted that this member's directory
// counts.
type (
	note struct {
		Node                    machine.NodeID
		Dir, Life, Number, Mark uint64
	}
	counted struct{}
)

// checkDirectory returns the reason for which a directory is not the noted one, as it was or further,
// or nil.
func (n note) checkDirectory(in introduction) error {
	number, until, shown := in.life(n.Life)
	switch {
	case in.Dir != n.Dir:
		return fmt.Errorf("its directory is another one, made in its place")
	case in.Life < n.Life:
		return fmt.Errorf("its directory has had %d starts, and %d were heard of", in.Life, n.Life)
	case shown && number != n.Number:
		return fmt.Errorf("its start %d was another one in its directory", n.Life)
	case until <= n.Mark:
		return fmt.Errorf("its log ended at record %d when it started, and had been at %d", until-1, n.Mark)
	}
	return nil
}

// life returns the number of a life, and where the log stood when the next one began. A life
// that is no longer shown ended before the first one that is.
func (in introduction) life(n uint64) (number, until uint64, shown bool) {
	first := in.Life + 1 - uint64(len(in.Lives))
	switch {
	case n > in.Life:
		return 0, 0, false
	case n < first:
		return 0, in.Lives[0].At, false
	case n == in.Life:
		return in.Lives[n-first].Number, ^uint64(0), true
	}
	return in.Lives[n-first].Number, in.Lives[n-first+1].At, true
}

// possible reports whether an introduction can be meant as it is.
func (in introduction) possible() bool {
	last := uint64(0)
	for _, b := range in.Lives {
		if b.Number == 0 || b.At <= last {
			return false
		}
		last = b.At
	}
	return in.Dir != 0 && len(in.Notes) <= notesMax && len(in.Lives) > 0 && len(in.Lives) <= livesKept && uint64(len(in.Lives)) <= in.Life
}

// heard is the body of a message of another member, in the life of that number.
type heard struct {
	life uint64
	body any
}

// Inputs of acquainted, and its outcomes, beside those of package abcast.
type (
	// reached is a member to which messages can be sent from now on.
	reached struct {
		abcast.Beside
		id machine.NodeID
	}

	// wanted is a want that was heard. listens names a member whose messages are taken from now
	// on, and the number of its life, or 0 if none is listened to.
	wanted struct {
		abcast.Beside
		from machine.NodeID
		want want
	}
	listens struct {
		abcast.Beside
		to   machine.NodeID
		life uint64
	}
	// counts is said once: this member takes part from now on. Until then awaits says now and
	// then which others have not noted its directory.
	counts struct{ abcast.Beside }
	awaits struct {
		abcast.Beside
		whom []machine.NodeID
	}
	// refuted is a member with a directory that has forgotten something, forgotten that this
	// one is told so by another.
	refuted struct {
		abcast.Beside
		node machine.NodeID
		err  error
	}
	forgotten struct {
		abcast.Beside
		by machine.NodeID
		forgot
	}
)

// acquainted is a member's machine that listens only to members whose directory is the one
// they had. It is a machine.Machine without a clock of its own, and writes the log anew when
// its inner machine has a new base.
type acquainted struct {
	*abcast.Machine
	self       introduction
	id         machine.NodeID
	others     func() []machine.NodeID
	mark       func() uint64 // of this member's log
	logDropped func(from machine.NodeID, count uint64, err error)
	every      time.Duration // between introductions to those that have not answered; 0 if there is nobody

	need   int // how many others have to note a new directory
	counts bool
	notes  map[machine.NodeID]note
	loose  map[machine.NodeID]bool   // members whose note is written, and not forced
	heard  map[machine.NodeID]uint64 // the number of the life that introduced itself last
	known  map[machine.NodeID]uint64 // of the one that is listened to
	met    map[machine.NodeID]noted  // members that have noted this life
	next   machine.Mono
	say    machine.Mono // when awaits is said again; 0 before the first step
	ready  machine.Ready[abcast.Outcome]
}

// A start takes less than awaitsFirst times acquainted.every if all are there; awaitsPause is
// the time from one line of the log about those that are not to the next.
const (
	awaitsFirst = 10
	awaitsPause = time.Minute
)

// noted is in which life another member has last noted this one, and which Mark.
type noted struct{ life, mark uint64 }

// recall takes the records about acquaintance out of a log's.
func (a *acquainted) recall(records []any) (rest []any) {
	for _, r := range records {
		switch r := r.(type) {
		case note:
			a.notes[r.Node] = r
		case counted:
			a.counts = true
		default:
			rest = append(rest, r)
		}
	}
	return rest
}

// records are those that recall takes.
func (a *acquainted) records() (records []any) {
	for _, id := range slices.Sorted(maps.Keys(a.notes)) {
		records = append(records, a.notes[id])
	}
	if a.counts {
		records = append(records, counted{})
	}
	return records
}

// number is that of this life.
func (a *acquainted) number() uint64 { return a.self.Lives[len(a.self.Lives)-1].Number }

// Step takes what package abcast's machine does, and reached.
func (a *acquainted) Step(now machine.Now, input abcast.Input) {
	if in, ok := input.(reached); ok {
		a.introduceTo(in.id)
	} else if a.counts {
		a.Machine.Step(now, input)
	}
}

// Wake introduces this member to others that have not answered.
func (a *acquainted) Wake(now machine.Now) {
	if a.counts {
		a.Machine.Wake(now)
	}
	if a.every > 0 && now.Mono >= a.next {
		a.next = now.Mono.Add(a.every)
		for _, id := range a.others() {
			if met, ok := a.met[id]; !ok || met.mark < a.mark() || met.life != a.heard[id] {
				a.introduceTo(id)
			}
		}
		if !a.counts && len(a.met) < a.need {
			a.reportMissing(now)
		}
	}
}

// Receive takes what was heard of another member, and this member's own messages.
func (a *acquainted) Receive(now machine.Now, e machine.Envelope) {
	switch b := e.Body.(type) {
	case heard:
		a.hear(now, e.From, b)
	case counted:
		a.begin(now)
	default:
		if a.counts {
			a.Machine.Receive(now, e)
		}
	}
}

// introduceTo tells another member of this directory.
func (a *acquainted) introduceTo(to machine.NodeID) {
	in := a.self
	in.To, in.Mark = a.heard[to], a.mark()
	for _, id := range slices.Sorted(maps.Keys(a.notes)) {
		if n := a.notes[id]; id != to && len(in.Notes) < notesMax {
			in.Notes = append(in.Notes, n)
		}
	}
	a.send(to, in)
}

func (a *acquainted) send(to machine.NodeID, body any) {
	a.ready.Sends = append(a.ready.Sends, machine.Envelope{From: a.id, To: to, Body: body})
}

func (a *acquainted) out(outcome abcast.Outcome) {
	a.ready.Outcomes = append(a.ready.Outcomes, outcome)
}

// hear takes in what another member says.
func (a *acquainted) hear(now machine.Now, from machine.NodeID, h heard) {
	switch b := h.body.(type) {
	case introduction:
		a.meet(from, h.life, b)
		return
	case met:
		if b.Life == a.number() {
			a.noteMet(from, noted{h.life, b.Mark})
		}
		return
	case forgot:
		if b.Life == a.number() {
			a.out(forgotten{by: from, forgot: b})
		}
		return
	}
	if known := a.known[from]; known == 0 || known != h.life || !a.counts {
		return
	}
	if w, ok := h.body.(want); ok {
		a.out(wanted{from: from, want: w})
		return
	}
	a.Machine.Receive(now, machine.Envelope{From: from, To: a.id, Body: h.body})
}

// meet takes in an introduction. It is believed if its sender was told the number of this
// life.
func (a *acquainted) meet(from machine.NodeID, life uint64, in introduction) {
	if !in.possible() || in.Lives[len(in.Lives)-1].Number != life {
		return
	}
	if a.heard[from] != life {
		a.heard[from] = life
		a.introduceTo(from)
	}
	if in.To != a.number() {
		return
	}
	n, any := a.notes[from]
	if any {
		if err := n.checkDirectory(in); err != nil {
			a.listenTo(from, 0)
			a.send(from, forgot{Life: life, Dir: n.Dir, Lives: n.Life, Mark: n.Mark})
			a.out(refuted{node: from, err: err})
			return
		}
	}
	anew := !any || n.Life != in.Life || a.loose[from]
	delete(a.loose, from)
	a.learn(in.Notes)
	if any && n.Life == in.Life {
		in.Mark = max(in.Mark, n.Mark)
	}
	a.notes[from] = note{from, in.Dir, in.Life, life, in.Mark}
	answer := machine.Envelope{From: a.id, To: from, Body: met{life, in.Mark}}
	switch {
	case anew:
		a.ready.Persists = append(a.ready.Persists, machine.Persist{Record: a.notes[from], Then: []machine.Envelope{answer}})
	case in.Mark > n.Mark: // to lose it with the process does little harm
		a.ready.Persists = append(a.ready.Persists, machine.Persist{Record: a.notes[from]}, machine.Persist{Then: []machine.Envelope{answer}})
	default:
		a.ready.Persists = append(a.ready.Persists, machine.Persist{Then: []machine.Envelope{answer}})
	}
	a.listenTo(from, life)
}

// learn takes in what another member has noted of others, as far as it is news.
func (a *acquainted) learn(notes []note) {
	for _, n := range notes {
		own, any := a.notes[n.Node]
		if n.Node == a.id || any && (own.Dir != n.Dir || own.Life >= n.Life) || !any && len(a.notes) >= notesMax {
			continue
		}
		a.notes[n.Node] = n
		a.loose[n.Node] = true // no answer is sent: meets forces it
		a.ready.Persists = append(a.ready.Persists, machine.Persist{Record: n})
	}
}

func (a *acquainted) listenTo(to machine.NodeID, life uint64) {
	if a.known[to] != life {
		a.known[to] = life
		a.out(listens{to: to, life: life})
	}
}

// noteMet learns that another member has noted this life.
func (a *acquainted) noteMet(by machine.NodeID, how noted) {
	a.met[by] = how
	if a.counts || len(a.met) < a.need {
		return
	}
	a.ready.Persists = append(a.ready.Persists, machine.Persist{
		Record: counted{}, Then: []machine.Envelope{{From: a.id, To: a.id, Body: counted{}}},
	})
}

// reportMissing reports, seldom and not at once, which members have not noted a new directory.
func (a *acquainted) reportMissing(now machine.Now) {
	if a.say == 0 {
		a.say = now.Mono.Add(awaitsFirst * a.every)
	}
	if now.Mono < a.say {
		return
	}
	a.say = now.Mono.Add(awaitsPause)
	a.out(awaits{whom: slices.DeleteFunc(a.others(), func(id machine.NodeID) bool { _, met := a.met[id]; return met })})
}

// begin takes part from now on.
func (a *acquainted) begin(now machine.Now) {
	if !a.counts {
		a.counts = true
		a.Machine.Wake(now)
		a.out(counts{})
	}
}

// Ready returns the effects of the steps since the last call.
func (a *acquainted) Ready() machine.Ready[abcast.Outcome] {
	rd := machine.Ready[abcast.Outcome]{Alarm: machine.Never}
	if a.counts {
		rd = a.compacted()
	}
	rd.Sends = append(rd.Sends, a.ready.Sends...)
	rd.Persists = append(rd.Persists, a.ready.Persists...)
	rd.Outcomes = append(a.ready.Outcomes, rd.Outcomes...)
	if a.every > 0 {
		rd.Alarm = min(rd.Alarm, a.next)
	}
	a.ready = machine.Ready[abcast.Outcome]{}
	return rd
}

// compacted returns the effects of the inner machine, with the log written anew after a Trim.
func (a *acquainted) compacted() machine.Ready[abcast.Outcome] {
	rd := a.Machine.Ready()
	if c := a.Consensus(); c != nil {
		for _, r := range c.Refusals() {
			a.logDropped(r.From, r.Count, r.Err)
		}
	}
	isBase := func(p machine.Persist) bool { _, ok := p.Record.(abcast.Base); return ok }
	if slices.ContainsFunc(rd.Persists, isBase) {
		// With all that the records of this turn say.
		anew := machine.Persist{Record: rewrite{append(a.records(), a.Records()...)}}
		for _, p := range rd.Persists {
			anew.Then = append(anew.Then, p.Then...)
		}
		rd.Persists = []machine.Persist{anew}
	}
	return rd
}

// ErrForgotten says that this member's directory is not the one that others know, or an older
// copy of it. Promises that it made since are missing, and with this directory it could make
// two orders.
var ErrForgotten = errors.New("broadcast: the directory lacks promises that this member made: put the newest one back, or remove this member from the group and add another, with an ID that no member ever had and an empty directory")

// ErrOrder says that more than half of the other members have another order of messages than
// this one.
var ErrOrder = errors.New("broadcast: the others have ordered other messages than this member, one of the directories has lost records: remove this member from the group and add another, with an ID that no member ever had and an empty directory")

// needed is how many of the other members have to have noted a new directory.
func (c Config) needed() int {
	others := len(c.Members)
	if _, own := c.Members[c.ID]; own {
		others--
	}
	switch {
	case others == 0:
		return 0
	case c.Join:
		return 1
	}
	return others/2 + 1
}
