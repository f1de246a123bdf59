package widearea

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/pushlease"
)

// control is a set of the paper's own ways, in place of the product's.
type control struct {
	Name string // empty: none
	Ways *pushlease.Ways
	Plan time.Duration // how often the holders are planned; 0: as the product has it
}

// pushed is the paper's protocol and nothing else of the paper's; the product's leases
// with other messages (section 3.5, Figure 5).
func pushed(l pushlease.Lengths) control {
	return control{Name: "pushed", Ways: &pushlease.Ways{Push: l}}
}

// asInThePaper is all that the paper does (sections 3.5 and 3.7).
func asInThePaper(l pushlease.Lengths) control {
	return control{
		Name: "the paper's",
		Ways: &pushlease.Ways{Push: l, Lapse: true, ExcludeSuspect: true, WaitToRejoin: true},
	}
}

// aPlan is how often the paper has another configuration (section 5.2).
const aPlan = 10 * time.Second

// controlPlan selects the paper's own ways that are measured beside the product's: deaths, as
// in Figure 7, and a sweep of their cost (section 3.8).
type controlPlan struct {
	Lengths pushlease.Lengths // the paper's
	Ours    []time.Duration   // lengths of the product's leases, to compare with
	Deaths  int               // of each kind, and changes of holders; 0: no controls at all
	// Sweep are other lengths, each played Sweeps times with each of Ours beside.
	Sweep  []pushlease.Lengths
	Sweeps int
}

// sweepLengths varies each of the paper's lengths by itself, and then all of them.
func sweepLengths(by ...float64) (list []pushlease.Lengths) {
	times := func(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }
	for _, which := range []string{"lease", "guard", "grace", "all"} {
		for _, f := range by {
			l := pushlease.PaperLengths
			if f == 1 && which != "lease" {
				continue // once will do
			}
			if which == "lease" || which == "all" {
				l.Lease, l.Renew = times(l.Lease, f), times(l.Renew, f)
			}
			if which == "guard" || which == "all" {
				l.Guard = times(l.Guard, f)
			}
			if which == "grace" || which == "all" {
				l.Grace = times(l.Grace, f)
			}
			list = append(list, l)
		}
	}
	return list
}

// Policies under which controls are measured: the paper's leases; and for the sweep one
// under which the replica that dies is sure to hold the keys.
const (
	controlPolicy = "quorum/key"
	sweepPolicy   = "all/key"
)

// ControlReport has the measurements of the paper's own ways.
type ControlReport struct {
	Deaths []Toll `json:"deaths"`
	Sweep  []Toll `json:"sweep"`
	// Changes are of the holders, our way and the paper's two.
	Changes []Shift `json:"changes"`
}

// units is how many deaths the plan has.
func (p *controlPlan) units() int {
	if p.Deaths == 0 {
		return 0
	}
	return (2*len(p.Ours)+3)*p.Deaths + (len(p.Ours)+2)*p.Deaths + (len(p.Ours)+len(p.Sweep))*p.Sweeps
}

// measure plays the plan.
func (p *controlPlan) measure(seed uint64, progress func(what string, deaths int)) (r ControlReport, err error) {
	if p.Deaths == 0 {
		return r, nil
	}
	done := 0
	play := func(to *[]Toll, policy string, c control, length time.Duration, site, times int) {
		if err != nil {
			return
		}
		d := deaths{Seed: seed, Policy: policy, Length: length, Control: c, Site: site, Times: times}
		d.Progress = func(n int) { progress(fmt.Sprintf("%s, %s, deaths at %s", policy, c.Name, Sites[site]), done+n) }
		var t Toll
		if t, err = d.play(); err == nil {
			*to = append(*to, t)
		}
		done += times
	}
	deaths := func(c control, length time.Duration, site int) {
		c.Plan = aPlan
		play(&r.Deaths, controlPolicy, c, length, site, p.Deaths)
	}
	for _, site := range []int{holderThatDies, Leader} {
		for _, length := range p.Ours {
			deaths(control{}, length, site)
		}
		deaths(pushed(p.Lengths), 0, site)
		if site != Leader { // there it is elections that count
			deaths(asInThePaper(p.Lengths), 0, site)
		}
	}
	for _, length := range p.Ours {
		play(&r.Sweep, sweepPolicy, control{}, length, holderThatDies, p.Sweeps)
	}
	for _, l := range p.Sweep {
		play(&r.Sweep, sweepPolicy, pushed(l), 0, holderThatDies, p.Sweeps)
	}
	shift := func(c control, length time.Duration) {
		if err != nil {
			return
		}
		d := changes{Seed: seed, Length: length, Control: c, Times: p.Deaths}
		d.Progress = func(n int) { progress(fmt.Sprintf("%s, changes of holders", c.Name), done+n) }
		var s Shift
		if s, err = d.play(); err == nil {
			r.Changes = append(r.Changes, s)
		}
		done += p.Deaths
	}
	for _, length := range p.Ours {
		shift(control{}, length)
	}
	shift(lapsing(p.Lengths), 0)
	shift(abiding(p.Lengths), 0)
	for i := range r.Sweep {
		r.Sweep[i].Held.Series, r.Sweep[i].Other.Series = nil, nil
	}
	return r, err
}
