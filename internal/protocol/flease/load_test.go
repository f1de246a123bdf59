package flease

import (
	"fmt"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestRenewalsTakeTurns: renewals that are due at one moment do not all set out at that
// moment, to arrive too late. All are renewed in the end.
func TestRenewalsTakeTurns(t *testing.T) {
	const leases, most = 200, 5
	c := newCluster(t, 3, func(cfg *Config) { cfg.MaxAttempts = most })
	for i := range leases {
		c.do(1, Acquire{ID: uint64(i), Name: fmt.Sprint(i)})
		if !has[Acquired](c, 1) {
			t.Fatal("a lease is not granted")
		}
	}
	reads, under := map[Ballot]bool{}, 0
	c.cut = func(env machine.Envelope) bool {
		under = max(under, c.peers[1].renewals)
		for _, o := range env.Body.(*Batch).Ops {
			if o.Kind == Read {
				reads[o.Ballot] = true
			}
		}
		return false
	}
	c.out = map[machine.NodeID][]Report{}
	c.pass(9 * time.Second)
	if has[Lost](c, 1) {
		t.Errorf("lost: %+v", last[Lost](c, 1))
	}
	if len(reads) < leases || under > most {
		t.Errorf("%d renewals of %d leases, %d at once, want no more than %d", len(reads), leases, under, most)
	}
}

// TestNothingNewWhileRenewalsFail: a peer whose renewals come to nothing takes no claims.
func TestNothingNewWhileRenewalsFail(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.do(1, Acquire{ID: 1, Name: "held"})
	c.cut = func(machine.Envelope) bool { return true }
	for !c.peers[1].late() {
		if c.pass(10 * time.Millisecond); has[Lost](c, 1) {
			t.Fatal("the lease was lost before anything was made of it")
		}
	}
	c.do(1, Acquire{ID: 2, Name: "new", Try: true})
	if r := last[Refused](c, 1); r.ID != 2 || r.Err != ErrBusy {
		t.Errorf("got %+v, want ErrBusy", r)
	}
}

// TestReleasesDuringRenewalsAreCounted: a renewal that ends as a release (F-4) gives its turn
// back, else a peer that releases often would come to renew nothing any more.
func TestReleasesDuringRenewalsAreCounted(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.MaxAttempts = 1 })
	c.do(1, Acquire{ID: 1, Name: "kept"})
	c.do(1, Acquire{ID: 2, Name: "given back"})
	p := c.peers[1]
	for given := &p.claims[p.byID[2]]; given.att < 0; {
		c.now.Mono, c.now.Wall = c.now.Mono.Add(time.Millisecond), c.now.Wall+machine.Wall(time.Millisecond)
		c.step(1, labstage.Wake{})
		if given.att < 0 {
			c.settle()
		}
	}
	c.step(1, Release{ID: 2}) // its READ is on its way
	c.settle()
	if !last[Released](c, 1).Confirmed {
		t.Fatal("the release is not confirmed")
	}
	c.pass(20 * time.Second)
	if has[Lost](c, 1) || p.renewals != 0 {
		t.Errorf("%d renewals under way, lost: %v", p.renewals, has[Lost](c, 1))
	}
}

// TestTurnsWaitWhileRenewalsAreLate: nor do claims have their turn that were taken before, until
// renewals are late no more.
func TestTurnsWaitWhileRenewalsAreLate(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.MaxAttempts = 1 })
	p := c.peers[1]
	c.step(1, Acquire{ID: 1, Name: "first"})
	c.step(1, Acquire{ID: 2, Name: "second"})
	p.lateUntil = p.now.Mono.Add(p.cfg.RoundTimeout)
	c.settle()
	c.pass(p.cfg.RoundTimeout - time.Millisecond)
	if got := last[Acquired](c, 1); got.ID != 1 || p.Stats().Queued != 1 {
		t.Errorf("renewals are late, and claim %d has had its turn; %d wait", got.ID, p.Stats().Queued)
	}
	c.pass(2 * time.Millisecond)
	if got := last[Acquired](c, 1); got.ID != 2 {
		t.Error("renewals are late no more, and the claim that waits has no turn")
	}
}
