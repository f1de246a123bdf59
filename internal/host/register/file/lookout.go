package file

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// lookout reads the places of all handles and remembers since when they look as they do.
type lookout struct {
	vol  volume
	now  func() machine.Mono
	wait time.Duration
	set  machine.ID

	sights map[string]*sight
	order  []string     // their places, in order
	began  machine.Mono // when the latest look did
	top    uint64       // the greatest Seq seen so far, or that lost writes may have used
	bufs   [readers][]byte
}

// readers is how many places are read at the same time: they may be far away.
const readers = 8

// turns is how often a look begins anew when handles come and go.
const turns = 100

// look reads every place once. Each write that was complete before the call of look is in
// its result, or the result has a greater one:
//
// A file is removed only when other files have all of its records that are needed. If it was listed
// and could not be opened or read, its successor may be missing from the list, so there is a new
// one. If it was gone when the list was made, the list has the successor. A list that is not made
// in one step can miss both, when one is added behind the point that it has reached and the other
// removed before; the second list differs then. So it does when a place was condemned or pardoned
// meanwhile.
func (l *lookout) look() error {
	var stale error
	for turn := range turns {
		started := l.now()
		names, err := l.vol.names()
		if err != nil {
			return err
		}
		if twice(names) {
			if turn >= 3 { // it is no list that was not made in one step
				if err := l.vol.untwin(names); err != nil {
					return err
				}
			}
			continue
		}
		l.began = l.now()
		err = l.readAll(names)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, unix.ESTALE): // another host has removed it since it was opened
			stale = err
			continue
		case err != nil:
			return err
		}
		again, err := l.vol.names()
		if err != nil {
			return err
		}
		// Slots are used anew only after longer than that, by a clock that may go faster.
		if slices.Equal(names, again) && l.now().Sub(started) < l.wait*9/10 {
			l.finish(names)
			return nil
		}
	}
	if stale != nil {
		return stale
	}
	return fmt.Errorf("handles come and go faster than they can be read, or reading takes longer than %v", l.wait)
}

// twice reports whether a list, in order, has a place under two names, because it was renamed
// meanwhile.
func twice(names []string) bool {
	for i := range names {
		if i > 0 && placeOf(names[i-1]) == placeOf(names[i]) {
			return true
		}
	}
	return false
}

func (l *lookout) readAll(names []string) error {
	sights := make([]*sight, len(names))
	for i, name := range names {
		place := placeOf(name)
		if l.sights[place] == nil {
			l.sights[place] = &sight{place: place}
		}
		sights[i] = l.sights[place]
		sights[i].name = name
	}
	errs := make([]error, len(names))
	var next atomic.Int64
	work := func(buf *[]byte) {
		for i := next.Add(1) - 1; i < int64(len(sights)); i = next.Add(1) - 1 {
			errs[i] = l.read(sights[i], buf)
		}
	}
	var others sync.WaitGroup
	for i := 1; i < min(len(sights), readers); i++ {
		others.Go(func() { work(&l.bufs[i]) })
	}
	work(&l.bufs[0])
	others.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *lookout) read(g *sight, buf *[]byte) error {
	f, err := l.vol.open(g.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := g.read(f, l.vol.shared(), buf, l.now); err != nil {
		return err
	}
	if g.headErr == nil && g.head.set != l.set && g.head.id != (machine.ID{}) {
		return fmt.Errorf("handle %s was made for set %v, and this store is of set %v: %w: take it away", g.place, g.head.set, l.set, register.ErrMismatch)
	}
	return nil
}

func (l *lookout) finish(names []string) {
	places := make([]string, len(names))
	for i, name := range names {
		places[i] = placeOf(name)
	}
	l.order = places
	for place := range l.sights {
		if _, ok := slices.BinarySearch(places, place); !ok {
			delete(l.sights, place)
		}
	}
	for _, place := range places {
		l.top = max(l.top, l.sights[place].top())
	}
	for _, place := range places {
		l.sights[place].settle(l.began, l.wait, l.top)
	}
	for _, place := range places {
		l.top = max(l.top, l.sights[place].top())
	}
}

// condemned reports whether a place of the latest look was condemned when it was listed.
func (l *lookout) condemned(place string) bool { return condemned(l.sights[place].name) }

// forget drops a place that was removed.
func (l *lookout) forget(place string) {
	l.order = slices.DeleteFunc(l.order, func(p string) bool { return p == place })
	delete(l.sights, place)
}

// damage is that of all places.
func (l *lookout) damage() (names map[string]error, all error) {
	for _, place := range l.order {
		some, err := l.sights[place].damage(l.began, l.wait)
		if err != nil {
			return nil, err
		}
		for name, err := range some {
			if names == nil {
				names = map[string]error{}
			}
			names[name] = err
		}
	}
	return names, nil
}

// records calls f for each copy of a record that the latest look saw.
func (l *lookout) records(f func(at spot, r *record)) {
	for _, place := range l.order {
		g := l.sights[place]
		for i := range g.slots {
			for _, r := range g.slots[i].copies {
				if r != nil && r.name != "" {
					f(spot{place, i}, r)
				}
			}
		}
	}
}

// spot is a slot of a place.
type spot struct {
	place string
	slot  int
}

func (s spot) compare(o spot) int {
	return cmp.Or(cmp.Compare(s.place, o.place), cmp.Compare(s.slot, o.slot))
}

// join gathers all records of a register. Every copy counts, an older one beside a newer one too:
// it says nothing that the newer one does not outdo.
type join struct {
	state quorumregister.State
	notes map[machine.ID]quorumregister.Note
}

func (j *join) add(r *record) {
	if r.wrote() && r.version.Compare(j.state.Version) > 0 {
		j.state.Version, j.state.Data = r.version, r.data
	}
	if r.noteSeq > j.notes[r.writer].Seq {
		if j.notes == nil {
			j.notes = map[machine.ID]quorumregister.Note{}
		}
		j.notes[r.writer] = quorumregister.Note{Writer: r.writer, Seq: r.noteSeq, Data: r.note}
	}
}

// done returns the state, its notes by writer.
func (j *join) done(floor uint64) quorumregister.State {
	s := j.state
	s.Floor = floor
	for _, n := range j.notes {
		s.Notes = append(s.Notes, n)
	}
	slices.SortFunc(s.Notes, func(a, b quorumregister.Note) int { return a.Writer.Compare(b.Writer) })
	return s
}

// states returns the state of some registers at the latest look.
func (l *lookout) states(names map[string]bool) map[string]quorumregister.State {
	joins := map[string]*join{}
	for name := range names {
		joins[name] = &join{}
	}
	l.records(func(_ spot, r *record) {
		if j := joins[r.name]; j != nil {
			j.add(r)
		}
	})
	states := make(map[string]quorumregister.State, len(names))
	for name, j := range joins {
		states[name] = j.done(l.top)
	}
	return states
}
