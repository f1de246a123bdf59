package abcastsim

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/fastctsim"
	"github.com/tenure-lease/tenure/internal/machine"
)

// epochs knows the members of each epoch, and has a judge of its consensus.
type epochs struct {
	groups map[uint64]abcast.Group // by First
	judges map[uint64]*fastctsim.Judge
	last   abcast.Group
	errs   []error
}

func newEpochs(founders []machine.NodeID) *epochs {
	g := abcast.Group{First: 1}
	for _, id := range founders {
		g.Members = append(g.Members, abcast.Member{ID: id})
	}
	g.Configured = founders
	return &epochs{groups: map[uint64]abcast.Group{1: g}, judges: map[uint64]*fastctsim.Judge{}, last: g}
}

// onEpoch is called when a member goes over to an epoch. All have the same members in it, at
// the same addresses but for those that each has from its own configuration.
func (s *epochs) onEpoch(by string, g abcast.Group) {
	if o, known := s.groups[g.First]; known && !slices.Equal(agreed(o), agreed(g)) {
		s.errs = append(s.errs, fmt.Errorf("members: the epoch from instance %d on has %v, says %s, and another member says %v", g.First, agreed(g), by, agreed(o)))
	}
	s.groups[g.First] = g
	if g.First > s.last.First {
		s.last = g
	}
}

func agreed(g abcast.Group) []abcast.Member {
	list := slices.Clone(g.Members)
	for i, m := range list {
		if slices.Contains(g.Configured, m.ID) {
			list[i].Address = "configured"
		}
	}
	return list
}

// showJudge shows an outgoing message to the checker of its epoch.
func (s *epochs) showJudge(e machine.Envelope) {
	first := uint64(1)
	if in, ok := e.Body.(abcast.In); ok {
		first, e.Body = in.Epoch, in.Body
	}
	if s.judges[first] == nil {
		s.judges[first] = fastctsim.NewJudge(len(s.groups[first].Members))
	}
	s.judges[first].Sends(e)
}

func (s *epochs) Err() error {
	errs := slices.Clone(s.errs)
	for _, first := range slices.Sorted(maps.Keys(s.judges)) {
		errs = append(errs, s.judges[first].Err())
	}
	return errors.Join(errs...)
}
