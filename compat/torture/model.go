package torture

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is what porcupine checks a history of one key against.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[string]int{}
		for _, o := range history {
			key := o.Input.(operation).key
			i, ok := byKey[key]
			if !ok {
				i = len(parts)
				byKey[key] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], o)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		value, o := state.(string), input.(operation)
		switch o.kind {
		case kindPut:
			return true, o.value
		case kindGet:
			return value == o.got, value
		case kindDelete:
			return !o.known || o.deleted == (value != ""), ""
		default:
			swaps := value == o.old
			switch {
			case o.known && o.swapped != swaps, o.known && !swaps && value != o.got:
				return false, value
			case swaps:
				return true, o.value
			}
			return true, value
		}
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
}

// linearizable has porcupine judge the history within the time given. An
// operation without an answer may happen at any time after its start.
func linearizable(history []operation, limit time.Duration) error {
	var all []porcupine.Operation
	for _, o := range history {
		if !o.known && o.kind == kindGet {
			continue // changes nothing, told nothing
		}
		end := int64(o.end)
		if !o.known {
			end = math.MaxInt64
		}
		all = append(all, porcupine.Operation{ClientId: o.worker, Input: o, Call: int64(o.start), Return: end})
	}
	switch porcupine.CheckOperationsTimeout(register, all, limit) {
	case porcupine.Illegal:
		return fmt.Errorf("the history of %d operations is not linearizable", len(all))
	case porcupine.Unknown:
		return fmt.Errorf("porcupine did not decide on %d operations within %v", len(all), limit)
	}
	return nil
}
