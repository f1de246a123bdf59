package storageworld

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/holders"
	"github.com/tenure-lease/tenure/internal/lab/world/posix"
	"github.com/tenure-lease/tenure/internal/machine"
)

// scene is the common part of a world's processes.
type scene struct {
	w     *world.World
	plan  plan
	tree  *posix.Tree
	judge *holders.Judge
	stop  chan struct{} // closed when processes are to come to an end
	state string        // the directory of all hosts' witnesses; "": none

	mu    sync.Mutex
	quiet bool // no more faults
	well  bool // and nothing is left of them
	out   int  // the directory that does not answer, from 1
}

func dir(i int) string { return fmt.Sprintf("/leases-%d", i) }

// dirOf is the directory of the store that a path is in.
func dirOf(name string) string {
	_, rest, _ := strings.Cut(name, "/")
	top, _, _ := strings.Cut(rest, "/")
	return top
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

// down reports whether a call is about a directory that does not answer.
func (s *scene) down(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out > 0 && strings.HasPrefix(name, dir(s.out-1))
}

// play plays the world of a plan.
func play(t *testing.T, p plan) world.Result {
	state := ""
	if p.state {
		state = t.TempDir()
	}
	return world.Play(t, world.Options{Seed: p.seed, Procs: 1, Memory: true, Drain: 10 * time.Minute, Limit: 2 * time.Hour}, func(w *world.World) {
		w.Trace.Add("%v", p)
		s := &scene{w: w, plan: p, tree: posix.New(), judge: holders.NewJudge(w), stop: make(chan struct{}), state: state}
		s.begin()
		judged := make(chan struct{})
		go s.judge.Watch(judged)
		var all sync.WaitGroup
		var first *clock.Simulated
		for i := range p.procs {
			host, c := fmt.Sprint("p", i), first
			if i != 1 || !p.paired {
				c = s.clock(host)
			} else {
				host = "p0"
			}
			if i == 0 {
				first = c
			}
			all.Go(func() { s.run(fmt.Sprint("p", i), host, c) })
		}
		s.befall()
		s.mu.Lock()
		s.quiet, s.out = true, 0
		s.mu.Unlock()
		w.Trace.Add("no more faults")
		time.Sleep(s.settled())
		s.mu.Lock()
		s.well = true
		s.mu.Unlock()
		time.Sleep(10 * p.header.Term)
		close(s.stop)
		all.Wait()
		s.last()
		close(judged)
	})
}

// settled is the time after which all leftovers have been waited out: stalls, damage, a store
// that went back, and the lease itself.
func (s *scene) settled() time.Duration {
	return s.plan.longest + 3*s.plan.header.Quiet()
}

// begin makes the directories.
func (s *scene) begin() {
	sys := s.tree.FS(s.w.Start("init"), nil)
	for i := range s.plan.dirs {
		s.tree.Mkdir(dir(i))
		h := s.plan.header
		h.Index = i
		if err := file.Init(dir(i), h, file.InitOptions{SingleHost: true, FS: sys}); err != nil {
			s.w.Fail("init: %v", err)
		}
	}
}

// clock is that of a host, as wrong as it may be.
func (s *scene) clock(host string) *clock.Simulated {
	random := s.w.Rand("clock of " + host)
	drift := float64(s.plan.header.Drift) / 1e6
	c := clock.NewSimulated(machine.Mono(random.Int64N(int64(time.Hour))))
	c.SetRate(1 + drift*(2*random.Float64()-1))
	return c
}

// run runs one process after the other on a host.
func (s *scene) run(name, host string, c *clock.Simulated) {
	random := s.w.Rand(name)
	var closing sync.WaitGroup
	for !s.stopping() {
		x := s.process(name, host, c, random.Uint64())
		over := make(chan struct{})
		closing.Go(func() { defer close(over); x.Live(x.open) })
		select {
		case <-over:
		case <-x.Process.Ended(): // its leftovers in memory go on to nowhere
		}
		x.Process.End()
		time.Sleep(50 * time.Millisecond)
	}
	closing.Wait()
}

// befall lets happen what befalls the storage, until the time of faults is over.
func (s *scene) befall() {
	random := s.w.Rand("storage")
	end := time.Now().Add(s.plan.length)
	next := func(every time.Duration) time.Time {
		if every == 0 {
			return end
		}
		return time.Now().Add(every/2 + time.Duration(random.Int64N(int64(every))))
	}
	crash, outage, copied := next(s.plan.crashes), next(s.plan.outages), next(s.plan.copied)
	for {
		at := crash
		for _, other := range []time.Time{outage, copied} {
			if other.Before(at) {
				at = other
			}
		}
		if !at.Before(end) {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(time.Until(at))
		if at == crash {
			s.w.Trace.Add("the storage loses its power")
			s.w.Count("crashes", 1)
			for i := range s.plan.procs {
				if p := s.w.Process(fmt.Sprint("p", i)); p != nil {
					p.End()
				}
			}
			s.tree.Crash(random)
			crash = next(s.plan.crashes)
			continue
		}
		if at == copied {
			lines := dir(0) + "/lifelines"
			s.tree.Restore(lines, s.tree.Copy(lines))
			s.w.Count("lifelines replaced", 1)
			copied = next(s.plan.copied)
			continue
		}
		s.outage(random)
		outage = next(s.plan.outages)
	}
}

// outage has one of the directories fail for a while, and perhaps come back older.
func (s *scene) outage(random *rand.Rand) {
	i := random.IntN(s.plan.dirs)
	was := s.tree.Copy(dir(i) + "/handles")
	if s.plan.older {
		time.Sleep(time.Duration(random.Int64N(int64(5 * time.Second))))
	}
	s.set(i + 1)
	s.w.Trace.Add("directory %d does not answer", i)
	time.Sleep(time.Duration(random.Int64N(int64(2 * s.plan.header.Quiet()))))
	if s.plan.older {
		s.w.Trace.Add("directory %d comes back as it was", i)
		s.w.Count("older copies", 1)
		s.tree.Restore(dir(i)+"/handles", was)
	}
	s.w.Count("outages", 1)
	s.set(0)
	if s.plan.older { // another may fail when this one counts again
		time.Sleep(2 * s.plan.header.Quiet())
	}
}

func (s *scene) set(out int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = out
}

// process starts a process.
func (s *scene) process(name, host string, c *clock.Simulated, seed uint64) *process {
	x := &process{scene: s, clock: c, host: host, Holder: holders.Holder{
		World: s.w, Judge: s.judge, Name: name, Process: s.w.Start(name), Seed: seed, Stop: s.stop, Calm: s.calm, Steady: s.steady,
		Habits: holders.Habits{
			Workers: s.plan.workers, Names: s.plan.names, Term: s.plan.header.Term, Quiet: s.plan.header.Quiet(),
			Shared: s.plan.shared, Idle: s.plan.idle, Onlook: s.plan.onlook, Reopen: s.plan.reopen, Kill: s.plan.kill, Break: s.plan.breaks, Records: s.plan.records,
		},
	}}
	if s.state != "" {
		x.state = filepath.Join(s.state, host)
	}
	return x
}

// last has a new process acquire every name: none is held any more.
func (s *scene) last() {
	x := s.process("last", "another", clock.NewSimulated(1), s.plan.seed)
	if err := x.open(); err != nil {
		s.w.Fail("the store cannot be opened when all is well: %v", err)
		return
	}
	defer x.Leaser.Close()
	x.Last(2*x.Leaser.Takeover()+s.settled(), s.plan.dirs == 1)
}
