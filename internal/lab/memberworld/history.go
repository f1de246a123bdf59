package memberworld

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// op is a request of a client, and its answer.
type op struct {
	client   int
	kind     string // put, get, delete, swap
	key      string
	old, new string // of a swap; new of a put
	began    time.Duration
	ended    time.Duration
	known    bool   // it was answered
	got      string // the value read
	done     bool   // swapped, or deleted
	rev      int64  // that it made
	gotRev   int64  // of the value read
}

func (o op) String() string {
	s := fmt.Sprintf("client %d: %s %s", o.client, o.kind, o.key)
	if o.kind == "swap" {
		s += fmt.Sprintf(" %q for", o.old)
	}
	if o.new != "" {
		s += fmt.Sprintf(" %q", o.new)
	}
	if !o.known {
		return s + fmt.Sprintf(" from %v, never answered", o.began)
	}
	return s + fmt.Sprintf(" from %v to %v: read %q of revision %d, done %v at revision %d", o.began, o.ended, o.got, o.gotRev, o.done, o.rev)
}

type history struct {
	mu  sync.Mutex
	ops []op
}

func (h *history) add(o op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// register is a key of a store, by its value. Values are written once.
var register = porcupine.Model{
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[string]int{}
		for _, o := range all {
			key := o.Input.(op).key
			i, ok := at[key]
			if !ok {
				i = len(parts)
				at[key], parts = i, append(parts, nil)
			}
			parts[i] = append(parts[i], o)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		value, o := state.(string), input.(op)
		switch o.kind {
		case "put":
			return true, o.new
		case "get":
			return value == o.got, value
		case "delete":
			return !o.known || o.done == (value != ""), ""
		}
		switch swaps := value == o.old; {
		case o.known && (o.done != swaps || !swaps && value != o.got):
			return false, value
		case swaps:
			return true, o.new
		}
		return true, value
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
}

// linearizable reports whether one order of all requests explains what clients were told.
// Written notes the values in the log: a request that was never answered, and whose value is
// not there, did nothing. A history that is not decided in time is an error.
func (h *history) linearizable(written map[string]bool, limit time.Duration) error {
	var all []porcupine.Operation
	for _, o := range h.ops {
		end := int64(o.ended)
		if !o.known {
			if o.kind == "get" || o.new != "" && !written[o.new] {
				continue
			}
			end = math.MaxInt64
		}
		all = append(all, porcupine.Operation{ClientId: o.client, Input: o, Call: int64(o.began), Return: end})
	}
	result := porcupine.CheckOperationsTimeout(register, all, limit)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("whether the history of %d requests is linearizable was not decided in %v", len(all), limit)
	}
	for _, part := range register.Partition(all) {
		if porcupine.CheckOperationsTimeout(register, part, limit) == porcupine.Illegal {
			return fmt.Errorf("the history is not linearizable: key %s, %d requests, the shortest prefix that is not ends with %v",
				part[0].Input.(op).key, len(part), shortest(part, limit))
		}
	}
	return nil
}

// shortest is the request whose answer first contradicts those before.
func shortest(part []porcupine.Operation, limit time.Duration) op {
	// By the time of the answer: a request that was not answered by then is open.
	for _, last := range part {
		var prefix []porcupine.Operation
		for _, o := range part {
			if o.Call > last.Return {
				continue
			}
			if o.Return > last.Return {
				in := o.Input.(op)
				if in.kind == "get" {
					continue
				}
				in.known = false
				o.Input, o.Return = in, math.MaxInt64
			}
			prefix = append(prefix, o)
		}
		if porcupine.CheckOperationsTimeout(register, prefix, limit) == porcupine.Illegal {
			return last.Input.(op)
		}
	}
	return op{}
}
