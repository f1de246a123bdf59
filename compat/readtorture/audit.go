package readtorture

import "fmt"

// audit holds the answers against the watched history, and returns every fault.
func audit(history []operation, v *versions) (faults []error) {
	for _, e := range v.twice {
		faults = append(faults, fmt.Errorf("%q was written at revision %d, and again at %d", e.Value, v.values[e.Value].Revision, e.Revision))
	}
	for i := range history {
		o := &history[i]
		if !o.Known {
			continue
		}
		if o.changes() {
			faults = append(faults, o.written(v.at[o.Revision])...)
		}
		for i := range together {
			if before := v.of(key(o.Object, i), o.from()).Value; o.Kind == kindCAS && o.Swapped && o.Writes[i] && before != o.Old {
				faults = append(faults, fmt.Errorf("it swapped, but there was %q: %+v", before, *o))
			}
			if !o.told(i) {
				continue
			}
			if o.Kind == kindCAS && o.Saw[i] == o.Old {
				faults = append(faults, fmt.Errorf("it could have swapped: %+v", *o))
			}
			want := v.of(key(o.Object, i), o.from())
			mod := want.Revision
			if want.Value == "" {
				mod = 0
			}
			if o.Saw[i] != want.Value || o.Mods[i] != mod {
				faults = append(faults, fmt.Errorf("at revision %d %s was %q of revision %d: %+v", o.from(), key(o.Object, i), want.Value, mod, *o))
			}
		}
	}
	return faults
}

// written wants a change to be in the history, whole and with nothing else.
func (o *operation) written(changed map[string]string) (faults []error) {
	n := 0
	for i, writes := range o.Writes {
		if !writes || o.Value == "" && o.Saw[i] == "" {
			continue
		}
		n++
		if got, ok := changed[key(o.Object, i)]; !ok || got != o.Value {
			faults = append(faults, fmt.Errorf("an acknowledged write is lost: revision %d has %v, not what was written by %+v", o.Revision, changed, *o))
		}
	}
	if len(faults) == 0 && len(changed) != n {
		faults = append(faults, fmt.Errorf("revision %d has %v, more than was written by %+v", o.Revision, changed, *o))
	}
	return faults
}
