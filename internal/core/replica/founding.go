package replica

import (
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// FoundingSnapshot is the snapshot that all members of a cluster begin with if it begins with a state, such as
// that of a backup. All members must have the same. It is behind that of [Genesis].
func FoundingSnapshot(by Roster, state *kv.Store, users *auth.State) Snapshot {
	return Snapshot{Index: 2, Term: 1, roster: by, released: 2, users: users, view: state.View(), release: func() {}}
}

// Anew is the snapshot by which founders go on by themselves from what an Applier has, as another cluster:
// with its users and its policy of read leases, and a state made of its own. Its index and term are greater
// than any that the Applier knows.
func (a *Applier) Anew(by Roster, state *kv.Store) Snapshot {
	s := FoundingSnapshot(by, state, a.users)
	s.Index, s.Term, s.released = a.index+1, a.term+1, a.index+1
	s.setting.policy = a.setting.policy
	return s
}
