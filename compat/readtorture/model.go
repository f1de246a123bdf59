package readtorture

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// object is what porcupine checks the history of an object against: the versions of its
// keys are one state.
var object = porcupine.Model{
	Init: func() any { return [together]int64{} },
	Step: func(state, input, _ any) (bool, any) {
		now, s := state.([together]int64), input.(step)
		for i := range together {
			if s.looks[i] != nothing && s.looks[i] != now[i] {
				return false, state
			}
			if s.makes[i] != nothing {
				now[i] = s.makes[i]
			}
		}
		return true, now
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", *input.(step).operation) },
}

// linearizable has porcupine judge the history of each object, for at most as long as
// given.
func linearizable(history []operation, v *versions, limit time.Duration) (faults []error) {
	parts := map[string][]porcupine.Operation{}
	var names []string
	for _, s := range steps(history, v) {
		if parts[s.Object] == nil {
			names = append(names, s.Object)
		}
		parts[s.Object] = append(parts[s.Object], porcupine.Operation{ClientId: s.Member, Input: s, Call: int64(s.start), Return: int64(s.end)})
	}
	for _, name := range names {
		switch porcupine.CheckOperationsTimeout(object, parts[name], limit) {
		case porcupine.Illegal:
			faults = append(faults, fmt.Errorf("the history of %s is not linearizable: %d operations", name, len(parts[name])))
		case porcupine.Unknown:
			faults = append(faults, fmt.Errorf("porcupine did not decide on the %d operations on %s within %v", len(parts[name]), name, limit))
		}
	}
	return faults
}
