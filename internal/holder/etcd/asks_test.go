package etcd

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
)

// The orders in which a queue is read, and the keys of a queue.
var (
	inOrder   = clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)
	lastFirst = clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)
	below     = clientv3.WithPrefix()
)

// sameRequests reports requests that are others than those wanted.
func sameRequests(t *testing.T, what string, got, want []any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s asks the server for\n%+v, want\n%+v", what, got, want)
	}
}

// joinTxn is the transaction by which a claim with lease 7 joins the queue of n, and looks by the options.
func joinTxn(value string, look ...clientv3.OpOption) askedTxn {
	return askedTxn{
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision("n/7"), "=", 0)},
		[]clientv3.Op{clientv3.OpPut("n/7", value, clientv3.WithLease(7)), clientv3.OpGet("n/", look...)},
	}
}

// lookAheadTxn is the transaction by which the same claim, with token 9, looks at the keys ahead of
// it.
func lookAheadTxn(look ...clientv3.OpOption) askedTxn {
	return askedTxn{
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision("n/7"), "=", int64(9))},
		[]clientv3.Op{clientv3.OpGet("n/", append(look, below, clientv3.WithMaxCreateRev(8))...)},
	}
}

// TestWhatAClaimAsks: a claim's lease lasts for whole seconds, its lock delay included. Its key is
// made with that lease, and must be new. A claim looks at the queue up to its own key, and only
// while that is there. An exclusive claim looks at the key before its own, and further only if that
// key is not in the queue. Other claims look at all keys. A claim watches for deletions, at a
// server that has a leader. An exclusive claim watches the key before its own, and other claims the
// whole queue.
func TestWhatAClaimAsks(t *testing.T) {
	stranger := &mvccpb.KeyValue{Key: []byte("n/config"), CreateRevision: 5, Value: []byte("x")}
	leaves := []clientv3.OpOption{clientv3.WithFilterPut(), clientv3.WithCreatedNotify()}
	for name, tt := range map[string]struct {
		claim tenure.Claim
		ahead []*mvccpb.KeyValue
		want  []any
	}{
		"an exclusive claim": {
			tenure.Claim{Slots: 1, TTL: 20 * time.Second, LockDelay: 1500 * time.Millisecond}, queueOf(5),
			[]any{
				askedGrant(22), joinTxn(`{"tenure":1,"holder":"h","slots":1,"delay_ms":2000}`, below, inOrder, clientv3.WithLimit(1)),
				lookAheadTxn(lastFirst, clientv3.WithLimit(1)),
				askedWatch{clientv3.OpGet("n/5", leaves...), true},
			},
		},
		"an exclusive claim behind a key of no queue": {
			tenure.Claim{Slots: 1, TTL: 20 * time.Second}, []*mvccpb.KeyValue{stranger},
			[]any{
				askedGrant(20), joinTxn(`{"tenure":1,"holder":"h","slots":1}`, below, inOrder, clientv3.WithLimit(1)),
				lookAheadTxn(lastFirst, clientv3.WithLimit(1)), lookAheadTxn(inOrder),
			},
		},
		"one of several": {
			tenure.Claim{Slots: 2, TTL: 20 * time.Second}, queueOf(5, 6),
			[]any{
				askedGrant(20), joinTxn(`{"tenure":1,"holder":"h","slots":2}`, below, inOrder),
				lookAheadTxn(inOrder),
				askedWatch{clientv3.OpGet("n/", append(leaves, below)...), true},
			},
		},
	} {
		c := &scripted{grant: func() error { return nil }}
		look := func() *clientv3.TxnResponse { return looked(tt.ahead...) }
		c.commits = []func() *clientv3.TxnResponse{func() *clientv3.TxnResponse { return joined(9, tt.ahead...) }, look, look, look}
		scriptedTest(t, c, func(t *testing.T, l *Leaser) {
			tt.claim.Name, tt.claim.Holder = "n", "h"
			go l.Acquire(t.Context(), tt.claim)
			synctest.Wait()
			got := c.requests()
			if len(got) > len(tt.want) && tt.ahead[0] == stranger {
				got = got[:len(tt.want)] // it is admitted then, and watches its own key
			}
			sameRequests(t, name, got, tt.want)
		})
	}
}

// TestWhatAHolderAsks: a holder watches its own key, from the revision after the one that made it.
func TestWhatAHolderAsks(t *testing.T) {
	c := &scripted{grant: func() error { return nil }}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		c.admit(t, l)
		synctest.Wait()
		sameRequests(t, "a holder", c.requests()[3:], []any{
			askedWatch{clientv3.OpGet("n/7", clientv3.WithRev(10), clientv3.WithFilterPut()), true},
		})
	})
}

// TestWhatALookAsks: a look reads the queue of its name. An Await watches the queue first, for all
// events.
func TestWhatALookAsks(t *testing.T) {
	c := &scripted{}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		if _, err := l.Observe(t.Context(), "n"); err != nil {
			t.Error(err)
		}
		sameRequests(t, "Observe", c.requests(), []any{clientv3.OpGet("n/", below, inOrder)})
		go l.Await(t.Context(), tenure.State{Name: "n"})
		synctest.Wait()
		sameRequests(t, "Await", c.requests(), []any{askedWatch{clientv3.OpGet("n/", below, clientv3.WithCreatedNotify()), true}})
		if err := ask(t.Context(), l.client); err != nil {
			t.Error(err)
		}
		sameRequests(t, "Open", c.requests(), []any{clientv3.OpGet("\x00", clientv3.WithCountOnly())})
	})
}

// TestWhatAListAsks: keys are listed without values, a thousand at a time, and those that look
// right are read again, as many in a transaction as any server takes.
func TestWhatAListAsks(t *testing.T) {
	for prefix, keys := range map[string][2]string{"n": {"n", "o"}, "": {"\x00", "\x00"}} {
		c := &scripted{queue: []*mvccpb.KeyValue{{Key: []byte("n/config")}}}
		var reads []clientv3.Op
		for id := range int64(250) {
			key := fmt.Sprintf("n/%x", id+1)
			c.queue = append(c.queue, &mvccpb.KeyValue{Key: []byte(key)})
			reads = append(reads, clientv3.OpGet(key))
		}
		for range 3 {
			c.commits = append(c.commits, func() *clientv3.TxnResponse { return looked(queueOf(5)...) })
		}
		scriptedTest(t, c, func(t *testing.T, l *Leaser) {
			if names, err := l.List(t.Context(), prefix); err != nil || len(names) != 1 || names[0] != "n" {
				t.Errorf("under %q List returns %q, %v; want n", prefix, names, err)
			}
			sameRequests(t, fmt.Sprintf("a list of what is under %q", prefix), c.requests(), []any{
				clientv3.OpGet(keys[0], clientv3.WithRange(keys[1]), clientv3.WithKeysOnly(), clientv3.WithLimit(1000)),
				askedTxn{then: reads[:100]}, askedTxn{then: reads[100:200]}, askedTxn{then: reads[200:]},
			})
		})
	}
}
