package k8s

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tenure-lease/tenure"
)

// DefaultGrace is the RenewDeadline and the RetryPeriod that client-go recommends.
const DefaultGrace = 12 * time.Second

// Config says which lease stands for an election.
type Config struct {
	// Name of the election, the same at all candidates. Required.
	Name string
	// Identity is this candidate's name to people and observers. Required.
	Identity string
	// TTL is that of the lease, see tenure.Claim. 0 leaves it to the engine. Without Guard it
	// has to be longer than Grace, and twice as long does well.
	TTL time.Duration
	// Grace is how long the elector may go on after a renewal that succeeded: its RenewDeadline and
	// its RetryPeriod. Default DefaultGrace.
	Grace time.Duration
	// OnLost, if set, is called when the tenure has ended and was not released, with an error that wraps
	// tenure.ErrLost.
	OnLost func(error)
}

// Lock is a candidate's side of an election, for one elector.
type Lock struct {
	leaser tenure.Leaser
	config Config

	mu      sync.Mutex
	guarded bool  // the callbacks are ours: we know when the elector and the work have ended
	held    *term // nil if this candidate neither leads nor has just ceased to
}

var _ resourcelock.Interface = (*Lock)(nil)

// term is one time of leading, from the grant until elector and work are known to have ended.
type term struct {
	lease   tenure.Lease
	record  resourcelock.LeaderElectionRecord
	leaving bool          // the elector has stopped, or given it up
	worked  chan struct{} // closed when the work has returned
	silence *time.Timer   // without Guard: ends when no renewal has come for too long
}

// NewLock returns a candidate. The Leaser stays the caller's, who closes it after the elector has ended.
func NewLock(leaser tenure.Leaser, c Config) *Lock {
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	return &Lock{leaser: leaser, config: c}
}

// Identity is this candidate's.
func (l *Lock) Identity() string { return l.config.Identity }

// Describe returns the election's name.
func (l *Lock) Describe() string { return "tenure/" + l.config.Name }

// RecordEvent does nothing: there is no object of Kubernetes to which an event could belong.
func (l *Lock) RecordEvent(string) {}

// Lease returns the lease of this candidate, or nil if it holds none.
func (l *Lock) Lease() tenure.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil || l.held.lease.Check() != nil {
		return nil
	}
	return l.held.lease
}

// Get returns a picture of the lease: of the elector's own record while it leads, else of the holder.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if t := l.present(); t != nil {
		if err := l.usable(t); err != nil {
			return nil, nil, err
		}
		record := t.record
		raw, err := json.Marshal(record)
		return &record, raw, err
	}
	state, err := l.leaser.Observe(ctx, l.config.Name)
	if err != nil {
		return nil, nil, err
	}
	if len(state.Holders) == 0 {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Group: "tenure", Resource: "leases"}, l.config.Name)
	}
	holder := state.Holders[0]
	record := &resourcelock.LeaderElectionRecord{
		HolderIdentity:       holder.Holder,
		LeaseDurationSeconds: 1,
		LeaderTransitions:    int(min(holder.Token, math.MaxInt32)),
	}
	if record.HolderIdentity == l.config.Identity {
		// The elector takes a record with its own identity for its own.
		record.HolderIdentity += " (another process)"
	}
	if !holder.Until.IsZero() {
		record.LeaseDurationSeconds += int(max(0, time.Until(holder.Until)) / time.Second)
	}
	// The elector begins to count anew when these bytes change, which they do with each renewal.
	raw, err := json.Marshal(holder)
	return record, raw, err
}

// Create tries to take the lease.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if t := l.present(); t != nil {
		return fmt.Errorf("this candidate has held %q already; use a Lock for one elector", l.config.Name)
	}
	return l.acquire(ctx, r)
}

// Update succeeds while this candidate holds the lease for long enough. For one that does not lead, it tries to
// take the lease. A record without a holder gives the lease back.
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	t := l.present()
	switch {
	case r.HolderIdentity == "":
		if t != nil {
			l.leave(t)
			l.forget(t)
		}
		return nil
	case t == nil:
		return l.acquire(ctx, r)
	}
	if err := l.usable(t); err != nil {
		return err
	}
	l.mu.Lock()
	l.heard(t) // it lives, whether it succeeds or not
	t.record = r
	l.mu.Unlock()
	return l.lasts(t.lease)
}

func (l *Lock) left() error {
	return fmt.Errorf("this candidate gives up the lease on %q, or has, and its work may not have returned", l.config.Name)
}

func (l *Lock) present() *term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// usable returns an error if a tenure is over, or about to be.
func (l *Lock) usable(t *term) error {
	if err := t.lease.Check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.leaving {
		return l.left()
	}
	return nil
}

// lasts returns an error unless the lease outlasts an elector that fails from now on. The context of
// guarded work ends by itself.
func (l *Lock) lasts(lease tenure.Lease) error {
	l.mu.Lock()
	guarded := l.guarded
	l.mu.Unlock()
	if left := time.Until(lease.Deadline()); !guarded && left <= l.config.Grace {
		return fmt.Errorf("the lease on %q lasts for %v, and the elector may go on for %v; give it a longer TTL, or the elector a shorter RenewDeadline",
			l.config.Name, left.Round(time.Millisecond), l.config.Grace)
	}
	return nil
}

func (l *Lock) acquire(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.Strategy != "" || r.PreferredHolder != "" {
		return errors.New("coordinated leader election needs the API server's lock; set Coordinated to false")
	}
	lease, err := l.leaser.TryAcquire(ctx, tenure.Claim{Name: l.config.Name, Holder: l.config.Identity, TTL: l.config.TTL})
	if err != nil {
		return err
	}
	if err := l.lasts(lease); err != nil {
		return errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
	}
	t := &term{lease: lease, record: r, worked: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = t
	l.heard(t)
	go l.watch(lease)
	return nil
}

// watch tells of a loss.
func (l *Lock) watch(lease tenure.Lease) {
	<-lease.Done()
	if err := lease.Err(); l.config.OnLost != nil && errors.Is(err, tenure.ErrLost) {
		l.config.OnLost(err)
	}
}

// heard notes that the elector lives. Without Guard nothing else tells that it has stopped, and the lease
// would renew itself for ever.
func (l *Lock) heard(t *term) {
	if l.guarded || t.leaving {
		return
	}
	patience := max(time.Duration(t.record.LeaseDurationSeconds)*time.Second, l.config.Grace)
	if t.silence != nil {
		t.silence.Reset(patience)
		return
	}
	t.silence = time.AfterFunc(patience, func() {
		if l.config.OnLost != nil && t.lease.Check() == nil {
			l.config.OnLost(fmt.Errorf("%w: its elector has not renewed it for %v", tenure.ErrLost, patience))
		}
		l.leave(t)
	})
}

// leave ends a term whose elector has stopped or gives it up. Guarded work keeps the lease until it
// returns.
func (l *Lock) leave(t *term) {
	l.mu.Lock()
	t.leaving = true
	if t.silence != nil {
		t.silence.Stop()
	}
	guarded := l.guarded
	l.mu.Unlock()
	if guarded {
		select {
		case <-t.worked:
		default:
			return // it is released by the work's return
		}
	}
	// If the store is away, the engine waits until the deadline at most. The lease ends then by itself.
	_ = t.lease.Release(context.Background())
	if guarded {
		l.forget(t)
	}
}

// forget makes way for another term, once nothing of this one can run.
func (l *Lock) forget(t *term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-t.worked:
	default:
		if l.guarded {
			return
		}
	}
	if l.held == t && t.lease.Err() != nil {
		l.held = nil
	}
}
