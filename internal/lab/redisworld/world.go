package redisworld

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	engine "github.com/tenure-lease/tenure/internal/holder/redis"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/holders"
	"github.com/tenure-lease/tenure/internal/lab/world/network"
	"github.com/tenure-lease/tenure/internal/machine"
)

// scene is the common part of a world's processes.
type scene struct {
	w       *world.World
	plan    plan
	net     *network.Network
	servers []*server
	judge   *holders.Judge
	stop    chan struct{} // closed when processes are to come to an end
	state   string        // the directory of witnesses; "": none

	mu    sync.Mutex
	quiet bool // no more faults
	well  bool // and nothing is left of them
	lost  int  // how often a server lost something
	whole bool // all servers count
}

func (s *scene) calm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quiet
}

func (s *scene) steady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.well
}

func (s *scene) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// mayLose reports whether a server may lose something now: the others count.
func (s *scene) mayLose() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.whole {
		return false
	}
	s.whole = false
	s.lost++
	return true
}

func (s *scene) losses() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// allCount takes in that all stores were in order, unless one has lost something since.
func (s *scene) allCount(losses int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = s.whole || s.lost == losses
}

func (s *scene) dialer(p *world.Process) func(context.Context, string, string) (net.Conn, error) {
	dial := s.net.Dialer(p)
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) }
}

// play plays the world of a plan.
func play(t *testing.T, p plan) world.Result {
	state := ""
	if p.remembers {
		state = t.TempDir()
	}
	o := world.Options{Seed: p.seed, Plan: p.faults, Procs: 1, Memory: true, Drain: 5 * time.Minute, Limit: time.Hour}
	return world.Play(t, o, func(w *world.World) {
		w.Trace.Add("%v", p)
		s := &scene{
			w: w, plan: p, net: network.New(w, 100*time.Microsecond, p.slow), judge: holders.NewJudge(w),
			stop: make(chan struct{}), state: state, whole: true,
		}
		for i := range p.header.Of {
			s.servers = append(s.servers, &server{scene: s, index: i, name: fmt.Sprint("s", i), sync: p.syncs[i], mute: p.mute && p.syncs[i] == 0})
		}
		s.begin()
		w.Happen(s.carryOut)
		judged := make(chan struct{})
		go s.judge.Watch(judged)
		var all sync.WaitGroup
		for i := range p.procs {
			all.Go(func() { s.host(i) })
		}
		op := &operator{s, w.Start("operator")}
		all.Go(op.work)
		time.Sleep(p.length)
		w.Forgo()
		time.Sleep(max(w.Calm()-w.Elapsed(), 0))
		s.mu.Lock()
		s.quiet = true
		s.mu.Unlock()
		w.Trace.Add("no more faults")
		time.Sleep(p.longest + 6*p.header.Quiet()) // a restore, and leftovers
		s.mu.Lock()
		s.well = true
		s.mu.Unlock()
		time.Sleep(10 * p.header.Term)
		close(s.stop)
		all.Wait()
		s.last()
		close(judged)
		for _, v := range s.servers {
			v.stop(s.net.Exit, 0)
		}
	})
}

// begin makes the stores.
func (s *scene) begin() {
	p := s.w.Start("init")
	for _, v := range s.servers {
		v.start()
		h := s.plan.header
		h.Index = v.index
		for redis.Init(context.Background(), redis.Options{Addr: v.addr(), Dial: s.dialer(p)}, h) != nil {
			time.Sleep(time.Second) // the server may stand still; to repeat it does nothing
		}
		v.mu.Lock()
		v.safe = len(v.life.changes()) // else it is not made until its first sync
		v.mu.Unlock()
	}
	p.End()
	s.net.Exit(p)
}

// process is a process that takes leases.
type process struct {
	holders.Holder
	*scene
	clock *clock.Simulated
	state string
}

func (s *scene) process(name string, c *clock.Simulated, seed uint64) *process {
	x := &process{scene: s, clock: c, Holder: holders.Holder{
		World: s.w, Judge: s.judge, Habits: s.plan.habits, Name: name, Process: s.w.Start(name), Seed: seed, Stop: s.stop, Calm: s.calm, Steady: s.steady,
	}}
	if s.state != "" {
		x.state = filepath.Join(s.state, name)
	}
	return x
}

