package replica

// Input is what the owner of a Replica steps into it: one of the inputs of message.go, or
// Planned.
type Input interface{ input() }

func (Propose) input()      {}
func (Read) input()         {}
func (ReadKeys) input()     {}
func (Planned) input()      {}
func (Served) input()       {}
func (Doubted) input()      {}
func (AskLease) input()     {}
func (Applied) input()      {}
func (Restored) input()     {}
func (Snapshotted) input()  {}
func (SnapshotSent) input() {}
func (Down) input()         {}
func (Unreachable) input()  {}
func (HandOver) input()     {}

// Outcome is what a Replica reports to its owner: one of the outcomes of message.go, a *Plan
// or a *KeyLease.
type Outcome interface{ outcome() }

func (Committed) outcome()     {}
func (Released) outcome()      {}
func (KeysReady) outcome()     {}
func (Restore) outcome()       {}
func (ReadReady) outcome()     {}
func (ReadLease) outcome()     {}
func (*KeyLease) outcome()     {}
func (*Plan) outcome()         {}
func (AnswerLease) outcome()   {}
func (Dropped) outcome()       {}
func (Rejected) outcome()      {}
func (Removed) outcome()       {}
func (LeaderChanged) outcome() {}
func (SendSnapshot) outcome()  {}
func (WantSnapshot) outcome()  {}
