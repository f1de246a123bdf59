package registertest

import (
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Versions returns an error unless versions are fencing tokens: each write has its own, and
// every reader is told the same. A write that begins after another ended has a greater one,
// and a read has an equal or greater one. Unknown versions may be any.
func Versions(history []Operation) error {
	history = slices.DeleteFunc(slices.Clone(history), func(o Operation) bool { return !o.Write && o.End == Unended })
	of := map[string]machine.Version{"": {}}
	data := map[machine.Version]string{{}: ""}
	for _, o := range history {
		if o.Version == (machine.Version{}) && (o.Write || o.Data != "") {
			continue
		}
		if v, ok := of[o.Data]; ok && v != o.Version {
			return fmt.Errorf("%v under version %v, and another under %v", o, o.Version, v)
		}
		if d, ok := data[o.Version]; ok && d != o.Data {
			return fmt.Errorf("%v under version %v, which is also that of %q", o, o.Version, d)
		}
		of[o.Data], data[o.Version] = o.Version, o.Data
	}
	for _, w := range history {
		if !w.Write || w.End == Unended {
			continue
		}
		for _, o := range history {
			if w.End >= o.Begin || o.Write && o.Version.Seq == 0 {
				continue
			}
			if c := w.Version.Compare(o.Version); c > 0 || c == 0 && o.Write {
				return fmt.Errorf("%v under version %v, after which %v under %v", w, w.Version, o, o.Version)
			}
		}
	}
	return nil
}
