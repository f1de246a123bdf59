package tenure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrDone says that the work of a Periodic is not due: a run has begun less than its Every ago.
	ErrDone = errors.New("done in this period")
	// ErrClock says that this host's clock and that of the last run's host contradict each other, so that
	// it is unknown whether the work of a Periodic is due.
	ErrClock = errors.New("clocks disagree")
)

// Recorder is a Leaser whose store keeps a record beside each lease, for the next holders. All engines of
// this module are Recorders. Storage and etcd keep records on disks. Peers (Flease) keep them in memory, as long as
// no majority of the peers restarts at one time without its state.
type Recorder interface {
	// Record returns the record of a name, nil if it has none. It needs no lease. A record of no bytes is
	// as good as none.
	Record(ctx context.Context, name string) ([]byte, error)
	// SetRecord replaces the record of a name whose lease, one of this Leaser's, is held. Each Record
	// that begins after it has returned nil returns this record or one that was set later. The record
	// of an earlier tenure never takes the place of a later one's, however long its holder was stopped
	// meanwhile. A record has at most 2 KiB. The error wraps ErrLost or ErrReleased if the tenure has
	// ended. After any other error but ErrClaim the record may be set all the same.
	SetRecord(ctx context.Context, lease Lease, record []byte) error
}

// Periodic is work that is done once in a period, such as a backup each night, on whichever host comes
// first. Hosts may begin at the same time or hours apart, and the period outlives the lease, the
// process and the host:
//
//	nightly := tenure.Periodic{Leaser: leaser, Claim: tenure.Claim{Name: "nightly"}, Every: 20 * time.Hour}
//	err := nightly.Do(ctx, backup)
//	if errors.Is(err, tenure.ErrDone) {
//		return nil // another host has done it, or this one before
//	}
//
// A period begins with a run, and is as long as Every says; it is not aligned to the clock. So let Every
// be shorter than the time between two nights, by more than hosts may be late. It is measured with the
// hosts' own clocks, which may be minutes apart: by as much it may be shorter or longer. A run whose
// beginning lies up to 15 minutes in the future counts as one that has just begun. One that lies
// further ahead is no evidence of anything: the error is ErrClock until somebody mends a clock. If that of
// the last run was wrong, its record is, too: `tenure lease reset NAME` forgets it, as SetRecord without a
// record does under the lease.
//
// Two runs are never under way at once, as far as a lease can see to that. A run is repeated within the
// period if its record is lost with the store (or with the memory of peers, see Recorder), or with Retry.
type Periodic struct {
	Leaser Leaser // a Recorder as well
	Claim  Claim  // exclusive
	Every  time.Duration
	// Retry lets others repeat a run that has failed, or whose host died before the end. Else a run
	// counts from its beginning, whatever became of it.
	Retry bool
}

// Run is one run of the work of a Periodic. Times are those of its host's clock.
type Run struct {
	Holder  string    `json:"holder"`
	Token   uint64    `json:"token"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`  // zero: it is under way, or its host died
	Failed  bool      `json:"failed,omitzero"` // it has ended, with an error
}

// skew is how far the clocks of hosts may be apart. Those of hosts without any synchronization drift by
// seconds a day.
const skew = 15 * time.Minute

// Do runs fn under the lease if the work is due. If it is not, the error wraps ErrDone, and Do waits for
// the lease only where a run that is under way decides. Other errors are those of the package's function
// Do. A run has failed if fn returns an error. If the lease is lost, the run is recorded as one that has not ended.
func (p Periodic) Do(ctx context.Context, fn func(ctx context.Context, lease Lease) error) error {
	if err := p.Due(ctx); err != nil {
		return err
	}
	return Do(ctx, p.Leaser, p.Claim, func(held context.Context, lease Lease) error {
		r, err := p.Begin(held, lease)
		if err != nil {
			return err
		}
		err = fn(held, lease)
		return errors.Join(err, p.End(context.WithoutCancel(ctx), lease, r, err))
	})
}

