package limits

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/compat/server"
)

func member(t *testing.T, ctx context.Context) (*server.Member, *clientv3.Client) {
	t.Helper()
	if !server.Has(server.Tenure) {
		t.Skip("there is no Tenure")
	}
	cluster, err := server.Start(ctx, server.Config{Kind: server.Tenure, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cl, err := cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cluster.Members[0], cl
}

// answerBytes is the bound of large answers that clients have not read, of a member with a gigabyte or more.
const answerBytes = 256 << 20

// Answers that nobody reads take no more memory than the page of limits says, however many there are: each of a hundred clients asks
// for all keys, of 100 MB together, and reads nothing.
func TestUnreadRanges(t *testing.T) {
	clients, keys := 100, 100
	if testing.Short() {
		clients, keys = 60, 10
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	m, cl := member(t, ctx)
	for i := range keys {
		if _, err := cl.Put(ctx, fmt.Sprintf("k%03d", i), string(make([]byte, 1_000_000))); err != nil {
			t.Fatal(err)
		}
	}
	before := m.Memory()
	for range clients {
		s, err := connect(ctx, m.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		s.stop.Store(true)
		go pb.NewKVClient(s.conn).Range(ctx, &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")})
	}
	most, slowest := before, time.Duration(0)
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); { // they wait for room for 5 s
		began := time.Now()
		if _, err := cl.Put(ctx, "other", "x"); err != nil {
			t.Fatalf("a write meanwhile: %v", err)
		}
		slowest = max(slowest, time.Since(began))
		most = max(most, m.Memory())
	}
	t.Logf("%d clients that read nothing of %d MB each: resident memory from %d to %d MB, slowest write %v", clients, keys, before/1e6, most/1e6, slowest)
	// Of each unread message the process has one encoded form; the rest is what the collector has not freed yet.
	if bound := before + answerBytes + answerBytes/2; most > bound {
		t.Errorf("resident memory grew to %d MB, and %d were the bound", most/1e6, bound/1e6)
	}
	if most-before < answerBytes/8 {
		t.Errorf("resident memory grew by %d MB only: the clients held nothing up", (most-before)/1e6)
	}
}

// The heaviest transactions that are taken hold up other writes for as long as the page of limits says.
func TestHeaviestTransactions(t *testing.T) {
	keys := 200_000
	if testing.Short() {
		keys = 20_000
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	_, cl := member(t, ctx)
	fill(t, ctx, cl, keys)
	all := clientv3.Compare(clientv3.ModRevision("n"), ">", 0).WithRange("o")
	compares := make([]clientv3.Cmp, min(128, 10_000_000/keys-1))
	for i := range compares {
		compares[i] = all
	}
	for _, heavy := range []struct {
		name string
		do   func() error
	}{
		{fmt.Sprintf("%d comparisons of %d keys", len(compares), keys), func() error {
			_, err := cl.Txn(ctx).If(compares...).Then(clientv3.OpPut("x", "")).Commit()
			return err
		}},
		{fmt.Sprintf("one deletion of %d keys", keys), func() error {
			_, err := cl.Delete(ctx, "n", clientv3.WithRange("o"))
			return err
		}},
	} {
		var others sync.WaitGroup
		done := make(chan struct{})
		var slowest time.Duration
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				began := time.Now()
				if _, err := cl.Put(ctx, "other", ""); err != nil {
					t.Errorf("a write beside %s: %v", heavy.name, err)
					return
				}
				slowest = max(slowest, time.Since(began))
			}
		})
		began := time.Now()
		err := heavy.do()
		took := time.Since(began)
		close(done)
		others.Wait()
		if err != nil {
			t.Errorf("%s: %v", heavy.name, err)
		}
		t.Logf("%s took %v, and others waited %v at most", heavy.name, took, slowest)
	}
}

// fill writes so many small keys.
func fill(t *testing.T, ctx context.Context, cl *clientv3.Client, keys int) {
	t.Helper()
	const each = 100
	next := make(chan int)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for from := range next {
				var puts []clientv3.Op
				for i := range each {
					puts = append(puts, clientv3.OpPut(fmt.Sprintf("n%07d", from+i), "v"))
				}
				if _, err := cl.Txn(ctx).Then(puts...).Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for from := 0; from < keys; from += each {
		next <- from
	}
	close(next)
	writers.Wait()
}
