package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure/fence"
)

// command is what runs under `tenure lock`. It knows nothing of the lease but its
// token, and never looks at a clock to decide: its guardian is to end it in time.
func command(ctx context.Context, cfg childConfig) error {
	token, err := strconv.ParseUint(os.Getenv("TENURE_TOKEN"), 10, 64)
	if err != nil {
		return fmt.Errorf("read TENURE_TOKEN: %w", err)
	}
	if err := os.WriteFile(cfg.PID, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return err
	}
	name := os.Getenv("TENURE_LEASE")
	log, err := openLog(cfg.Logs, name)
	if err != nil {
		return err
	}
	report := func(what string) error { return log.add(line{token, os.Getpid(), what, now(), 0, 0}) }
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	guard := fence.File{Path: filepath.Join(cfg.Logs, name+".token")}
	random := rand.New(rand.NewPCG(cfg.Seed, uint64(os.Getpid())))
	for i := range patience(random) {
		what := beat
		if i == 0 {
			what = begin
		}
		if err := report(what); err != nil {
			return err
		}
		if i%10 == 0 {
			err := guard.Do(token, func() error { return report(write) })
			if errors.Is(err, fence.ErrStale) {
				return report(stale)
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-terminate:
			return report(told)
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
	return report(end)
}
