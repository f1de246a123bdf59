package node

import (
	"context"

	"github.com/tenure-lease/tenure/internal/member/backup"
)

// holding asks the applier to hold the published state.
type holding struct{ answer chan<- heldState }

type heldState struct {
	state   backup.State
	release func()
}

// Hold returns the published state, whose history stays until release is called, once. It asks no other
// member, so that it works without a majority, and waits until there is a state that may be seen. The
// history of what is held takes memory.
func (n *Node) Hold(ctx context.Context) (s backup.State, release func(), err error) {
	answer := make(chan heldState, 1)
	select {
	case <-n.shown:
		n.applier.put(holding{answer})
	case <-ctx.Done():
		return s, nil, ctx.Err()
	case <-n.stop:
		return s, nil, errStopped
	}
	select { // the applier is never long about it
	case h := <-answer:
		return h.state, h.release, nil
	case <-n.stop:
		return s, nil, errStopped
	}
}

// hold answers a Hold. The published state is never older than what was reclaimed: while another one is ahead
// of it, nothing is.
func (a *applier) hold(h holding) {
	st := a.n.State()
	release, _ := a.state.Store().Hold(st.view)
	h.answer <- heldState{
		backup.State{View: st.view, Index: st.index, Term: st.term, Members: st.roster.Members, Removed: st.roster.Removed, Users: st.users},
		release,
	}
}
