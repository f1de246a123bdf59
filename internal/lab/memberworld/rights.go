package memberworld

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A right is a user's to read and write a key. It is granted once and revoked once, so that a request of either
// kind that was lost on its way, and arrives late, changes nothing that is judged. Times are 0 until they come.
type right struct {
	user, key string
	asked     time.Duration // when the grant was first asked for
	granted   time.Duration // when that was acknowledged
	revoking  time.Duration // when the revocation was first asked for
	revoked   time.Duration // when that was acknowledged
	lost      int           // requests without a known outcome
	lostGrant bool          // one of them was a grant, which may come in force late
}

// A use is a call by a user that needs a right.
type use struct {
	of           *right
	kind         string
	began, ended time.Duration
	done, denied bool // neither: the outcome is not known
}

// rights are all those of a world.
type rights struct {
	mu   sync.Mutex
	all  []*right
	uses []use
}

func (rs *rights) add(g *right) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.all = append(rs.all, g)
}

// note changes a right.
func (rs *rights) note(change func()) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	change()
}

func (rs *rights) used(u use) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.uses = append(rs.uses, u)
}

// draw is a right of a user: the newest, or one so many before it.
func (rs *rights) draw(user string, before int) *right {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, g := range slices.Backward(rs.all) {
		if g.user != user {
			continue
		}
		if before == 0 {
			return g
		}
		before--
	}
	return nil
}

// judge finds calls that succeeded without a right, or were denied with one. It counts those that say something.
func (rs *rights) judge() (afterRevocation, withRight int, err error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, u := range rs.uses {
		g := u.of
		switch after := g.revoked > 0 && u.began > g.revoked && !g.lostGrant; {
		case u.done && u.ended < g.asked:
			return 0, 0, fmt.Errorf("the %s of %s by %s, until %v, succeeded, and the right was asked for at %v", u.kind, g.key, g.user, u.ended, g.asked)
		case after && u.done:
			return 0, 0, fmt.Errorf("the %s of %s by %s succeeded at %v to %v, and the right was revoked by %v", u.kind, g.key, g.user, u.began, u.ended, g.revoked)
		case after && u.denied:
			afterRevocation++
		case g.granted > 0 && u.began > g.granted && (g.revoking == 0 || u.ended < g.revoking):
			if u.denied {
				return 0, 0, fmt.Errorf("the %s of %s by %s was denied at %v to %v, and the right was granted by %v and not revoked before %v", u.kind, g.key, g.user, u.began, u.ended, g.granted, g.revoking)
			}
			if u.done {
				withRight++
			}
		}
	}
	return afterRevocation, withRight, nil
}

// judgeRights judges all calls of users, and that every right that was granted, and none that was revoked, is still there.
func (c *cluster) judgeRights(when string, of ...*host) {
	select {
	case <-c.inForce:
	default:
		return
	}
	after, with, err := c.rights.judge()
	if err != nil {
		c.w.Fail("%v", err)
		return
	}
	c.w.Count("calls after a revocation", after)
	c.w.Count("calls with a right", with)
	cl := c.client("judge of rights", of...)
	defer cl.Close()
	have := map[string]bool{}
	for _, user := range users {
		c.within(30*time.Second, func(ctx context.Context) error {
			role, err := cl.RoleGet(ctx, user)
			if err == nil {
				for _, p := range role.Perm {
					have[string(p.Key)] = true
				}
			}
			return err
		})
	}
	for _, g := range c.rights.all {
		switch {
		case g.granted > 0 && g.revoking == 0 && !have[g.key]:
			c.w.Fail("%s, the right to %s, which was granted at %v, is gone", when, g.key, g.granted)
		case g.revoked > 0 && !g.lostGrant && have[g.key]:
			c.w.Fail("%s, the right to %s, which was revoked at %v, is there again", when, g.key, g.revoked)
		default:
			c.w.Count("rights found as they were", 1)
		}
	}
}

// within tries again until a call succeeds, for so long.
func (c *cluster) within(limit time.Duration, call func(context.Context) error) {
	var err error
	for began := c.w.Elapsed(); c.w.Elapsed() < began+limit; c.pause(300 * time.Millisecond) {
		ctx, cancel := within(3 * time.Second)
		err = call(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	c.w.Fail("a call fails for %v: %v", limit, err)
}
