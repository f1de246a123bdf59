package node

import (
	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/core/visibility"
	"github.com/tenure-lease/tenure/internal/state/auth"
)

// visible are the states that were applied, of which it publishes what anybody may see.
// The applier's goroutine owns it.
type visible struct {
	n *Node
	visibility.States[*state]
}

// begin starts from the state that a snapshot holds, as far as it may be seen. If none of it
// may be seen, only the list of members is shown.
func (v *visible) begin(now *state, released uint64) {
	v.Begin(&state{roster: now.roster}, now, released)
	v.show()
}

// show publishes the newest state that may be seen, and those ahead of it.
func (v *visible) show() {
	v.Reveal()
	ahead, now := v.Ahead(), v.Shown()
	v.n.ahead.Store(&ahead)
	if before := v.n.state.Swap(now); before != now && v.n.hub != nil {
		v.n.hub.Publish(now.view)
		if changed(before.users, now.users) {
			v.n.hub.Rejudge()
		}
	}
	if now.view.Revision() > 0 {
		v.n.showing.Do(func() { close(v.n.shown) })
	}
}

// changed reports whether callers may have other rights than before. The revision stays the same when users
// are put in force.
func changed(before, now *auth.State) bool {
	return before != now && now != nil && (before == nil || before.Enabled() != now.Enabled() || before.Revision() != now.Revision())
}

// answer gives results to the calls that wait for them, as far as they may be seen.
func (v *visible) answer(results []replica.Result) {
	v.Answer(results, func(r replica.Result, read *state) {
		v.n.results.answer(r.ID, result{r.Response, r.Err, read})
	})
}

// Index is that of the last entry applied.
func (st *state) Index() uint64 { return st.index }

// applied is the newest state: the member itself uses it, and shows it to nobody. A member
// has to know the members and their addresses before others can tell it what is released.
func (p *published) applied() *state {
	ahead := *p.ahead.Load()
	return ahead[len(ahead)-1]
}

func (p *published) appliedIndex() uint64 { return p.applied().index }
