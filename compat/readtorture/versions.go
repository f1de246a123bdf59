package readtorture

import "sort"

// versions is the history of each key, as watches showed it. It begins with an empty
// store.
type versions struct {
	keys   map[string][]event
	at     map[int64]map[string]string // by revision: the changes
	values map[string]event            // by value: when it was written first
	twice  []event                     // values that were written again
}

// newVersions takes the events in their order.
func newVersions(events []event) *versions {
	v := &versions{keys: map[string][]event{}, at: map[int64]map[string]string{}, values: map[string]event{}}
	for _, e := range events {
		v.keys[e.Key] = append(v.keys[e.Key], e)
		if v.at[e.Revision] == nil {
			v.at[e.Revision] = map[string]string{}
		}
		v.at[e.Revision][e.Key] = e.Value
		if e.Value == "" {
			continue
		}
		if first, ok := v.values[e.Value]; !ok {
			v.values[e.Value] = e
		} else if first.Revision != e.Revision { // a txn puts one value under several keys
			v.twice = append(v.twice, e)
		}
	}
	return v
}

// of is the version of a key in the state at a revision: the zero event if there was
// none yet.
func (v *versions) of(key string, revision int64) event {
	list := v.keys[key]
	i := sort.Search(len(list), func(i int) bool { return list[i].Revision > revision })
	if i == 0 {
		return event{}
	}
	return list[i-1]
}
