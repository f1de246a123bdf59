package registertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// model is a register, for porcupine. Its state is the data.
var model = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		o := input.(Operation)
		return o.Write || state == o.Data, o.Data
	},
	DescribeOperation: func(input, _ any) string { return input.(Operation).String() },
}

// patience is how long Atomic tries. A history of some hundred operations takes
// milliseconds.
const patience = time.Minute

var errUndecided = errors.New("porcupine could not decide in time whether the history is atomic; make it shorter")

// Atomic returns an error unless the history is linearizable. A write that failed and
// was never read is left out: it may as well take effect after everything.
func Atomic(history []Operation) error {
	writes, index, reads, err := split(history)
	if err != nil {
		return err
	}
	wasRead := make([]bool, len(writes))
	for _, r := range reads {
		wasRead[index[r.Data]] = true
	}
	ops := reads
	for i, w := range writes[1:] {
		if w.End != Unended || wasRead[i+1] {
			ops = append(ops, w)
		}
	}
	events := make([]porcupine.Operation, len(ops))
	for i, o := range ops {
		events[i] = porcupine.Operation{ClientId: max(o.Client, 0), Input: o, Call: o.Begin, Return: o.End}
	}
	switch porcupine.CheckOperationsTimeout(model, events, patience) {
	case porcupine.Illegal:
		return fmt.Errorf("not atomic: no order of these %d operations explains all reads: %w", len(ops), explain(writes, index, reads))
	case porcupine.Unknown:
		return errUndecided
	}
	return nil
}

// explain finds two reads in a row of which the second goes back, for a person to look at.
func explain(writes []Operation, index map[string]int, reads []Operation) error {
	for _, r := range reads {
		for _, later := range reads {
			if r.End < later.Begin && writes[index[later.Data]].End < writes[index[r.Data]].Begin {
				return fmt.Errorf("%v, then %v", r, later)
			}
		}
	}
	return fmt.Errorf("%v", append(writes[1:], reads...))
}
