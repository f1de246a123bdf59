package redis

import (
	"context"

	"github.com/tenure-lease/tenure/internal/holder/storage"
)

// Health is how a store does.
type Health struct {
	storage.Health
	Addr    string
	Warning string // how the server can disappoint
}

// Health looks at a name on each of the servers. It waits for the answers until ctx is
// done.
func (l *Leaser) Health(ctx context.Context, name string) ([]Health, error) {
	looks, err := l.Leaser.Health(ctx, name)
	if err != nil {
		return nil, err
	}
	all := make([]Health, len(looks))
	for i, h := range looks {
		all[i] = Health{Health: h, Addr: l.places[i].Name}
		if l.places[i].Err != nil {
			all[i].Err = l.places[i].Err
		} else {
			all[i].Warning = l.places[i].Store.Warning()
		}
	}
	return all, nil
}
