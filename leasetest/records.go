package leasetest

import (
	"bytes"
	"errors"
	"strings"

	"github.com/tenure-lease/tenure"
)

// recorder opens another Leaser, and skips the case unless the engine keeps records.
func (b *bench) recorder() (tenure.Leaser, tenure.Recorder) {
	b.Helper()
	l := b.leaser()
	r, ok := l.(tenure.Recorder)
	b.require("Recorder to open", ok)
	return l, r
}

// set sets the record of a lease that is held.
func (b *bench) set(r tenure.Recorder, lease tenure.Lease, record string) {
	b.Helper()
	if err := r.SetRecord(b.ctx, lease, []byte(record)); err != nil {
		b.Errorf("set the record %.20q of a held lease: %v", record, err)
	}
}

// checkRecord reports an error if the record is not the one that was set last.
func (b *bench) checkRecord(r tenure.Recorder, name, want, when string) {
	b.Helper()
	switch got, err := r.Record(b.ctx, name); {
	case err != nil:
		b.Errorf("%s: the record of %q: %v", when, name, err)
	case string(got) != want || want == "" && got != nil:
		b.Errorf("%s: the record of %q is %.20q of %d bytes, want %.20q of %d", when, name, got, len(got), want, len(want))
	}
}

func recordsStay(b *bench) {
	l, r := b.recorder()
	m, s := b.recorder()
	c, other := b.claim(), b.claim()
	other.Name += "/other"
	b.checkRecord(r, c.Name, "", "before any was set")
	lease := b.acquire(l, c)
	b.checkRecord(s, c.Name, "", "held, and none was set")
	b.set(r, lease, "1")
	b.checkRecord(s, c.Name, "1", "while it is held")
	b.set(r, lease, "2")
	long := strings.Repeat("\x00\xff3", 2<<10)[:2<<10]
	b.set(r, lease, long)
	b.release(lease)
	b.checkRecord(s, c.Name, long, "after the release")
	lease = b.acquire(m, c)
	b.checkRecord(s, c.Name, long, "to the next holder")
	b.set(s, lease, "4")
	b.checkRecord(r, c.Name, "4", "to the holder before")
	b.release(lease)
	b.checkRecord(r, other.Name, "", "of another name")
	beside := b.acquire(l, other)
	b.set(r, beside, "other")
	b.release(beside)
	b.checkRecord(r, c.Name, "4", "beside that of another name")
	if lister, ok := l.(tenure.Lister); ok {
		if names, err := lister.List(b.ctx, b.names); err != nil || len(names) > 0 {
			b.Errorf("%q, %v are listed: records remain, and no name is held", names, err)
		}
	}
	if err := m.Close(); err != nil {
		b.Errorf("close: %v", err)
	}
	if _, err := s.Record(b.ctx, c.Name); !errors.Is(err, tenure.ErrClosed) {
		b.Errorf("Record of a Leaser that is closed returns %v, want %q", err, tenure.ErrClosed)
	}
	if b.Restart != nil {
		l.Close()
		if err := b.Restart(); err != nil {
			b.Fatalf("restart the store: %v", err)
		}
		_, r = b.recorder()
		b.checkRecord(r, c.Name, "4", "after a restart of the store")
	}
}

func recordsOfHoldersOnly(b *bench) {
	l, r := b.recorder()
	m, s := b.recorder()
	c := b.claim()
	first := b.acquire(l, c)
	b.set(r, first, "first")
	refused := func(r tenure.Recorder, lease tenure.Lease, record string, want error, what string) {
		b.Helper()
		if err := r.SetRecord(b.ctx, lease, []byte(record)); !errors.Is(err, want) {
			b.Errorf("SetRecord %s returns %v, want %q", what, err, want)
		}
		b.checkRecord(s, c.Name, "first", "after SetRecord "+what)
	}
	refused(r, first, strings.Repeat("x", 2<<10+1), tenure.ErrClaim, "of more than 2 KiB")
	refused(s, first, "another's", tenure.ErrClaim, "with another Leaser's lease")
	b.release(first)
	refused(r, first, "late", tenure.ErrReleased, "after the release")
	for _, name := range []string{"", c.Name + "/"} {
		if _, err := r.Record(b.ctx, name); !errors.Is(err, tenure.ErrClaim) {
			b.Errorf("Record of %q returns %v, want %q", name, err, tenure.ErrClaim)
		}
	}
	if b.Cut != nil {
		lost := b.acquire(l, c)
		b.lose(l, lost)
		next := b.acquire(m, c)
		b.set(s, next, "first")
		refused(r, lost, "lost", tenure.ErrLost, "after the loss")
		b.release(next)
		b.Heal(l)
		cutOff := b.acquire(l, c)
		b.Cut(l)
		refused(r, cutOff, "cut off", tenure.ErrLost, "that arrives nowhere until the loss")
	}
	record := []byte("mine")
	last := b.acquire(m, c)
	if err := s.SetRecord(b.ctx, last, record); err != nil {
		b.Errorf("set a record: %v", err)
	}
	copy(record, "your")
	got, err := s.Record(b.ctx, c.Name)
	if err != nil || !bytes.Equal(got, []byte("mine")) {
		b.Errorf("the caller reuses its slice, and the record is %q, %v, want %q", got, err, "mine")
	}
	if err := s.SetRecord(b.ctx, last, nil); err != nil {
		b.Errorf("set a record of no bytes: %v", err)
	}
	if got, err := s.Record(b.ctx, c.Name); err != nil || len(got) > 0 {
		b.Errorf("after a record of no bytes the record is %q, %v, want none", got, err)
	}
	b.release(last)
}
