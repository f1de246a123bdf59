package file

import (
	"context"
	"fmt"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register/file"
)

// Health is how a store does.
type Health struct {
	storage.Health
	Path       string
	SingleHost bool
	Handles    int      // in use, or left by processes that died
	Damage     []string // the parts of the store that cannot be read
}

// Health looks at a name in each of the stores, and counts the processes that have them open. It
// waits for the answers until ctx is done.
func (l *Leaser) Health(ctx context.Context, name string) ([]Health, error) {
	looks, err := l.Leaser.Health(ctx, name)
	if err != nil {
		return nil, err
	}
	all := make([]Health, len(looks))
	for i, h := range looks {
		all[i] = Health{Health: h, Path: l.places[i].Name}
		switch {
		case l.places[i].Err != nil:
			all[i].Err = l.places[i].Err
		case h.Err == nil:
			all[i].SingleHost = l.places[i].Store.SingleHost()
			all[i].inspect(ctx, l.places[i].Store)
		}
	}
	return all, nil
}

// inspect counts handles and damage. A store may begin to hang at any time.
func (h *Health) inspect(ctx context.Context, s *file.Store) {
	type found struct {
		handles int
		damage  []string
		err     error
	}
	done := make(chan found, 1)
	go func() {
		var f found
		for handle, err := range s.Dump() {
			if err != nil {
				f.err = err
				break
			}
			if !handle.Left {
				f.handles++
			}
			if handle.Damage != nil {
				f.damage = append(f.damage, fmt.Sprintf("handle %s: %v", handle.Place, handle.Damage))
			}
			for _, r := range handle.Records {
				if r.Damage != nil {
					f.damage = append(f.damage, fmt.Sprintf("handle %s, slot %d: %v", handle.Place, r.Slot, r.Damage))
				}
			}
		}
		done <- f
	}()
	select {
	case f := <-done:
		h.Handles, h.Damage, h.Err = f.handles, f.damage, f.err
	case <-ctx.Done():
		h.Err = errSilent
	}
}
