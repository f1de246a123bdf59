package replicasim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// lands is the model: the whole of the surveyors' keys is one object.
var lands = porcupine.Model{
	Init: func() any { return land{} },
	Step: func(state, input, _ any) (bool, any) {
		at, o := state.(land), input.(survey)
		if o.kind == 'r' {
			for i, read := range o.keys {
				if read && o.read[i] != at[i] {
					return false, at
				}
			}
			return true, at
		}
		if o.kind == 'c' {
			swapped := at[o.guard] != "" && at[o.guard] == o.old
			if o.rev > 0 && o.swapped != swapped {
				return false, at
			}
			if !swapped {
				return true, at
			}
		}
		for i, written := range o.keys {
			if written {
				at[i] = o.value
			}
		}
		return true, at
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// surveyed judges the operations of surveyors. Their answers about a revision show the keys at
// that revision; and as a whole the answers have an order. In the order of the log, a write
// with an unknown outcome took effect when it was shown first; in key order an applied write
// may be seen at any later time.
func (k *checks) surveyed(w *sim.World, byKey bool) {
	var history []porcupine.Operation
	for _, o := range k.surveys {
		ret := o.end
		put, ok := k.revisions.of[o.value]
		switch {
		case o.kind != 'r' && o.rev == 0:
			if !ok {
				continue // it never took effect
			}
			if ret = 1 << 62; !byKey {
				ret = max(o.call+1, k.revisions.shown[put])
			}
		case o.rev == 0:
			continue
		case o.kind == 'r':
			want := k.revisions.landAt(o.rev)
			for i, read := range o.keys {
				if read && o.read[i] != want[i] {
					k.fail(w, "m%d was read as %q at revision %d, but there was %q", i, o.read[i], o.rev, want[i])
				}
			}
		case (o.kind == 'w' || o.swapped) && put != o.rev:
			k.fail(w, "%s was put at revision %d, but its client was told of %d", o.value, put, o.rev)
		case o.kind == 'c' && !o.swapped && ok:
			k.fail(w, "%s was put at revision %d, but its client was told that it was not", o.value, put)
		}
		history = append(history, porcupine.Operation{ClientId: o.client, Input: o, Call: int64(o.call), Return: int64(ret)})
	}
	switch porcupine.CheckOperationsTimeout(lands, history, patience) {
	case porcupine.Illegal:
		k.fail(w, "linearizability: the history of %d surveys has no order", len(history))
	case porcupine.Unknown:
		k.fail(w, "linearizability: the history of %d surveys was not decided in %v", len(history), patience)
	}
}

// isStale reports whether history that a state needs was reclaimed since it was taken.
func isStale(v kv.View) bool {
	_, err := v.Range(&pb.RangeRequest{Key: []byte("m"), RangeEnd: []byte("n")})
	return errors.Is(err, kv.ErrStaleView)
}

// surveyView are the surveyors' keys as a state has them.
func surveyView(v kv.View) (found [surveyed]*mvccpb.KeyValue) {
	resp, err := v.Range(&pb.RangeRequest{Key: []byte("m"), RangeEnd: []byte("n")})
	if err != nil {
		panic(err)
	}
	for _, kv := range resp.Kvs {
		found[kv.Key[1]-'0'] = kv
	}
	return found
}

// floors are the newest revisions of keys that were shown, the surveyors' and behind them the
// clients': a later read may find nothing older. It is as much as the order of their operations
// asks for. But it knows at once, and it also knows publications, which watchers see, too.
type floors [surveyed + clientKeys]int64

// showed notes that keys are as new as a revision.
func (k *checks) showed(keys [surveyed]bool, rev int64) {
	for i, is := range keys {
		if is {
			k.floors[i] = max(k.floors[i], rev)
		}
	}
}

// onShow notes a member's publications.
func (k *checks) onShow(v kv.View) {
	for i, found := range surveyView(v) {
		if found != nil {
			k.floors[i] = max(k.floors[i], found.ModRevision)
		}
	}
	for i := range clientKeys {
		k.showedClients(i, writtenAt(v, []byte(clientKey(i))))
	}
}

// showedClients is showed for a key of the clients.
func (k *checks) showedClients(i int, rev int64) {
	k.floors[surveyed+i] = max(k.floors[surveyed+i], rev)
}

// looked judges a linearizable read of some keys by the values that had been shown when it set
// out.
func (k *checks) looked(w *sim.World, m *Member, v kv.View, keys [surveyed]bool, before floors) {
	for i, found := range surveyView(v) {
		if !keys[i] {
			continue
		}
		rev := int64(0)
		if found != nil {
			rev = found.ModRevision
		}
		k.lookedAt(w, m, surveyKey(i), rev, before[i])
		k.floors[i] = max(k.floors[i], rev)
	}
}

// lookedAt judges the finding of a linearizable read about one key.
func (k *checks) lookedAt(w *sim.World, m *Member, key []byte, rev, before int64) {
	if rev < before {
		k.fail(w, "stale read: %s at member %d is of revision %d, but %d was shown before it set out", key, m.ID, rev, before)
	}
}

// noteSurveys notes the changes of the surveyors' keys by a new revision that is shown for the
// first time.
func (r *revisions) noteSurveys(now time.Duration, rev int64, key, value string) {
	if len(key) != 2 || key[0] != 'm' {
		return
	}
	at, ok := r.lands[rev]
	if !ok {
		at = r.landAt(rev)
		r.landed = append(r.landed, rev)
		r.shown[rev] = now
	}
	at[key[1]-'0'] = value
	r.lands[rev] = at
	r.of[value] = rev
}

// landAt are the values of the keys at a revision.
func (r *revisions) landAt(rev int64) land {
	i, found := slices.BinarySearchFunc(r.landed, rev, cmp.Compare[int64])
	if !found {
		i--
	}
	if i < 0 {
		return land{}
	}
	return r.lands[r.landed[i]]
}
