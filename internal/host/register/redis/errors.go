package redis

import (
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/tenure-lease/tenure/internal/host/register"
)

var (
	// ErrExists is an Init or a Restore where there is something else already.
	ErrExists = errors.New("the server holds something else under this prefix already: choose another prefix, or remove it")
	// ErrStale is a server that may have lost writes which it acknowledged, so that
	// nothing it says counts any more. It wraps register.ErrGone. Restore makes the
	// server useful again.
	ErrStale = fmt.Errorf("%w: the server may have lost writes; leave it out, and restore it from the others of its set (tenure lease restore)", register.ErrGone)
	// ErrReplica is a server that follows another. Its master may have gone on without
	// it, so it never counts.
	ErrReplica = errors.New("the server is a replica: connect to its master; a replica cannot stand in for it, for it may lack the last writes")
	// ErrEvicts is a server that throws away any key when its memory is full.
	ErrEvicts = errors.New("the server evicts keys when its memory is full (maxmemory-policy allkeys-…): set maxmemory-policy noeviction, or use a server of its own for leases")
	// errCluster is a node of a Redis Cluster that does not serve the keys of the store.
	errCluster = errors.New("the server is a node of a Redis Cluster and another one has the keys: a store is one plain server; several make a set")

	errRestoring = errors.New("another restore of this store has begun since: let it end first")
	// errGone is both: something else is there now, or nothing, and the former content is
	// lost.
	errGone = fmt.Errorf("%w, it has lost what was written to it: there is no store any more, or a newer store (%w)", register.ErrGone, register.ErrForeign)
)

// serverError says which server it is that an error is about.
type serverError struct {
	addr, prefix string
	err          error
}

func (e *serverError) Error() string {
	return fmt.Sprintf("redis %s, prefix %s: %v", e.addr, e.prefix, e.err)
}
func (e *serverError) Unwrap() error { return e.err }

// trouble adds the server to an error. An error from the network leaves open whether the operation
// was done, or will be.
func (o *Options) trouble(err error) error {
	var named *serverError
	if err == nil || errors.As(err, &named) {
		return err
	}
	return &serverError{o.Addr, o.prefix(), translate(err)}
}

// translate puts our words for the server's. It never returns an error reply of the
// server's to the client library, which takes those for the reply to a command.
func translate(err error) error {
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return err
	}
	text := err.Error()
	for _, known := range []struct {
		word string
		is   error
	}{
		{"GONE ", errGone}, {"EXISTS ", ErrExists}, {"RESTORING ", errRestoring},
		{"MOVED ", errCluster}, {"ASK ", errCluster}, {"CROSSSLOT ", errCluster},
	} {
		if strings.HasPrefix(text, known.word) {
			return known.is
		}
	}
	if why, ok := strings.CutPrefix(text, "STALE "); ok {
		return fmt.Errorf("%w: %s", ErrStale, why)
	}
	switch { // some versions put words of their own in front of a script's error
	case strings.Contains(text, "WRONGTYPE"):
		return register.ErrForeign
	case strings.Contains(text, "READONLY"):
		return ErrReplica
	}
	return errors.New(text)
}
