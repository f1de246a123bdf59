package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	leases "github.com/tenure-lease/tenure/compat/storage"
	"github.com/tenure-lease/tenure/fence"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
)

// Variable is the environment variable that makes a program call Child instead of
// whatever else it does.
const Variable = "TENURE_TORTURE_STORAGE"

// childConfig is what a holder process is told.
type childConfig struct {
	Logs  string   // directory of logs and fences
	Dirs  []string // of the stores
	Names []string
	Seed  uint64
	// Naive holders go on for as long as they like, without a look at their deadline: to
	// be found out.
	Naive bool
	// Command holds what `tenure lock` got for it, which says so in the environment,
	// and leaves its process number in the file PID.
	Command bool
	PID     string
}

// Child is the main function of a holder process. It ends with its standard input,
// which is a pipe of its parent's.
func Child() error {
	var cfg childConfig
	if err := json.Unmarshal([]byte(os.Getenv(Variable)), &cfg); err != nil {
		return fmt.Errorf("read %s: %w", Variable, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if cfg.Command {
		return command(ctx, cfg)
	}
	return hold(ctx, cfg)
}

// hold takes all the names, each again and again, until ctx ends.
func hold(ctx context.Context, cfg childConfig) error {
	faults := newFaults()
	for n := uint64(0); ctx.Err() == nil; n++ {
		l, err := leases.Open(faults.wrap, cfg.Dirs...)
		if err != nil { // the stores are being tortured
			fmt.Fprintln(os.Stderr, os.Getpid(), "open:", err)
			pause(ctx, 50*time.Millisecond)
			continue
		}
		round, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		for i, name := range cfg.Names {
			h := holder{cfg: cfg, name: name, leaser: l, random: rand.New(rand.NewPCG(cfg.Seed+n<<32, uint64(i)))}
			all.Go(func() {
				defer stop()
				if err := h.run(round); err != nil {
					fmt.Fprintln(os.Stderr, os.Getpid(), name, err)
				}
			})
		}
		all.Wait()
		stop()
		l.Close()
	}
	return nil
}

// holder takes one name.
type holder struct {
	cfg    childConfig
	name   string
	leaser *storage.Leaser
	random *rand.Rand
	log    logFile
}

// run returns when ctx ends, or with an error that opening the stores anew may cure.
func (h *holder) run(ctx context.Context) (err error) {
	if h.log, err = openLog(h.cfg.Logs, h.name); err != nil {
		return err
	}
	defer h.log.Close()
	for ctx.Err() == nil {
		lease, err := h.leaser.Acquire(ctx, tenure.Claim{Name: h.name, Holder: fmt.Sprint(os.Getpid())})
		if err != nil {
			return err
		}
		if err := h.tenure(ctx, lease); err != nil {
			return err
		}
		pause(ctx, time.Duration(h.random.IntN(10))*time.Millisecond)
	}
	return nil
}

// tenure reports as long as it holds, for some time, and releases mostly.
func (h *holder) tenure(ctx context.Context, lease tenure.Lease) error {
	report := func(what string, at time.Duration) error {
		return h.log.add(line{lease.Token(), os.Getpid(), what, at, now() + time.Until(lease.Deadline()), h.leaser.Delay()})
	}
	guard := fence.File{Path: filepath.Join(h.cfg.Logs, h.name+".token")}
	done := lease.Done()
	if h.cfg.Naive {
		done = nil
	}
	for i := range patience(h.random) {
		at := now()
		if lease.Check() != nil && !h.cfg.Naive {
			return report(told, now())
		}
		what := beat
		if i == 0 {
			what = begin
		}
		if err := report(what, at); err != nil {
			return err
		}
		if i%10 == 0 {
			err := guard.Do(lease.Token(), func() error { return report(write, now()) })
			if errors.Is(err, fence.ErrStale) {
				err = report(stale, now())
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-done:
			return report(told, now())
		case <-ctx.Done():
			return nil // the process is about to end
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := report(end, now()); err != nil {
		return err
	}
	lease.Release(ctx) // if nobody hears of it the lease ends by itself
	return nil
}

// patience is how often a holder reports before it releases: mostly for less than a
// Term, sometimes for several.
func patience(random *rand.Rand) int {
	if random.IntN(5) == 0 {
		return 100 + random.IntN(1000)
	}
	return 2 + random.IntN(60)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// faults makes all accesses of this process hang from SIGUSR1 to SIGUSR2, as those of a
// host that has lost its way to the storage.
type faults struct {
	mu      sync.Mutex
	stores  []*register.Faults
	hanging bool
}

func newFaults() *faults {
	f := &faults{}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for sig := range signals {
			f.mu.Lock()
			f.hanging = sig == syscall.SIGUSR1
			for _, s := range f.stores {
				f.apply(s)
			}
			f.mu.Unlock()
		}
	}()
	return f
}

func (f *faults) wrap(s register.Store) register.Store {
	f.mu.Lock()
	defer f.mu.Unlock()
	faulty := &register.Faults{Store: s}
	f.stores = append(f.stores, faulty)
	f.apply(faulty)
	return faulty
}

func (f *faults) apply(s *register.Faults) {
	if f.hanging {
		s.Hang()
	} else {
		s.Heal()
	}
}
