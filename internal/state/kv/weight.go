package kv

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// Heavier reports whether a transaction, with all it nests, may look at more than n keys in its ranges: those that it
// compares, reads and deletes, each as often as it does. Keys that were deleted count until they are reclaimed. One
// range alone is never too heavy. It looks at no more than n keys itself, and at those of equal ranges once.
func (v View) Heavier(r *pb.TxnRequest, n int) bool {
	if v.none() {
		return false
	}
	w := weight{view: v, left: n, known: map[[2]string]int{}}
	w.txn(r)
	return w.ranges > 1 && w.left < 0
}

// weight adds up the keys that a transaction looks at.
type weight struct {
	view   View
	left   int // until it is too much; then nothing is looked at any more
	ranges int
	known  map[[2]string]int // keys by range
}

func (w *weight) txn(r *pb.TxnRequest) {
	for _, c := range r.Compare {
		w.add(c.Key, c.RangeEnd)
	}
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if q := op.GetRequestRange(); q != nil {
				w.add(q.Key, q.RangeEnd)
			}
			if d := op.GetRequestDeleteRange(); d != nil {
				w.add(d.Key, d.RangeEnd)
			}
			if t := op.GetRequestTxn(); t != nil {
				w.txn(t)
			}
		}
	}
}

func (w *weight) add(key, end []byte) {
	if len(end) == 0 || w.left < 0 && w.ranges > 1 {
		return
	}
	w.ranges++
	at := [2]string{string(key), string(end)}
	keys, met := w.known[at]
	if !met {
		scan(w.view.keys, key, end, func(*item) bool {
			keys++
			return keys <= w.left
		})
		w.known[at] = keys
	}
	w.left -= keys
}
