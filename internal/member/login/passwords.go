package login

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sync/semaphore"

	"github.com/tenure-lease/tenure/internal/state/auth"
)

// maxWaiting is how many calls may wait for their turn to compute a hash.
const maxWaiting = 256

// Passwords computes hashes and compares with them, for a part of the processors at a time.
type Passwords struct {
	cost    int
	turns   *semaphore.Weighted
	waiting atomic.Int64
	// nobody is the hash that a password of nobody is compared with. It is made when somebody logs
	// in for the first time: most members have no users.
	nobody  func() ([]byte, error)
	compare func(hash, password []byte) error // bcrypt's
}

// newPasswords makes hashes of a cost of bcrypt's, from 4 to 31.
func newPasswords(cost int) *Passwords {
	turns := int64(max(1, runtime.GOMAXPROCS(0)/2))
	return &Passwords{cost: cost, turns: semaphore.NewWeighted(turns), compare: bcrypt.CompareHashAndPassword, nobody: sync.OnceValues(func() ([]byte, error) {
		return bcrypt.GenerateFromPassword([]byte("nobody"), cost)
	})}
}

// turn waits until the caller may compute, and returns how to end that.
func (p *Passwords) turn(ctx context.Context) (end func(), err error) {
	if p.waiting.Add(1) > maxWaiting {
		p.waiting.Add(-1)
		return nil, rpctypes.ErrGRPCRequestTooManyRequests
	}
	defer p.waiting.Add(-1)
	if err := p.turns.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { p.turns.Release(1) }, nil
}

// Hash returns the hash of a password, which has 72 bytes at most.
func (p *Passwords) Hash(ctx context.Context, password string) ([]byte, error) {
	end, err := p.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return bcrypt.GenerateFromPassword([]byte(password), p.cost)
}

// check compares a password with a hash, nil for that of nobody. It takes as long for nobody as
// for a user. The error is ErrFailed, or that of ctx.
func (p *Passwords) check(ctx context.Context, hash []byte, password string) error {
	end, err := p.turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	nobody, err := p.nobody()
	if err != nil {
		return err
	}
	known := len(hash) > 0
	if !known {
		hash = nobody
	}
	if p.compare(hash, []byte(password)) != nil || !known {
		return auth.ErrFailed
	}
	return nil
}
