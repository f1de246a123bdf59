package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// kind of an operation on one key.
type kind int

const (
	kindPut    kind = iota
	kindGet         // linearizable
	kindCAS         // a txn: if the value is old then put new, else get
	kindDelete      //
)

// operation is one call of a worker and its result.
type operation struct {
	worker     int
	kind       kind
	key        string
	value      string // put, or by a CAS
	old        string // expected by a CAS; "" for no key
	start, end time.Duration

	known    bool   // an answer came; else it may have happened, or happen later
	got      string // value read by a get or a failed CAS, "" for no key
	swapped  bool   // the CAS succeeded
	deleted  bool   // the delete found a key
	revision int64  // of the answer's header
}

func (o operation) String() string {
	name := [...]string{"put", "get", "cas", "delete"}[o.kind]
	return fmt.Sprintf("worker %d %s %s old=%q value=%q [%v, %v] known=%v got=%q swapped=%v deleted=%v revision %d",
		o.worker, name, o.key, o.old, o.value, o.start, o.end, o.known, o.got, o.swapped, o.deleted, o.revision)
}

// writes reports whether the operation changed the key, by its answer.
func (o operation) writes() bool {
	return o.known && (o.kind == kindPut || o.kind == kindCAS && o.swapped || o.kind == kindDelete && o.deleted)
}

const (
	workers       = 8
	registers     = 5
	registerRoot  = "register/"
	operationTime = 2 * time.Second
)

// work lets the workers loose until ctx ends and returns all they did.
func work(ctx context.Context, c *server.Cluster, seed uint64) ([]operation, error) {
	var (
		mu      sync.Mutex
		history []operation
		wg      sync.WaitGroup
		failed  error
	)
	for w := range workers {
		cli, err := c.Client(w % len(c.Members)) // one member each: faults hit some workers
		if err != nil {
			failed = err
			break
		}
		wg.Go(func() {
			defer cli.Close()
			mine := worker(ctx, cli, w, rand.New(rand.NewPCG(seed, uint64(w))))
			mu.Lock()
			defer mu.Unlock()
			history = append(history, mine...)
		})
	}
	wg.Wait()
	return history, failed
}

func worker(ctx context.Context, cli *clientv3.Client, w int, random *rand.Rand) (mine []operation) {
	seen := map[string]string{} // last value known of a key, for CAS to succeed at times
	for n := 0; ctx.Err() == nil; n++ {
		o := operation{
			worker: w, kind: kind(random.IntN(4)), key: fmt.Sprintf("%s%d", registerRoot, random.IntN(registers)),
			value: fmt.Sprintf("%d-%d", w, n),
		}
		if o.kind == kindDelete && random.IntN(2) == 0 {
			o.kind = kindGet
		}
		if o.kind == kindCAS {
			o.old = seen[o.key]
		}
		do(ctx, cli, &o)
		mine = append(mine, o)
		switch {
		case o.writes() && o.kind != kindDelete:
			seen[o.key] = o.value
		case o.known:
			seen[o.key] = o.got
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(5+random.IntN(30)) * time.Millisecond):
		}
	}
	return mine
}

// do makes the call. The workload's end does not cut it off.
func do(ctx context.Context, cli *clientv3.Client, o *operation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTime)
	defer cancel()
	o.start = now()
	var err error
	switch o.kind {
	case kindPut:
		var r *clientv3.PutResponse
		if r, err = cli.Put(ctx, o.key, o.value); err == nil {
			o.revision = r.Header.Revision
		}
	case kindGet:
		var r *clientv3.GetResponse
		if r, err = cli.Get(ctx, o.key); err == nil {
			o.revision = r.Header.Revision
			for _, kv := range r.Kvs {
				o.got = string(kv.Value)
			}
		}
	case kindDelete:
		var r *clientv3.DeleteResponse
		if r, err = cli.Delete(ctx, o.key); err == nil {
			o.revision, o.deleted = r.Header.Revision, r.Deleted == 1
		}
	case kindCAS:
		condition := clientv3.Compare(clientv3.Value(o.key), "=", o.old)
		if o.old == "" {
			condition = clientv3.Compare(clientv3.Version(o.key), "=", 0)
		}
		var r *clientv3.TxnResponse
		if r, err = cli.Txn(ctx).If(condition).Then(clientv3.OpPut(o.key, o.value)).Else(clientv3.OpGet(o.key)).Commit(); err == nil {
			o.revision, o.swapped = r.Header.Revision, r.Succeeded
			if !r.Succeeded {
				for _, kv := range r.Responses[0].GetResponseRange().Kvs {
					o.got = string(kv.Value)
				}
			}
		}
	}
	o.end, o.known = now(), err == nil
}