// Last returns the latest run. Its Started is zero if there was none.
func (p Periodic) Last(ctx context.Context) (r Run, err error) {
	rec, err := p.recorder()
	if err != nil {
		return r, err
	}
	raw, err := rec.Record(ctx, p.Claim.Name)
	if err != nil {
		return r, fmt.Errorf("look for the last run of %q: %w", p.Claim.Name, err)
	}
	if len(raw) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.Started.IsZero() {
		return Run{}, fmt.Errorf("%w: the record of %q is %.40q, which no Periodic has written: take another name", ErrClaim, p.Claim.Name, raw)
	}
	return r, nil
}

// Due returns nil if the work is due, and may have to wait for a run that is under way. Else its error
// wraps ErrDone, or ErrClock.
func (p Periodic) Due(ctx context.Context) error {
	last, err := p.Last(ctx)
	if err != nil || last.Started.IsZero() {
		return err
	}
	return p.due(last, time.Now())
}

// due is Due for a clock that shows now.
func (p Periodic) due(last Run, now time.Time) error {
	ago := now.Sub(last.Started)
	switch {
	case ago < -skew:
		return fmt.Errorf("%w: the last run of %q began at %s by the clock of %s, which is %v ahead of this host's clock: mend the one that is wrong; if the run's was, forget the run (tenure lease reset %[2]s)",
			ErrClock, p.Claim.Name, last.Started.Format(time.RFC3339), last.Holder, (-ago).Round(time.Second))
	case ago >= p.Every:
		return nil
	case p.Retry && (last.Failed || last.Ended.IsZero()):
		return nil
	}
	return fmt.Errorf("%w: %q, %s; the next run may begin at %s", ErrDone, p.Claim.Name, last, last.Started.Add(p.Every).Format(time.RFC3339))
}

// String says in words what is known of a run.
func (r Run) String() string {
	began := fmt.Sprintf("begun at %s by %s", r.Started.Format(time.RFC3339), r.Holder)
	switch took := r.Ended.Sub(r.Started).Round(time.Millisecond); {
	case r.Ended.IsZero():
		return began + ", has not ended"
	case r.Failed:
		return fmt.Sprintf("%s, failed after %v", began, took)
	default:
		return fmt.Sprintf("%s, ended after %v", began, took)
	}
}

// Begin records that the work begins under a lease that is held, if it is due, as Due does. It is for
// callers that hold the lease themselves, where Do would not suit. If it fails, the work must not begin. The run may
// be recorded all the same, and then counts as one that has not ended.
func (p Periodic) Begin(ctx context.Context, lease Lease) (Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(lease.Context(), func() { cancel(lease.Err()) })()
	if err := p.Due(ctx); err != nil {
		return Run{}, cmp.Or(lease.Check(), err)
	}
	r := Run{Holder: lease.Holder(), Token: lease.Token(), Started: time.Now().Round(0)}
	if err := p.record(ctx, lease, r); err != nil {
		return Run{}, fmt.Errorf("record that %q begins: %w", p.Claim.Name, err)
	}
	return r, lease.Check()
}

// End records the end of a run that Begin returned. failure is the error of the work, or nil.
func (p Periodic) End(ctx context.Context, lease Lease, r Run, failure error) error {
	r.Ended, r.Failed = time.Now().Round(0), failure != nil
	if err := p.record(ctx, lease, r); err != nil {
		return fmt.Errorf("record that %q has ended: %w", p.Claim.Name, err)
	}
	return nil
}

func (p Periodic) record(ctx context.Context, lease Lease, r Run) error {
	rec, err := p.recorder()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return rec.SetRecord(ctx, lease, raw)
}

func (p Periodic) recorder() (Recorder, error) {
	rec, ok := p.Leaser.(Recorder)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: this engine keeps no records, so that it cannot tell when %q was done: use another", ErrClaim, p.Claim.Name)
	case p.Every <= 0:
		return nil, fmt.Errorf("%w: a period of %v; give a positive time", ErrClaim, p.Every)
	case p.Claim.Slots > 1:
		return nil, fmt.Errorf("%w: %d slots for work that is done once a period; leave them out", ErrClaim, p.Claim.Slots)
	}
	return rec, nil
}
