package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// measureOperations measures acquire, renew and release, in turn.
func (b *bench) measureOperations(ctx context.Context) error {
	if !b.wants("acquire") && !b.wants("renew") && !b.wants("release") {
		return nil
	}
	slow, err := b.store(1, leastTerm, time.Second)
	if err != nil {
		return err
	}
	fast, err := b.store(1, 15*time.Second, b.delay)
	if err != nil {
		return err
	}
	for range b.runs {
		if err := b.sanlockOnce(ctx); err != nil {
			return err
		}
		if err := b.once(ctx, atOneSecond, slow); err != nil {
			return err
		}
		for range 5 { // it is short
			if err := b.once(ctx, byTenure, fast); err != nil {
				return err
			}
		}
		if err := b.measureRenewals(ctx, byTenure, 1500*time.Millisecond, b.delay); err != nil {
			return err
		}
	}
	err = errors.Join(b.traceSanlock(ctx), b.traceTenure(ctx))
	if errors.Is(err, errNoStrace) {
		fmt.Fprintln(b.progress, errNoStrace)
		return nil
	}
	return err
}

// sanlockOnce takes the processes' times: of the operations alone the trace tells.
func (b *bench) sanlockOnce(ctx context.Context) error {
	if b.sanlock == nil {
		return nil
	}
	host := b.sanlock.next()
	do := func(part, action string) error {
		s, err := spend(b.sanlock.command(ctx, action, host, "bench"))
		if b.wants(part) {
			b.add(result{Part: part, Variant: bySanlock, Process: s.wall, CPU: s.cpu})
		}
		return err
	}
	err := do("acquire", "acquire_id")
	for range 5 {
		err = errors.Join(err, do("renew", "renew_id"))
	}
	return errors.Join(err, do("release", "release_id"))
}

// once acquires and releases a name that was never held.
func (b *bench) once(ctx context.Context, variant string, dirs []string) error {
	b.names++
	r, s, err := job{Do: "acquire", Dirs: dirs, Name: fmt.Sprint("free", b.names)}.run(ctx)
	if err != nil {
		return err
	}
	if b.wants("acquire") {
		b.add(result{Part: "acquire", Variant: variant, Took: r.Acquire, Process: s.wall, CPU: s.cpu})
	}
	if b.wants("release") {
		b.add(result{Part: "release", Variant: variant, Took: r.Release})
	}
	return nil
}

// measureRenewals holds a lease for a Term.
func (b *bench) measureRenewals(ctx context.Context, variant string, term, delay time.Duration) error {
	if !b.wants("renew") {
		return nil
	}
	dirs, err := b.store(1, term, delay)
	if err != nil {
		return err
	}
	r, _, err := job{Do: "hold", Dirs: dirs, Name: "held", Leases: 1, For: term * 5 / 4}.run(ctx)
	if err != nil {
		return err
	}
	h := r.Holding
	b.add(result{Part: "renew", Variant: variant, Took: h.P50, CPU: h.Used.CPU / time.Duration(max(h.Renewals, 1))})
	return nil
}

func (b *bench) sanlockTakeover(ctx context.Context, host int) error {
	if _, err := spend(b.sanlock.command(ctx, "acquire_id", host, "dead")); err != nil {
		return err
	}
	s, err := spend(b.sanlock.command(ctx, "acquire_id", host, "next"))
	if err == nil {
		b.add(result{Part: "takeover", Variant: bySanlock, Took: s.wall, Process: s.wall, CPU: s.cpu})
	}
	return err
}

// takeover has a holder die and another wait for it from then on.
func (b *bench) takeover(ctx context.Context, variant string, term, delay time.Duration) error {
	dirs, err := b.store(1, term, delay)
	if err != nil {
		return err
	}
	if _, _, err := (job{Do: "die", Dirs: dirs, Name: "orphan"}).run(ctx); err != nil {
		return err
	}
	r, s, err := job{Do: "acquire", Dirs: dirs, Name: "orphan"}.run(ctx)
	if err == nil {
		b.add(result{Part: "takeover", Variant: variant, Took: r.Acquire, Process: s.wall, CPU: s.cpu})
	}
	return err
}

// traceSanlock counts what each of its operations does to the file.
func (b *bench) traceSanlock(ctx context.Context) error {
	if b.sanlock == nil {
		return nil
	}
	host := b.sanlock.next()
	for _, c := range []struct{ part, action string }{{"acquire", "acquire_id"}, {"renew", "renew_id"}, {"release", "release_id"}} {
		phases, err := trace(ctx, b.sanlock.command(ctx, c.action, host, "bench"), b.sanlock.file)
		if err != nil {
			return err
		}
		a := phases[""]
		b.addAccesses(c.part, bySanlock, a, 1, a.span())
	}
	return nil
}

// traceTenure does so for ours. The operations of acquiring and renewing do not depend on Δ
// and δ.
func (b *bench) traceTenure(ctx context.Context) error {
	dirs, err := b.store(1, 1500*time.Millisecond, b.delay)
	if err != nil {
		return err
	}
	cmd, err := job{Do: "acquire", Dirs: dirs, Name: "traced", For: 1750 * time.Millisecond}.command(ctx)
	if err != nil {
		return err
	}
	phases, err := trace(ctx, cmd, dirs[0])
	if err != nil {
		return err
	}
	b.addAccesses("acquire", byTenure, phases["acquire"], 1, 0)
	// A renewal writes both copies of a record.
	b.addAccesses("renew", byTenure, phases["renew"], float64(phases["renew"].Writes)/2, 0)
	b.addAccesses("release", byTenure, phases["release"], 1, 0)
	return nil
}

func (b *bench) addAccesses(part, variant string, a accesses, n float64, took time.Duration) {
	if !b.wants(part) {
		return
	}
	b.add(result{
		Part: part, Variant: variant, Took: took,
		Reads: float64(a.Reads) / n, Writes: float64(a.Writes) / n, Others: float64(a.Others) / n,
		ReadBytes: float64(a.ReadBytes) / n, WrittenBytes: float64(a.WrittenBytes) / n,
	})
}
