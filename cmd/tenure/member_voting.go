package main

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// voting says how many members vote, and how many of these answer.
type voting struct{ voters, up int }

func (c cluster) voting() (v voting) {
	for _, m := range c.Members {
		if !m.Learner {
			v = v.with(m)
		}
	}
	return v
}

// with is with one more voter.
func (v voting) with(m listedMember) voting {
	v.voters++
	if m.Reachable {
		v.up++
	}
	return v
}

// without is without one of the voters.
func (v voting) without(m listedMember) voting {
	v.voters--
	if m.Reachable {
		v.up--
	}
	return v
}

func (v voting) majority() int { return quorumlease.Majority(v.voters) }

// lost reports whether those that answer are too few to serve.
func (v voting) lost() bool { return v.up < v.majority() }

// allow checks the voters that a change would leave. It refuses a change that would leave too few, unless
// --yes is given. The remark is for the user once the change is done. The server checks for itself.
func (v voting) allow(change string, yes bool, instead string) (remark string, err error) {
	switch {
	case v.lost() && !yes:
		return "", fmt.Errorf("after %s only %d of %d voters would answer, and %d are needed: the cluster would serve nothing until more are up; %s, or repeat it with --yes", change, v.up, v.voters, v.majority(), instead)
	case v.lost():
		return fmt.Sprintf("%d of %d voters answer, and %d are needed: the cluster serves nothing until more are up", v.up, v.voters, v.majority()), nil
	case v.voters > 1 && v.up == v.majority():
		return fmt.Sprintf("%d of %d voters answer, and all of these are needed: the next that fails stops the cluster", v.up, v.voters), nil
	}
	return "", nil
}
