package storage

import (
	"context"
	"time"

	"github.com/tenure-lease/tenure"
)

// lease is a claim that is held, as its holder sees it.
type lease struct{ x *claim }

var _ tenure.Lease = lease{}

func (l lease) Name() string                      { return l.x.Name }
func (l lease) Holder() string                    { return l.x.Holder }
func (l lease) Token() uint64                     { return l.x.token }
func (l lease) Done() <-chan struct{}             { return l.x.stint.Done() }
func (l lease) Err() error                        { return l.x.stint.Err() }
func (l lease) Check() error                      { return l.x.stint.Check() }
func (l lease) Deadline() time.Time               { return time.Now().Add(l.x.stint.Left()) }
func (l lease) Release(ctx context.Context) error { return l.x.release(ctx) }
