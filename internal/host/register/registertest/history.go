package registertest

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Operation is a read or a write in a history. One ended before another began if
// its End is less than the other's Begin.
type Operation struct {
	Client  int
	Write   bool
	Data    string          // that it wrote or read: different for each write, "" only initially
	Version machine.Version // that it wrote or read; zero if unknown
	Begin   int64
	End     int64 // Unended if it failed or never ended: then it may take effect at any time
}

// Unended is the End of an operation that did not.
const Unended = math.MaxInt64

func (o Operation) String() string {
	kind, end := "reads", fmt.Sprint(o.End)
	if o.Write {
		kind = "writes"
	}
	if o.End == Unended {
		end = "…"
	}
	return fmt.Sprintf("client %d %s %q (%d-%s)", o.Client, kind, o.Data, o.Begin, end)
}

// history gathers operations from any goroutine.
type history struct {
	mu    sync.Mutex
	clock int64
	ops   []Operation
}

// begin returns the time at which an operation begins.
func (h *history) begin() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	return h.clock
}

// End adds an operation that ends now, or, with failed, one that did not end.
func (h *history) End(o Operation, failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	o.End = h.clock
	if failed {
		o.End = Unended
	}
	h.ops = append(h.ops, o)
}

// operations returns the operations that were added.
func (h *history) operations() []Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ops)
}

// split returns the writes by their values, the initial one included, in the order of the history,
// and the reads that ended. It fails if a read returns a value that nobody had begun to write, or
// if two writes are alike.
func split(history []Operation) (writes []Operation, index map[string]int, reads []Operation, err error) {
	writes = []Operation{{Client: -1, Write: true, Begin: math.MinInt64, End: math.MinInt64}}
	index = map[string]int{"": 0}
	for _, o := range history {
		switch _, again := index[o.Data]; {
		case o.Write && again:
			return nil, nil, nil, fmt.Errorf("%v, which was written before: no history to check", o)
		case o.Write:
			index[o.Data] = len(writes)
			writes = append(writes, o)
		case o.End != Unended:
			reads = append(reads, o)
		}
	}
	for _, r := range reads {
		w, ok := index[r.Data]
		if !ok {
			return nil, nil, nil, fmt.Errorf("%v, which nobody wrote", r)
		}
		if writes[w].Begin > r.End {
			return nil, nil, nil, fmt.Errorf("%v, but %v only later", r, writes[w])
		}
	}
	return writes, index, reads, nil
}
