package flease

// Stats is what a peer has in its tables.
type Stats struct {
	Cells    int // resources of which something is remembered
	Claims   int // claims and observations
	Held     int
	Attempts int // under way
	Queued   int // that wait for their turn
}

// Stats counts. It takes a while if there are many claims.
func (p *Peer) Stats() Stats {
	s := Stats{Cells: len(p.names), Claims: len(p.byID), Attempts: len(p.attempts) - len(p.freeAttempts), Queued: len(p.turns) - p.turn}
	for i := range p.claims {
		if p.claims[i].phase == held {
			s.Held++
		}
	}
	return s
}
