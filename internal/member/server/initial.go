package server

import (
	"cmp"
	"context"
	"time"
)

// initialPatience is how long a member waits for the others at its start, to compare its data with theirs.
const initialPatience = 7 * time.Second

// A checked member compares its data with those of the others.
type checked interface {
	CheckAgainstOthers(ctx context.Context) error
}

// compareAtStart compares a member's data with those of the others, if that is asked for.
func (cfg Config) compareAtStart(n checked) error {
	if !cfg.InitialCheck {
		return nil
	}
	ctx, cancel := cfg.Node.Starting(cmp.Or(cfg.Node.RequestTimeout, initialPatience))
	defer cancel()
	return n.CheckAgainstOthers(ctx)
}
