package replicasim

import (
	"fmt"
	"strconv"

	"github.com/anishathalye/porcupine"
)

// registers is the model: each key a register with compare and swap.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		var keys []string
		for _, o := range history {
			key := o.Input.(op).key
			if byKey[key] == nil {
				keys = append(keys, key)
			}
			byKey[key] = append(byKey[key], o)
		}
		var parts [][]porcupine.Operation
		for _, key := range keys {
			parts = append(parts, byKey[key])
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		o, value := input.(op), state.(string)
		out := output.(outcome)
		switch o.kind {
		case 'r':
			return !out.known || out.value == value, value
		case 'w':
			return true, o.new
		}
		// A compare of a key that does not exist fails, whatever the value.
		swapped := value != "" && value == o.old
		if out.known && out.value != strconv.FormatBool(swapped) {
			return false, value
		}
		if swapped {
			return true, o.new
		}
		return true, value
	},
	DescribeOperation: func(input, output any) string {
		o := input.(op)
		return fmt.Sprintf("%c(%s %s>%s)=%v", o.kind, o.key, o.old, o.new, output.(outcome))
	},
}

type outcome struct {
	value string
	known bool
}
