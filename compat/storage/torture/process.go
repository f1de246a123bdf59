package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// processes are holders: children that use the engine themselves, and guardians, which
// are `tenure lock` with a command under it. One that ends is started again.
type processes struct {
	self   string // program that calls Child
	tenure string // the tenure command; empty: no guardians
	at     string // URL of the stores, for guardians
	ttl    time.Duration
	config childConfig
	dir    string // where all their files are

	mu      sync.Mutex
	all     []*process
	ended   bool
	waiting sync.WaitGroup
	seed    uint64
	stopped []window
	runs    []guarded     // of guardians
	killed  map[int]bool  // commands and guardians that we killed or stopped
	skew    time.Duration // from the wall clock to ours
}

// process is a place for a process, which others take one after the other.
type process struct {
	number   int
	guardian bool
	cmd      *exec.Cmd // nil while there is none
	pidFile  string    // of a guardian's command
}

// guarded is one run of a guardian.
type guarded struct {
	pid, command int
	code         int
	lines        []eventLine
	touched      bool // we killed it, stopped it, or its command
}

// eventLine is what --events prints.
type eventLine struct {
	Event    string
	Time     time.Time
	Token    uint64
	Deadline time.Time
	Code     *int
	Why      string
}

func newProcesses(dir string, config childConfig) *processes {
	wall := time.Now()
	return &processes{
		dir: dir, config: config, seed: config.Seed, killed: map[int]bool{},
		skew: now() - time.Duration(wall.UnixNano()),
	}
}

// add starts a place.
func (ps *processes) add(guardian bool) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := &process{number: len(ps.all), guardian: guardian}
	p.pidFile = filepath.Join(ps.dir, fmt.Sprintf("command%d.pid", p.number))
	ps.all = append(ps.all, p)
	return ps.start(p)
}

// start starts a process in its place. The mutex is held.
func (ps *processes) start(p *process) error {
	cfg := ps.config
	ps.seed++
	cfg.Seed = ps.seed
	cfg.Command, cfg.PID = p.guardian, p.pidFile
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	cmd := exec.Command(ps.self)
	if p.guardian {
		cmd = exec.Command(ps.tenure, "lock", cfg.Names[0], "--at", ps.at, "--ttl", ps.ttl.String(), "--events", "--", ps.self)
	}
	// Away from the state of the user that runs the tests.
	cmd.Env = append(os.Environ(), Variable+"="+string(text), "XDG_STATE_HOME="+ps.dir)
	// Their standard input ends when this process does, and then they end too.
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	// A file, and no pipe of ours: its children may outlive it.
	said := filepath.Join(ps.dir, "stderr")
	if p.guardian {
		said = fmt.Sprintf("%s-of-guardian%d", said, ps.seed)
	}
	errs, err := os.OpenFile(said, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer errs.Close() // it has its own
	cmd.Stdout, cmd.Stderr = errs, errs
	if err := os.Remove(p.pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd = cmd
	ps.waiting.Go(func() {
		cmd.Wait()
		ps.mu.Lock()
		defer ps.mu.Unlock()
		p.cmd = nil
		if p.guardian {
			ps.take(p, cmd, said)
		}
		if !ps.ended {
			if err := ps.start(p); err != nil {
				fmt.Fprintln(os.Stderr, "start a holder:", err)
			}
		}
	})
	return nil
}

// take notes how a guardian ended, and what it said.
func (ps *processes) take(p *process, cmd *exec.Cmd, said string) {
	events, _ := os.ReadFile(said) // if it is missing, that it ran without a lease will be found
	g := guarded{pid: cmd.Process.Pid, command: p.command(), code: cmd.ProcessState.ExitCode()}
	for text := range strings.Lines(string(events)) {
		var e eventLine
		if json.Unmarshal([]byte(text), &e) == nil && e.Event != "" {
			g.lines = append(g.lines, e)
		}
	}
	g.touched = ps.killed[g.pid] || ps.killed[g.command] || ps.ended
	ps.runs = append(ps.runs, g)
}

// command is the process that runs under a guardian, 0 if none does yet.
func (p *process) command() int {
	b, err := os.ReadFile(p.pidFile)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(string(b))
	return pid
}

// ours reports whether a process is one of those we started, or was started by them.
func (ps *processes) ours(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(env, []byte(ps.dir))
}

// pick chooses a place: every other time that of a name's holder, if it is of the kind.
func (ps *processes) pick(guardian bool, n int) *process {
	holder := 0
	if n%2 == 0 {
		holder = lastHolder(ps.config.Logs, ps.config.Names[n/2%len(ps.config.Names)])
	}
	var some []*process
	for _, p := range ps.all {
		if p.guardian != guardian || p.cmd == nil {
			continue
		}
		if holder == p.cmd.Process.Pid || guardian && holder != 0 && holder == p.command() {
			return p
		}
		some = append(some, p)
	}
	if len(some) == 0 {
		return nil
	}
	return some[n%len(some)]
}

// signal sends a signal to the process in a place, to the command under it, or both,
// and returns whom it reached.
func (ps *processes) signal(guardian bool, n int, sig syscall.Signal, itself, command bool) (reached []int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.pick(guardian, n)
	if p == nil {
		return nil
	}
	if itself {
		reached = append(reached, p.cmd.Process.Pid)
	}
	if pid := p.command(); command && pid > 1 {
		reached = append(reached, pid)
	}
	for _, pid := range reached {
		ps.killed[pid] = ps.killed[pid] || sig == syscall.SIGKILL || sig == syscall.SIGSTOP
	}
	for _, pid := range reached {
		ps.send(pid, sig)
	}
	return reached
}

// send sends a signal to one of our processes, if it is still there.
func (ps *processes) send(pid int, sig syscall.Signal) {
	if ps.ours(pid) {
		syscall.Kill(pid, sig) // one that has just ended is no error
	}
}

// halt stops processes, and calls wait before they go on.
func (ps *processes) halt(pids []int, from time.Duration, wait func()) {
	ps.mu.Lock()
	at := len(ps.stopped)
	for _, pid := range pids {
		ps.stopped = append(ps.stopped, window{pid, from, from + time.Hour, "stopped"})
	}
	ps.mu.Unlock()
	wait()
	for _, pid := range pids {
		ps.send(pid, syscall.SIGCONT)
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for i := range pids {
		ps.stopped[at+i].to = now() + lateness // it takes a moment to go on
	}
}

// end kills all.
func (ps *processes) end() {
	ps.mu.Lock()
	ps.ended = true
	for _, p := range ps.all {
		if p.cmd != nil {
			if pid := p.command(); p.guardian && pid > 1 {
				ps.send(pid, syscall.SIGKILL)
			}
			p.cmd.Process.Kill()
		}
	}
	ps.mu.Unlock()
	ps.waiting.Wait()
}
