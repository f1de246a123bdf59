package etcdapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

func (s *served) session(c *clientv3.Client) *concurrency.Session {
	s.t.Helper()
	session, err := concurrency.NewSession(c, concurrency.WithTTL(30))
	if err != nil {
		s.t.Fatal(err)
	}
	return session
}

func TestClientMutex(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	const contenders, rounds = 8, 20
	held := 0 // guarded by the lock alone
	var wg sync.WaitGroup
	for range contenders {
		session := s.session(s.client())
		wg.Go(func() {
			defer session.Close()
			for range rounds {
				m := concurrency.NewMutex(session, "lock")
				if err := m.Lock(t.Context()); err != nil {
					t.Error(err)
					return
				}
				held++
				if err := m.Unlock(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if held != contenders*rounds {
		t.Errorf("held %d times, want %d", held, contenders*rounds)
	}
}

func TestClientTryLock(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c := s.client()
	one, two := s.session(c), s.session(c)
	defer one.Close()
	defer two.Close()
	holder := concurrency.NewMutex(one, "lock")
	if err := holder.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := concurrency.NewMutex(two, "lock").TryLock(t.Context()); !errors.Is(err, concurrency.ErrLocked) {
		t.Errorf("got %v, want locked", err)
	}
	owner, err := c.Txn(t.Context()).If(holder.IsOwner()).Commit()
	if err != nil || !owner.Succeeded {
		t.Errorf("holder is owner: %v, %v", owner, err)
	}
}

func TestClientElection(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c := s.client()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	one, two := s.session(c), s.session(c)
	defer two.Close()
	first, second := concurrency.NewElection(one, "e"), concurrency.NewElection(two, "e")
	observed := second.Observe(ctx)
	want := func(value string) {
		t.Helper()
		if r := <-observed; string(r.Kvs[0].Value) != value {
			t.Errorf("observed %s, want %s", r.Kvs[0].Value, value)
		}
	}
	if err := first.Campaign(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	want("one")
	if err := first.Proclaim(ctx, "uno"); err != nil {
		t.Fatal(err)
	}
	want("uno")
	elected := make(chan error)
	go func() { elected <- second.Campaign(ctx, "two") }()
	if err := one.Close(); err != nil { // revokes its lease
		t.Fatal(err)
	}
	if err := <-elected; err != nil {
		t.Fatal(err)
	}
	want("two")
}

func TestClientSTM(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	const accounts, transfers = 5, 50
	for i := range accounts {
		s.put(fmt.Sprint("acc", i), "100")
	}
	var wg sync.WaitGroup
	for g := range 4 {
		c := s.client()
		wg.Go(func() {
			for i := range transfers {
				from, to := fmt.Sprint("acc", (g+i)%accounts), fmt.Sprint("acc", (g+2*i+1)%accounts)
				_, err := concurrency.NewSTM(c, func(stm concurrency.STM) error {
					move := func(key string, by int) error {
						n, err := strconv.Atoi(stm.Get(key))
						stm.Put(key, strconv.Itoa(n+by))
						return err
					}
					return errors.Join(move(from, -1), move(to, 1))
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for i := range accounts {
		r, err := s.client().Get(t.Context(), fmt.Sprint("acc", i))
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(string(r.Kvs[0].Value))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum != accounts*100 {
		t.Errorf("sum %d, want %d", sum, accounts*100)
	}
}
