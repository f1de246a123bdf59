package driver

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// asking is a question of a client.
type asking struct {
	who    int
	sends  bool // it sends something
	writes bool // it has a record
	forced bool // the answer waits for that
}

// answering is a machine that answers each question by an outcome: the client.
type answering struct {
	rd    machine.Ready[int]
	turns atomic.Int64
}

func (m *answering) Step(_ machine.Now, in asking) {
	if in.sends {
		m.rd.Sends = append(m.rd.Sends, env(2, "question"))
	}
	switch {
	case in.forced:
		answer := env(1, "")
		answer.Body = in.who
		m.rd.Persists = append(m.rd.Persists, machine.Persist{Record: in, Then: []machine.Envelope{answer}})
	case in.writes:
		m.rd.Persists = append(m.rd.Persists, machine.Persist{Record: in})
		fallthrough
	default:
		m.rd.Outcomes = append(m.rd.Outcomes, in.who)
	}
}

func (m *answering) Receive(_ machine.Now, e machine.Envelope) {
	m.rd.Outcomes = append(m.rd.Outcomes, e.Body.(int))
}

func (m *answering) Wake(machine.Now) {}

func (m *answering) Ready() machine.Ready[int] {
	m.turns.Add(1)
	rd := m.rd
	rd.Alarm, m.rd = machine.Never, machine.Ready[int]{}
	return rd
}

// asks has clients ask b.N times, each again as soon as it is told, and counts turns, calls of Send
// and calls of Persist for each question. An option saves some of them. ns/op does not
// show their cost in a product, for here they do nothing.
func asks(b *testing.B, clients int, cfg Config[asking, int], question func(i int) asking) {
	m := &answering{}
	var sends, writes atomic.Int64
	told := make([]chan struct{}, clients)
	for i := range told {
		told[i] = make(chan struct{}, 1)
	}
	cfg.Machine = m
	cfg.Now = func() machine.Now { return machine.Now{Mono: 1} }
	cfg.Send = func([]machine.Envelope) { sends.Add(1) }
	cfg.Persist = func([]any, bool) error { writes.Add(1); return nil }
	cfg.Outcome = func(outs []int) {
		for _, who := range outs {
			told[who] <- struct{}{}
		}
	}
	d := Start(cfg)
	b.Cleanup(d.Stop)
	var left atomic.Int64
	left.Store(int64(b.N))
	m.turns.Store(0)
	b.ResetTimer()
	var all sync.WaitGroup
	for who := range told {
		all.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				q := question(int(i))
				q.who = who
				d.Step(q)
				<-told[who]
			}
		})
	}
	all.Wait()
	b.StopTimer()
	for name, n := range map[string]*atomic.Int64{"turns/op": &m.turns, "sends/op": &sends, "writes/op": &writes} {
		b.ReportMetric(float64(n.Load())/float64(b.N), name)
	}
}

// BenchmarkHold shows how many calls of Send the clients' next questions save by leaving with what
// was sent before.
func BenchmarkHold(b *testing.B) {
	for name, hold := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			asks(b, 8, Config[asking, int]{Hold: hold}, func(int) asking { return asking{sends: true} })
		})
	}
}

// BenchmarkLinger shows how many writes are saved where an answer waits for every second record, and
// nothing for the others.
func BenchmarkLinger(b *testing.B) {
	for name, linger := range map[string]time.Duration{"off": 0, "20ms": 20 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			asks(b, 1, Config[asking, int]{Linger: linger}, func(i int) asking { return asking{writes: true, forced: i%2 == 1} })
		})
	}
}

// BenchmarkTurns shows how many turns a question costs, by the number of clients: with
// busyTurns at 0 it shows the savings by the runtime.Gosched of makeTurns.
func BenchmarkTurns(b *testing.B) {
	for name, clients := range map[string]int{"1": 1, "8": 8, "64": 64} {
		b.Run("clients="+name, func(b *testing.B) {
			asks(b, clients, Config[asking, int]{}, func(int) asking { return asking{} })
		})
	}
}
