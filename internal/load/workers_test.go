package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// still is a target of some members, of which the last leads. Its members spend a tenth of the time that passes.
type still struct {
	members int
	began   time.Time
	asked   []int // members, for connections
}

func (s *still) Size() int   { return s.members }
func (s *still) Leader() int { return s.members - 1 }
func (s *still) Connect(m int) (*clientv3.Client, error) {
	s.asked = append(s.asked, m)
	return nil, errors.New("it has no connections")
}
func (s *still) CPU(context.Context) time.Duration { return time.Since(s.began) / 10 }

// Operations of the warm-up do not count, and each that began in the measured time does.
func TestWorkMeasuresAfterTheWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Load{Target: &still{members: 3, began: time.Now()}, Clients: 4, Time: time.Second}
		ops := make([]int, 4)
		r, err := l.Work(t.Context(), 4, func(_ context.Context, worker int) error {
			ops[worker]++
			slow := 15 * time.Millisecond
			if ops[worker] <= 7 {
				slow = 31 * time.Millisecond // in the warm-up
			}
			time.Sleep(slow)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for worker, n := range ops {
			if n != 7+66 {
				t.Errorf("worker %d made %d operations, want 7 that begin in the warm-up of 200 ms and 66 in the second after it", worker, n)
			}
		}
		// The seventh begins in the warm-up and ends after it; the last ends after the second.
		want := Result{Rate: 4 * 66 / 1.007, P50: 15 * time.Millisecond, P99: 15 * time.Millisecond, CPU: 1007 * time.Millisecond / 10 / (4 * 66)}
		if diff := r.Rate - want.Rate; diff > 0.01 || diff < -0.01 || r.P50 != want.P50 || r.P99 != want.P99 || r.CPU != want.CPU {
			t.Errorf("the result is %+v, want %+v", r, want)
		}
	})
}

// Operations that take longer than the measurement are measured, too: one of each worker.
func TestWorkMeasuresSlowOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Load{Target: &still{members: 1, began: time.Now()}, Time: 10 * time.Millisecond}
		r, err := l.Work(t.Context(), 3, func(context.Context, int) error { time.Sleep(time.Second); return nil })
		if err != nil || r.P50 != time.Second || r.P99 != time.Second || r.Rate <= 0 {
			t.Errorf("it returns %+v, %v; want one operation of a second by each worker", r, err)
		}
	})
}

// An error of an operation ends the measurement at once, in the warm-up too, and is returned.
func TestWorkEndsByAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, fault := time.Now(), errors.New("refused")
		l := &Load{Target: &still{members: 1, began: began}, Time: time.Hour}
		_, err := l.Work(t.Context(), 3, func(ctx context.Context, worker int) error {
			if worker == 2 {
				time.Sleep(time.Second)
				return fault
			}
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, fault) || time.Since(began) != time.Second {
			t.Errorf("it returns %v after %v, want the operation's error after a second", err, time.Since(began))
		}
	})
}

// A context that ends is an error, and no result.
func TestWorkEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := &Load{Target: &still{members: 1, began: time.Now()}, Time: time.Hour}
		r, err := l.Work(ctx, 1, func(context.Context, int) error { time.Sleep(time.Millisecond); return nil })
		if !errors.Is(err, context.DeadlineExceeded) || r != (Result{}) {
			t.Errorf("it returns %+v, %v; want the context's error", r, err)
		}
	})
}

// Clients go to the members in turn, to the leader or to the others.
func TestWhereClientsGo(t *testing.T) {
	for _, tt := range []struct {
		members                 int
		all, leader, followers1 int // of which the first is asked
	}{{3, 0, 2, 0}, {1, 0, 0, 0}} {
		s := &still{members: tt.members}
		l := &Load{Target: s, Clients: 5}
		_, _, err := l.connect(5, l.members())
		_, _, err2 := l.connect(5, []int{l.Leader()})
		_, _, err3 := l.connect(5, l.followers())
		if err == nil || err2 == nil || err3 == nil {
			t.Fatal("a connection that fails is no error")
		}
		if want := []int{tt.all, tt.leader, tt.followers1}; len(s.asked) != 3 || s.asked[0] != want[0] || s.asked[1] != want[1] || s.asked[2] != want[2] {
			t.Errorf("of %d members it asks %v, want %v", tt.members, s.asked, want)
		}
	}
	l := &Load{Target: &still{members: 3}, Clients: 5}
	if got := l.followers(); len(got) != 2 || got[0] != 0 || got[1] != 1 {
		t.Errorf("the followers are %v, want 0 and 1", got)
	}
	if one := l.Alone(); one.Clients != 1 || l.Clients != 5 {
		t.Errorf("alone there are %d clients, and %d in the load itself; want 1 and 5", one.Clients, l.Clients)
	}
}
