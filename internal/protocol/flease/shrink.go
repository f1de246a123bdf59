package flease

// minTable is up to how many entries a table is left as large as it was.
const minTable = 4096

// shrink gives back the memory of tables that were for many more than there are. Places are
// numbers, so the remaining entries move to new ones. It costs a look at each place; three
// quarters of them have been given up since the last time.
func (p *Peer) shrink() {
	if n := len(p.cells); n > minTable && len(p.names) < n/4 {
		p.moveCells()
	}
	if n := len(p.claims); n > minTable && len(p.byID) < n/4 {
		p.moveClaims()
	}
	if len(p.turns) == 0 && cap(p.turns) > minTable {
		p.turns, p.turn = nil, 0
	}
	// Memory in use comes back soon enough; unused memory was for busier times.
	if n := len(p.spare); len(p.names) == 0 {
		p.spare = nil
	} else if n > 0 {
		p.spare[n-1] = nil
		p.spare = p.spare[:n-1]
	}
}

func (p *Peer) moveCells() {
	moved := make([]int32, len(p.cells))
	cells := make([]cell, 0, len(p.names))
	names := make(map[string]int32, len(p.names))
	lines := make(map[int32][]waiter, len(p.lines))
	next := 0
	for i := range p.cells {
		c := &p.cells[i]
		if i == p.sweepNext {
			next = len(cells)
		}
		if c.name == "" {
			continue
		}
		to := int32(len(cells))
		moved[i], names[c.name] = to, to
		cells = append(cells, *c)
		if c.lined {
			lines[to] = p.lines[int32(i)]
		}
	}
	for i := range p.claims {
		if c := &p.claims[i]; c.phase != free {
			c.cell = moved[c.cell]
		}
	}
	// The round under way ends when it would have: the remaining cells were not looked at.
	p.sweepLeast = max(p.sweepLeast, len(p.cells)/64+1)
	p.cells, p.names, p.lines, p.freeCells, p.sweepNext = cells, names, lines, nil, next
}

func (p *Peer) moveClaims() {
	moved := make([]int32, len(p.claims))
	claims := make([]claim, 0, len(p.byID))
	byID := make(map[uint64]int32, len(p.byID))
	alarms := wheel{cur: p.wheel.cur}
	for i := range p.claims {
		c := &p.claims[i]
		if c.phase == free {
			continue
		}
		to := int32(len(claims))
		moved[i], byID[c.id] = to, to
		claims = append(claims, *c)
		if l := p.wheel.link(int32(i)); l.level >= 0 {
			alarms.setTick(to, l.at)
		}
	}
	for i := range claims {
		if c := &claims[i]; c.next >= 0 {
			c.next = moved[c.next]
		}
	}
	for i := range p.cells {
		if c := &p.cells[i]; c.name != "" && c.claims >= 0 {
			c.claims = moved[c.claims]
		}
	}
	for i := range p.attempts {
		if a := &p.attempts[i]; a.stage != idle {
			a.claim = moved[a.claim]
		}
	}
	turns := p.turns[:0]
	for _, t := range p.turns[p.turn:] {
		if c := &p.claims[t.claim]; c.life == t.life && c.phase == queued {
			turns = append(turns, turn{moved[t.claim], t.life})
		}
	}
	p.claims, p.byID, p.freeClaims, p.wheel, p.turns, p.turn = claims, byID, nil, alarms, turns, 0
}
