package flease

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// judgeClock returns an error with advice if the clock may be too wrong.
func judgeClock(unsynchronized bool, wrong, limit time.Duration) error {
	switch {
	case unsynchronized:
		return fmt.Errorf("the kernel's clock is not synchronized, so clocks may differ by more than ε: start chronyd or another NTP client, and wait until it has set the clock")
	case wrong > limit:
		return fmt.Errorf("the kernel's clock may be wrong by %v, and ε/2 is %v: give all peers a greater ε, or a better source of time", wrong.Round(time.Microsecond), limit)
	}
	return nil
}

// watchClock asks the kernel again and again. While the kernel does not vouch for the clock, the
// peer is as silent as after a crash.
func (p *Peer) watchClock() {
	again := time.NewTicker(max(p.cfg.Epsilon, p.cfg.TMax/10))
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-p.ctx.Done():
			return
		}
		err := p.cfg.kernel(p.cfg.Epsilon / 2)
		p.mu.Lock()
		news := (err == nil) != (p.clock == nil)
		p.clock = err
		p.mu.Unlock()
		switch {
		case err != nil:
			// Every time, because each fault begins the silence anew.
			p.driver.Step(flease.ClockFault{Why: err.Error()})
			if news {
				p.cfg.Logger.Error("flease: the peer falls silent", "error", err)
			}
		case news:
			p.cfg.Logger.Info("flease: the kernel vouches for its clock again")
		}
	}
}

// wakeEvery is how often a peer looks at its clocks though it has nothing to do.
const wakeEvery = time.Second

// keepAwake has an idle machine compare its clocks.
func (p *Peer) keepAwake() {
	again := time.NewTicker(wakeEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			p.driver.Wake()
		case <-p.ctx.Done():
			return
		}
	}
}
