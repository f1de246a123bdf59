package holder

import (
	"context"
	"slices"

	"github.com/tenure-lease/tenure"
)

// Breaker is an engine that can end tenures of others by force.
type Breaker interface {
	// Break ends those tenures of the name, and no newer one. A tenure that has ended meanwhile is no
	// error. The holders learn of it with their next renewal, or at their deadlines; until then they
	// may act beside the next holder, and only tokens keep the two apart. A lock delay is cut short.
	Break(ctx context.Context, name string, tenures []tenure.Holding) error
}

// Tokens are those of tenures.
func Tokens(tenures []tenure.Holding) []uint64 {
	var tokens []uint64
	for _, h := range tenures {
		tokens = append(tokens, h.Token)
	}
	return tokens
}

// AnyOf reports whether one of the tokens is that of a holder.
func AnyOf(tokens []uint64, s tenure.State) bool {
	return slices.ContainsFunc(s.Holders, func(h tenure.Holding) bool { return slices.Contains(tokens, h.Token) })
}
