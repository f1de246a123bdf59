package file

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Times are how long accesses to a directory took, ascending.
type Times struct {
	Read, Write []time.Duration
	Both        []time.Duration // a read and a write after it, as in a contest
}

// Delay is the δ to choose: twice the 99.9th percentile of Both. Each of the two
// accesses of a contest has to be done in δ.
func (t Times) Delay() time.Duration { return 4 * Quantile(t.Both, 0.999) / 2 }

// Quantile returns the time that a part q of the times did not exceed. The times ascend, and q is
// between 0 and 1. It returns 0 of no times.
func Quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(int(q*float64(len(times))), len(times)-1)]
}

// someAccesses are enough to choose a δ that is adapted anyway.
const someAccesses = 32

// Measure makes a store below a directory, accesses it n times as claims do, and removes it. It
// calls progress, unless that is nil, with the number of accesses so far.
func Measure(ctx context.Context, dir string, singleHost bool, n int, progress func(done int)) (Times, error) {
	return measureBy(ctx, clock.Now, dir, singleHost, n, progress)
}

func measureBy(ctx context.Context, now func() machine.Mono, dir string, singleHost bool, n int, progress func(done int)) (t Times, err error) {
	var id machine.ID
	rand.Read(id[:]) // never fails
	// A name that file.Init takes for litter of its own.
	path := filepath.Join(dir, "TENURE."+id.String()+".new")
	if err := os.Mkdir(path, 0o700); err != nil {
		return t, err
	}
	defer os.RemoveAll(path)
	h := register.Header{Set: id, Of: 1, Term: time.Hour, Delay: time.Second}
	if err := file.Init(path, h, file.InitOptions{SingleHost: singleHost}); err != nil {
		return t, err
	}
	s, err := file.Open(path, file.Options{Clock: now})
	if err != nil {
		return t, err
	}
	defer s.Close()
	do := func(writer machine.ID, op any) (time.Duration, error) {
		began := now()
		r := s.Do([]register.Op{{Name: "measure", Writer: writer, Op: op}})
		return now().Sub(began), r[0].Err
	}
	if _, err := do(id, register.Enter{}); err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	for i := range n {
		read, err := do(id, quorumregister.Query{})
		if err != nil {
			return t, fmt.Errorf("%s: %w", path, err)
		}
		write, err := do(id, quorumregister.Put{Version: machine.Version{Seq: uint64(i + 1), Writer: id}, Data: make([]byte, 128)})
		if err != nil {
			return t, fmt.Errorf("%s: %w", path, err)
		}
		t.Read, t.Write, t.Both = append(t.Read, read), append(t.Write, write), append(t.Both, read+write)
		if progress != nil {
			progress(i + 1)
		}
		if ctx.Err() != nil {
			break
		}
	}
	slices.Sort(t.Read)
	slices.Sort(t.Write)
	slices.Sort(t.Both)
	return t, context.Cause(ctx)
}
