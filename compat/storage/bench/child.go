package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	leases "github.com/tenure-lease/tenure/compat/storage"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
)

// variable is the environment variable that makes this program a process that does an
// operation, for its resources to be counted.
const variable = "TENURE_STORAGE_BENCH"

// job is what such a process does.
type job struct {
	Do       string   // acquire, die, hold
	Dirs     []string // where the leases are: directories,
	Redis    []string // or servers of Redis,
	Endpoint string   // or a lease server
	Name     string
	Leases   int // to hold
	For      time.Duration
	Servers  []int // processes whose resources count too
}

// report is what came of it.
type report struct {
	Acquire, Release time.Duration
	Holding          holding
}

func (j job) command(ctx context.Context) (*exec.Cmd, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+string(text))
	return cmd, nil
}

// run has a process do the job.
func (j job) run(ctx context.Context) (r report, s spent, err error) {
	cmd, err := j.command(ctx)
	if err != nil {
		return r, s, err
	}
	began := time.Now()
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	wall := time.Since(began)
	if j.Do == "die" {
		return r, s, nil
	}
	if err != nil {
		return r, s, fmt.Errorf("%s: %w", j.Do, err)
	}
	s = spent{wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	return r, s, json.Unmarshal(out, &r)
}

// child is the main function of such a process.
func child() error {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(variable)), &j); err != nil {
		return err
	}
	ctx := context.Background()
	if j.Endpoint != "" {
		h, err := j.keepAlive(ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(report{Holding: h})
	}
	rec := &recorder{}
	l, err := j.open(ctx, rec)
	if err != nil {
		return err
	}
	defer l.Close()
	var r report
	if j.Do == "hold" {
		r.Holding, err = j.hold(ctx, l, rec)
	} else {
		r, err = j.once(ctx, l)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// open opens a Leaser whose accesses are recorded.
func (j job) open(ctx context.Context, rec *recorder) (*storage.Leaser, error) {
	if len(j.Redis) == 0 {
		return leases.Open(rec.wrap, j.Dirs...)
	}
	var stores []register.Store
	for _, addr := range j.Redis {
		s, err := redis.Open(ctx, redis.Options{Addr: addr, Obsolete: storage.Obsolete})
		if err != nil {
			return nil, err
		}
		stores = append(stores, rec.wrap(s))
	}
	return leases.Over(stores)
}

// once acquires a lease and releases it, or dies with it.
func (j job) once(ctx context.Context, l *storage.Leaser) (r report, err error) {
	mark := marker()
	mark("acquire")
	began := time.Now()
	lease, err := l.Acquire(ctx, tenure.Claim{Name: j.Name})
	if err != nil {
		return r, err
	}
	r.Acquire = time.Since(began)
	mark("")
	if j.Do == "die" {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if j.For > 0 {
		mark("renew")
		time.Sleep(j.For)
		mark("")
	}
	mark("release")
	began = time.Now()
	err = lease.Release(ctx)
	r.Release = time.Since(began)
	mark("")
	return r, err
}

// marker writes where a trace of this process shows it.
func marker() func(phase string) {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return func(string) {}
	}
	return func(phase string) { fmt.Fprint(f, markPrefix+phase+" ") }
}
