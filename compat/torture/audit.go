package torture

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// event is a change as the watch saw it.
type event struct {
	key      string
	value    string // "" when deleted
	revision int64
}

// audit holds the answers against the watched history, which begins with an
// empty store. It returns every fault it finds.
func audit(history []operation, events []event) (faults []error) {
	type change struct{ key, value string }
	at := map[int64]change{}
	versions := map[string][]event{}
	for _, e := range events {
		if other, ok := at[e.revision]; ok {
			faults = append(faults, fmt.Errorf("two registers changed in revision %d: %v and %v", e.revision, other, e))
		}
		at[e.revision] = change{e.key, e.value}
		if v := versions[e.key]; len(v) > 0 && v[len(v)-1].revision >= e.revision {
			faults = append(faults, fmt.Errorf("the watch went back to revision %d of %s", e.revision, e.key))
		}
		versions[e.key] = append(versions[e.key], e)
	}
	valueAt := func(key string, revision int64) string {
		v := versions[key]
		i := sort.Search(len(v), func(i int) bool { return v[i].revision > revision })
		if i == 0 {
			return ""
		}
		return v[i-1].value
	}
	for _, o := range history {
		switch {
		case !o.known:
		case o.writes():
			want := change{o.key, o.value}
			if o.kind == kindDelete {
				want.value = ""
			}
			if got, ok := at[o.revision]; !ok || got != want {
				faults = append(faults, fmt.Errorf("an acknowledged write is lost: revision %d is %v, not that of %v", o.revision, got, o))
			}
		case o.kind == kindGet || o.kind == kindCAS:
			if value := valueAt(o.key, o.revision); value != o.got {
				faults = append(faults, fmt.Errorf("at revision %d the value was %q: %v", o.revision, value, o))
			}
		}
	}
	return append(faults, realTime(history)...)
}

// realTime wants an answer to be at least at the highest revision that was
// answered before its request was sent, and a write above it.
func realTime(history []operation) (faults []error) {
	known := slices.DeleteFunc(slices.Clone(history), func(o operation) bool { return !o.known })
	ended := slices.Clone(known)
	slices.SortFunc(known, func(a, b operation) int { return cmp.Compare(a.start, b.start) })
	slices.SortFunc(ended, func(a, b operation) int { return cmp.Compare(a.end, b.end) })
	var before operation // with the highest revision of those that ended
	i := 0
	for _, o := range known {
		for ; i < len(ended) && ended[i].end < o.start; i++ {
			if ended[i].revision > before.revision {
				before = ended[i]
			}
		}
		if o.revision < before.revision || o.writes() && o.revision == before.revision {
			faults = append(faults, fmt.Errorf("revision %d was answered before, by %v: %v", before.revision, before, o))
		}
	}
	return faults
}