func (x *process) open() error {
	cfg := engine.Config{Dial: x.dialer(x.Process), Clock: x.clock, State: x.state}
	if cfg.State == "" {
		cfg.State = "/dev/null/nowhere" // processes remember for themselves
	}
	for _, v := range x.servers {
		cfg.Addrs = append(cfg.Addrs, v.addr())
	}
	l, err := engine.Open(context.Background(), cfg)
	if err != nil {
		x.w.Count("opens refused", 1)
		return err
	}
	x.Leaser = l
	return nil
}

// host runs one process after the other.
func (s *scene) host(i int) {
	name := fmt.Sprint("p", i)
	random := s.w.Rand(name)
	drift := float64(s.plan.header.Drift) / 1e6
	c := clock.NewSimulated(machine.Mono(random.Int64N(int64(time.Hour))))
	c.SetRate(1 + drift*(2*random.Float64()-1))
	var closing sync.WaitGroup
	for !s.stopping() {
		x := s.process(name, c, random.Uint64())
		over := make(chan struct{})
		closing.Go(func() { defer close(over); x.Live(x.open) })
		select {
		case <-over:
		case <-x.Process.Ended(): // its leftovers in memory go on to nowhere
		}
		x.Process.End()
		s.net.Exit(x.Process)
		time.Sleep(50 * time.Millisecond)
	}
	closing.Wait()
}

// carryOut carries out a fault that no process carries out itself, if it can.
func (s *scene) carryOut(f world.Fault) bool {
	for _, v := range s.servers {
		if v.name == f.Who {
			return s.strike(v, f)
		}
	}
	if f.Kind == world.Kill {
		return s.kill(f.Who)
	}
	return s.sever(f)
}

// kill ends a process that takes leases; its host starts another.
func (s *scene) kill(name string) bool {
	p := s.w.Process(name)
	if p == nil {
		return false
	}
	select {
	case <-p.Ended():
		return false
	default:
	}
	p.End()
	s.net.Exit(p)
	s.w.Count("killed at a call", 1)
	return true
}

// sever carries out what befalls connections.
func (s *scene) sever(f world.Fault) bool {
	switch f.Kind {
	case world.Cut:
		s.net.Cut(f.Who, f.With, f.For)
	case world.Isolate:
		s.net.Isolate(f.Who, f.For)
	case world.Reset:
		return s.net.Reset(f.Who, "") > 0
	case world.HalfOpen:
		return s.net.HalfOpen(f.Who) > 0
	}
	return true
}

// strike carries out what befalls a server.
func (s *scene) strike(v *server, f world.Fault) bool {
	switch f.Kind {
	case world.Kill, world.Crash, takeover, emptied:
	case full, unsaved, loading:
		return v.disturb(f.Kind, f.For)
	default:
		return s.sever(f)
	}
	if v.mute && f.Kind == takeover {
		return false // that is not known: such a server must not have replicas
	}
	if !v.acting.TryLock() {
		return false
	}
	defer v.acting.Unlock()
	if (f.Kind == takeover || f.Kind == emptied || !v.keeps() || v.tookOver()) && !s.mayLose() {
		s.net.Reset(v.name, "")
		return false
	}
	random := s.w.Rand(fmt.Sprint("fault", f))
	beside, end := time.Duration(0), s.net.Exit
	switch f.Kind {
	case world.Crash:
		end = s.net.PowerOff
	case takeover:
		beside = time.Duration(random.Int64N(int64(500 * time.Millisecond)))
	case emptied:
		v.empty()
		return true
	}
	v.stop(end, beside)
	time.Sleep(f.For)
	if f.Kind == takeover {
		v.takeOver()
	}
	v.start()
	return true
}

// last has a new process acquire every name: none is held any more.
func (s *scene) last() {
	x := s.process("last", clock.NewSimulated(1), s.plan.seed)
	defer func() {
		x.Process.End()
		s.net.Exit(x.Process)
	}()
	if err := x.open(); err != nil {
		s.w.Fail("the stores cannot be opened when all is well: %v", err)
		return
	}
	defer x.Leaser.Close()
	health, err := x.Leaser.(*engine.Leaser).Health(context.Background(), "lease-0")
	if err != nil {
		s.w.Fail("health: %v", err)
	}
	for _, h := range health {
		if h.Err != nil {
			s.w.Fail("a store cannot be used when all is well: %s: %v", h.Addr, h.Err)
		}
	}
	x.Last(2*x.Leaser.Takeover()+s.plan.longest+3*s.plan.header.Quiet(), s.plan.header.Of == 1)
	if len(s.w.Failures()) > 0 {
		for _, v := range s.servers {
			for i := range s.plan.habits.Names {
				v.show(fmt.Sprint("lease-", i))
			}
		}
	}
}
