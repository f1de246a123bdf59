package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// leaderless is a cluster that ends each watch at once, and otherwise shows a queue that never
// changes. It counts looks, and gives the test up after too many.
type leaderless struct {
	clientv3.KV
	clientv3.Watcher
	clientv3.Lease
	queue  []*mvccpb.KeyValue
	looks  int
	giveUp context.CancelFunc
}

// enough is more than is looked in the ten seconds of a test, twice between two pauses of 50 ms or longer.
const enough = 2*10*20 + 2

func (c *leaderless) look() *pb.RangeResponse {
	if c.looks++; c.looks > enough {
		c.giveUp()
	}
	return &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 9}, Kvs: c.queue, Count: int64(len(c.queue))}
}

func (c *leaderless) Get(ctx context.Context, _ string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return (*clientv3.GetResponse)(c.look()), ctx.Err()
}

func (c *leaderless) Close() error { return nil }

func (c *leaderless) Watch(context.Context, string, ...clientv3.OpOption) clientv3.WatchChan {
	watch := make(chan clientv3.WatchResponse, 1)
	watch <- clientv3.WatchResponse{Canceled: true}
	close(watch)
	return watch
}

func (c *leaderless) TimeToLive(context.Context, clientv3.LeaseID, ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return &clientv3.LeaseTimeToLiveResponse{TTL: 60}, nil
}

func (c *leaderless) Txn(context.Context) clientv3.Txn { return leaderlessTxn{c: c} }

type leaderlessTxn struct {
	clientv3.Txn
	c *leaderless
}

func (t leaderlessTxn) If(...clientv3.Cmp) clientv3.Txn  { return t }
func (t leaderlessTxn) Then(...clientv3.Op) clientv3.Txn { return t }
func (t leaderlessTxn) Commit() (*clientv3.TxnResponse, error) {
	r := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: t.c.look()}}
	return &clientv3.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{r}}, nil
}

// TestNobodySpins: a watcher goes on when the cluster has no leader, and asks it with pauses.
func TestNobodySpins(t *testing.T) {
	ours := &mvccpb.KeyValue{Key: []byte(queueKey("n", 7)), Lease: 7, CreateRevision: 7}
	ahead := &mvccpb.KeyValue{Key: []byte(queueKey("n", 5)), Lease: 5, CreateRevision: 5}
	for name, tt := range map[string]struct {
		queue []*mvccpb.KeyValue
		watch func(context.Context, *Leaser, *lease)
	}{
		"an exclusive claim that waits": {[]*mvccpb.KeyValue{ahead}, func(ctx context.Context, _ *Leaser, x *lease) { _ = x.await(ctx) }},
		"a shared claim that waits": {[]*mvccpb.KeyValue{ahead}, func(ctx context.Context, _ *Leaser, x *lease) {
			x.claim.Slots = tenure.Shared
			_ = x.await(ctx)
		}},
		"a holder": {[]*mvccpb.KeyValue{ours}, func(ctx context.Context, _ *Leaser, x *lease) {
			context.AfterFunc(ctx, func() { x.keeper.End(tenure.ErrReleased) })
			x.guard()
		}},
		"a call that awaits a change": {[]*mvccpb.KeyValue{ours}, func(ctx context.Context, l *Leaser, _ *lease) {
			_, _ = l.Await(ctx, tenure.State{Name: "n", Holders: []tenure.Holding{{Token: 7}}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ctx, giveUp := context.WithTimeout(t.Context(), 10*time.Second)
				defer giveUp()
				c := &leaderless{queue: tt.queue, giveUp: giveUp}
				client := clientv3.NewCtxClient(t.Context())
				client.KV, client.Watcher, client.Lease = c, c, c
				clk := &clock.Fake{}
				l := New(client, clk)
				defer l.calls.Close()
				x := &lease{leaser: l, claim: tenure.Claim{Name: "n", Slots: 1, TTL: time.Hour}, id: 7, key: string(ours.Key), rev: 7}
				x.keeper = newKeeper(&holder.Clocks{Mono: clk}, tenure.Claim{}, clk.Now(), time.Hour, nil)
				defer x.keeper.End(errors.New("the test has ended"))
				tt.watch(ctx, l, x)
				if c.looks > enough || c.looks < 10 {
					t.Errorf("%d looks in ten seconds without a leader, want some, with pauses between them", c.looks)
				}
			})
		})
	}
}
