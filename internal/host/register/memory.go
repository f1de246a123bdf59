package register

import (
	"maps"
	"slices"
	"sync"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Memory keeps registers for as long as the process lives, and forgets none. It
// never fails and never hangs: use Faults for that.
type Memory struct {
	header Header

	mu        sync.Mutex
	registers map[string]*cell
	floor     uint64
}

// cell is a register: its data and everybody's notes.
type cell struct {
	version machine.Version
	data    []byte
	notes   map[machine.ID]quorumregister.Note
}

// NewMemory returns an empty store.
func NewMemory(h Header) *Memory {
	return &Memory{header: h, registers: map[string]*cell{}}
}

// Open returns a store that shows this memory, as another process would see it. Any
// number may be open.
func (m *Memory) Open() Store { return memoryHandle{m} }

// Backup returns a function that restores the present state later, like an operator who restores a
// disk from an old copy.
func (m *Memory) Backup() (restore func()) {
	copied := func() map[string]*cell {
		c := maps.Clone(m.registers)
		for name, r := range c {
			c[name] = &cell{r.version, r.data, maps.Clone(r.notes)}
		}
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	registers, floor := copied(), m.floor
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.registers, m.floor = registers, floor
		registers = copied() // for the next time
	}
}

func (m *Memory) do(op Op) Reply {
	c := m.registers[op.Name]
	if c == nil {
		c = &cell{notes: map[machine.ID]quorumregister.Note{}}
	}
	switch o := op.Op.(type) {
	case quorumregister.Query:
		s := quorumregister.State{Version: c.version, Data: c.data, Floor: m.floor}
		for _, n := range c.notes {
			s.Notes = append(s.Notes, n)
		}
		return Reply{Value: s}
	case quorumregister.Put:
		if c.version.Compare(o.Version) < 0 {
			c.version, c.data = o.Version, slices.Clone(o.Data)
			m.floor = max(m.floor, o.Version.Seq)
		}
	case quorumregister.PutNote:
		if c.notes[o.Writer].Seq < o.Seq {
			c.notes[o.Writer] = quorumregister.Note{Writer: o.Writer, Seq: o.Seq, Data: slices.Clone(o.Data)}
		}
	default: // Enter and Leave: there is room
		return Reply{}
	}
	m.registers[op.Name] = c
	return Reply{}
}

type memoryHandle struct{ m *Memory }

func (h memoryHandle) Header() Header { return h.m.header }

func (h memoryHandle) Do(ops []Op) []Reply {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	replies := make([]Reply, len(ops))
	for i, op := range ops {
		replies[i] = h.m.do(op)
	}
	return replies
}

func (h memoryHandle) Names() ([]string, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	var names []string
	for name, c := range h.m.registers {
		if c.version.Seq > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (h memoryHandle) Close() error { return nil }
