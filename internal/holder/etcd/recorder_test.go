package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure"
)

// TestARecordIsSetByTheServersWord: the server compares, and one that has the key of the tenure no more
// ends the tenure.
func TestARecordIsSetByTheServersWord(t *testing.T) {
	c := &scripted{grant: func() error { return nil }}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		lease := c.admit(t, l)
		synctest.Wait()
		c.requests()
		asks := askedTxn{
			conditions: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision("n/7"), "=", 9)},
			then:       []clientv3.Op{clientv3.OpPut("n.record", "mine")},
		}
		c.commits = append(c.commits, func() *clientv3.TxnResponse { return &clientv3.TxnResponse{Succeeded: true} })
		if err := l.SetRecord(t.Context(), lease, []byte("mine")); err != nil {
			t.Error(err)
		}
		sameRequests(t, "SetRecord", c.requests(), []any{asks})
		c.commits = append(c.commits, func() *clientv3.TxnResponse { return &clientv3.TxnResponse{} })
		if err := l.SetRecord(t.Context(), lease, []byte("mine")); !errors.Is(err, tenure.ErrLost) || !errors.Is(err, errKeyGone) {
			t.Errorf("the server has no such key: SetRecord returns %v, want %q", err, tenure.ErrLost)
		}
		if err := lease.Check(); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("the server has no such key: the lease is held: %v, want %q", err, tenure.ErrLost)
		}
	})
}

// TestReadingARecord asks for the one key, waits out what passes, and says what does not.
func TestReadingARecord(t *testing.T) {
	c := &scripted{}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		read := func(want string, is error, when string) {
			t.Helper()
			got, err := l.Record(t.Context(), "n")
			if string(got) != want || is == nil && err != nil || !errors.Is(err, is) {
				t.Errorf("%s: the record is %q, %v, want %q, %v", when, got, err, want, is)
			}
		}
		read("", nil, "none was set")
		sameRequests(t, "Record", c.requests(), []any{clientv3.OpGet("n.record")})
		c.queue = []*mvccpb.KeyValue{{Key: []byte("n.record"), Value: []byte("mine")}}
		failures := 2
		c.get = func(context.Context) error {
			if failures--; failures >= 0 {
				return status.Error(codes.Unavailable, "no leader")
			}
			return nil
		}
		read("mine", nil, "a server was in trouble")
		denied := status.Error(codes.PermissionDenied, "no")
		c.get = func(context.Context) error { return denied }
		read("", denied, "the server refuses")
		c.get = silent
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := l.Record(ctx, "n"); !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 20*time.Second {
			t.Errorf("a server is silent: Record returns %v after %v, want %q after 20s", err, time.Since(began), tenure.ErrUnavailable)
		}
		closed := make(chan error, 1)
		go func() {
			_, err := l.Record(t.Context(), "n")
			closed <- err
		}()
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-closed; err != tenure.ErrClosed {
			t.Errorf("Close meanwhile: Record returns %v, want %v", err, tenure.ErrClosed)
		}
	})
}
