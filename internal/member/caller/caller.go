// Package caller carries the origin of a request in its context, from where it was identified
// to where the request is proposed or read. A context without one is of nobody, who may do
// nothing while users are in force: what forgets to say who calls is refused.
//
//	ctx = caller.With(ctx, c)
//	…
//	c = caller.Of(ctx)
package caller

import (
	"context"

	"github.com/tenure-lease/tenure/internal/state/auth"
)

type key struct{}

// With returns a context of a caller.
func With(ctx context.Context, c auth.Caller) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// Member returns a context of what a member does by itself, which nobody judges.
func Member(ctx context.Context) context.Context { return With(ctx, auth.Caller{Member: true}) }

// Of returns the caller, the zero Caller if there is none.
func Of(ctx context.Context) auth.Caller {
	c, _ := ctx.Value(key{}).(auth.Caller)
	return c
}
