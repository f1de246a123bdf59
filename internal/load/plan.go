package load

import (
	"context"
	"fmt"
	"time"
)

// NamedTarget is a target under the name that results have.
type NamedTarget struct {
	Name   string
	Target Target
}

// Plan measures some cases on some targets.
type Plan struct {
	Targets []NamedTarget
	Cases   []Case
	Runs    int
	Clients int
	Time    time.Duration
	Prefix  string
}

// Steps is the number of measurements.
func (p Plan) Steps() int { return p.Runs * len(p.Cases) * len(p.Targets) }

// Run measures, and tells each result as it comes. One target follows the other within a case, and the
// order turns from run to run. It returns what it has if one fails or the context ends. The keys are
// deleted in any case, so they want a prefix.
func (p Plan) Run(ctx context.Context, tell func(Result)) (results []Result, err error) {
	if p.Prefix == "" {
		return nil, errNoPrefix
	}
	for _, t := range p.Targets {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*DialTimeout)
			defer cancel()
			if failed := p.load(t).Clean(ctx); failed != nil && err == nil {
				err = fmt.Errorf("keys below %s are left at %s: delete them: %w", p.Prefix, t.Name, failed)
			}
		}()
	}
	for run := range p.Runs {
		for _, c := range p.Cases {
			for i := range p.Targets {
				t := p.Targets[(i+run)%len(p.Targets)]
				r, err := c.Run(ctx, p.load(t))
				if err != nil {
					return results, fmt.Errorf("%s at %s: %w", c.Name, t.Name, err)
				}
				r.Case, r.Target, r.Run = c.Name, t.Name, run
				results = append(results, r)
				tell(r)
			}
		}
	}
	return results, nil
}

func (p Plan) load(t NamedTarget) *Load {
	return &Load{Target: t.Target, Clients: p.Clients, Time: p.Time, Prefix: p.Prefix}
}
