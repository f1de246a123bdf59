package storage

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// onlooker looks at a name again and again, and gets to know its dead.
type onlooker struct {
	leaser *Leaser
	name   string
	cell   *register.Cell   // with atomic reads
	lease  *disklease.Lease // never begins
}

// lookOn makes an onlooker, which has to be closed. It needs no right to write.
func (l *Leaser) lookOn(name string) *onlooker {
	return &onlooker{l, name, l.set.Register(name), l.watcher(l.witnesses.of(name))}
}

func (o *onlooker) close() { o.cell.Close() }

// watcher is a claim that never begins, and knows the observation of a witness.
func (l *Leaser) watcher(witness []byte) *disklease.Lease {
	lease, err := disklease.New(disklease.Config{
		Term: l.header.Term, Delay: l.header.Delay, Drift: l.header.Drift, Witness: witness,
	})
	if err != nil {
		panic(err) // a set's header makes leases
	}
	return lease
}

// look reads atomically, for its result is evidence of life, for this onlooker and as a witness for
// claims. A regular read may show a record that the next reader does not find, and that is dead for
// nobody else. Without the right to write, an atomic read is possible only while the stores agree.
// If it fails or takes too long, look returns the result of a regular read, and learns nothing.
func (o *onlooker) look(ctx context.Context) (tenure.State, error) {
	begun := o.leaser.clock.Now()
	watcher := o.lease
	soon, cancel := context.WithTimeout(ctx, 8*o.leaser.Delay())
	v, err := o.cell.Read(soon)
	cancel()
	if err != nil && ctx.Err() == nil {
		regular := o.leaser.set.Regular(o.name)
		defer regular.Close()
		watcher = o.leaser.watcher(nil)
		v, err = regular.Read(ctx)
	}
	switch {
	case err != nil && (ctx.Err() != nil || !o.leaser.hopeless(err)):
		return tenure.State{Name: o.name}, fmt.Errorf("observe %q: %w: %w", o.name, tenure.ErrUnavailable, err)
	case err != nil:
		return tenure.State{Name: o.name}, fmt.Errorf("observe %q: %w", o.name, err)
	}
	s, err := watcher.Saw(begun, o.leaser.clock.Now(), v)
	if err != nil {
		return tenure.State{Name: o.name}, fmt.Errorf("observe %q: %w", o.name, err)
	}
	for _, e := range o.leaser.ended(ctx, s.Members) {
		s.Members = withoutID(s.Members, e.ID)
	}
	return o.leaser.state(o.name, s), nil
}

// state returns the contract's view of a register: without members that released, and without
// members that are known to be dead.
func (l *Leaser) state(name string, s disklease.State) tenure.State {
	now := l.clock.Now()
	st := tenure.State{Name: name, Waiting: s.Waiting}
	for _, m := range s.Members {
		if m.Released || m.Dead {
			continue
		}
		// Renewed at the time of the look at the latest, or never seen since. δ is at most a part
		// of Term, also after it has adapted.
		left := min(l.header.Term, m.Since.Add(l.header.Term+2*l.header.Term/disklease.MinTerms).Sub(now))
		st.Holders = append(st.Holders, tenure.Holding{
			Holder: m.Holder, Token: m.Token, Slots: m.Slots, Until: time.Now().Add(max(left, 0)),
		})
	}
	return st
}

func withoutID(ms []disklease.Member, id machine.ID) []disklease.Member {
	return slices.DeleteFunc(ms, func(m disklease.Member) bool { return m.ID == id })
}

// Observe implements tenure.Leaser, by one read. It shows a claim that is about to hold
// like one that holds.
func (l *Leaser) Observe(ctx context.Context, name string) (tenure.State, error) {
	return l.observe(ctx, name, true)
}

// observe remembers its observation, if remember is set, for later looks and tries.
func (l *Leaser) observe(outer context.Context, name string, remember bool) (tenure.State, error) {
	if err := tenure.CheckName(name); err != nil {
		return tenure.State{Name: name}, err
	}
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return tenure.State{Name: name}, err
	}
	defer end()
	o := l.lookOn(name)
	defer o.close()
	s, err := o.look(ctx)
	switch {
	case err != nil && l.calls.CutShort(outer):
		return s, tenure.ErrClosed
	case err == nil && remember && len(s.Holders) > 0:
		l.witnesses.keep(name, o.lease.Witness())
	}
	return s, err
}

// Await implements tenure.Awaiter. It looks about fifty times a Term.
func (l *Leaser) Await(outer context.Context, since tenure.State) (tenure.State, error) {
	if err := tenure.CheckName(since.Name); err != nil {
		return since, err
	}
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return since, err
	}
	defer end()
	o := l.lookOn(since.Name)
	defer o.close()
	pause := max(l.header.Term/50, 4*l.header.Delay)
	for {
		s, err := o.look(ctx)
		switch {
		case ctx.Err() != nil:
			return since, context.Cause(ctx)
		case err != nil && !errors.Is(err, tenure.ErrUnavailable):
			return since, err
		case err == nil && !tenure.SameHolders(s, since):
			return s, nil
		}
		select {
		case <-time.After(pause/2 + portion(pause)):
		case <-ctx.Done():
		}
	}
}

// portion is a random part of d.
func portion(d time.Duration) time.Duration {
	var b [2]byte
	rand.Read(b[:]) // never fails
	return d * time.Duration(binary.BigEndian.Uint16(b[:])) >> 16
}

// listing is how many names are looked at at a time: they share accesses.
const listing = 64

// List implements tenure.Lister. It looks at all names with the prefix that were ever
// held and are not forgotten yet.
func (l *Leaser) List(outer context.Context, prefix string) ([]string, error) {
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	names, err := l.set.Names(ctx)
	switch {
	case err != nil && l.calls.CutShort(outer):
		return nil, tenure.ErrClosed
	case err != nil:
		return nil, fmt.Errorf("%w: %w", tenure.ErrUnavailable, err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, prefix) || tenure.CheckName(name) != nil // an agreement's
	})
	free, errs := make([]bool, len(names)), make([]error, len(names))
	var looks sync.WaitGroup
	turns := make(chan struct{}, listing)
	for i, name := range names {
		turns <- struct{}{}
		looks.Go(func() {
			defer func() { <-turns }()
			s, err := l.observe(ctx, name, false)
			free[i], errs[i] = len(s.Holders) == 0 && s.Waiting == 0, err
		})
	}
	looks.Wait()
	i := 0
	names = slices.DeleteFunc(names, func(string) bool { i++; return free[i-1] })
	return names, errors.Join(errs...)
}
