package flease

// Event is a step of an operation on a register (section 3.2), for checkers and pictures.
type Event struct {
	Kind   EventKind
	Name   string
	Ballot Ballot
	// From is, of ReadCommit, the ballot of the WRITE that Value is from.
	From  Ballot
	Value Value // of WriteInvoke, WriteCommit, ReadCommit
}

// EventKind says what happened.
type EventKind uint8

const (
	ReadInvoke EventKind = iota
	ReadCommit
	ReadAbort // a majority became impossible because others' ballots were greater
	WriteInvoke
	WriteCommit
	WriteAbort
)

func (k EventKind) String() string {
	return [...]string{"read", "read commits", "read aborts", "write", "write commits", "write aborts"}[k]
}

func (p *Peer) trace(kind EventKind, a int32) {
	if p.cfg.Trace == nil {
		return
	}
	at := &p.attempts[a]
	e := Event{Kind: kind, Name: p.cells[p.claims[at.claim].cell].name, Ballot: at.k}
	switch kind {
	case ReadCommit:
		e.From, e.Value = at.best, at.value
	case WriteInvoke, WriteCommit:
		e.Value = at.wrote
	}
	p.cfg.Trace(e)
}
