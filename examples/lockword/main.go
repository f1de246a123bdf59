// Command lockword keeps each lock beside what it locks. There is no lock server, and no
// place that all locks are in: a volume (a directory, on a disk that machines share) has
// files, and the words that lock these files.
//
//	mkdir /tmp/vol1 /tmp/vol2
//	go run ./examples/lockword -n 100 /tmp/vol1 /tmp/vol2 &
//	go run ./examples/lockword -n 100 /tmp/vol1 /tmp/vol2
//	go run ./examples/lockword -n 0 /tmp/vol1 /tmp/vol2    # looks only
//
// Every process adds 1 to files at random, so many times on each volume, as one does it to
// a file: read, change, write. In the end the files' counts are the sums of the additions.
//
// Section 2.3 of G. Chockler and D. Malkhi, "Light-Weight Leases for Storage-Centric
// Coordination", 2006, says why one wants that:
//
//   - A process that can reach the data can reach its lock. When a volume is gone its locks
//     are gone too, and nobody needs them then. Take /tmp/vol2 away while this runs (mv)
//     and see vol1 go on; put it back and see vol2 go on.
//   - Locking costs some accesses to a disk that is accessed anyway, and no hop to a
//     server. The cost is printed.
//   - A lock is a word that can be read and written and nothing more, as every disk
//     offers. The word per file here is the register of the file's name in VOLUME/locks.
//
// A process that dies with a file locked holds up the others, at this file, for as long
// as the volume was made for (-ttl).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/file"
)

func main() {
	n := flag.Int("n", 100, "how many updates to make on each volume")
	files := flag.Int("files", 5, "how many files there are on each")
	var locks file.Spec
	flag.DurationVar(&locks.TTL, "ttl", 5*time.Second, "how long a lock outlives its holder; for the first user of a volume")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Args(), *n, *files, locks, nil); err != nil {
		fmt.Fprintln(os.Stderr, "lockword:", err)
		os.Exit(1)
	}
}

// run works on all volumes at once. Each try of an update is told, unless told is nil.
func run(ctx context.Context, dirs []string, n, files int, spec file.Spec, told func(dir string, err error)) error {
	if len(dirs) == 0 {
		return errors.New("name directories, one for each volume")
	}
	errs := make([]error, len(dirs))
	var all sync.WaitGroup
	for i, dir := range dirs {
		all.Go(func() {
			if err := work(ctx, dir, n, files, spec, told); err != nil {
				errs[i] = fmt.Errorf("%s: %w", dir, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// work makes n updates on a volume, and prints what there is then.
func work(ctx context.Context, dir string, n, files int, spec file.Spec, told func(dir string, err error)) error {
	v, err := OpenVolume(ctx, dir, spec)
	if err != nil {
		return err
	}
	defer v.Close()
	began := time.Now()
	for made := 0; made < n; {
		err := v.Update(ctx, fmt.Sprintf("file%d", rand.N(files)), increment)
		if told != nil {
			told(dir, err)
		}
		switch {
		case err == nil:
			made++
		case ctx.Err() != nil:
			return err
		case errors.Is(err, tenure.ErrLost):
			fmt.Fprintf(os.Stderr, "%s: perhaps not made, as the lock was lost: %v\n", dir, err)
		case errors.Is(err, fs.ErrNotExist): // the volume is away
			pause(ctx)
		default:
			return err
		}
	}
	var report strings.Builder
	if n > 0 {
		each, locking := time.Since(began)/time.Duration(n), v.Locking()/time.Duration(n)
		fmt.Fprintf(&report, "%s: %d updates, %v each, %v of it to lock and unlock\n", dir, n, each.Round(10*time.Microsecond), locking.Round(10*time.Microsecond))
	}
	for i := range files {
		text, err := v.Read(fmt.Sprintf("file%d", i))
		if err != nil {
			return err
		}
		fmt.Fprintf(&report, "%s: file%d counts %s\n", dir, i, strings.TrimSpace(string(text)))
	}
	fmt.Print(report.String())
	return nil
}

// increment is an update.
func increment(text []byte) ([]byte, error) {
	n := 0
	if len(text) > 0 {
		var err error
		if n, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return nil, err
		}
	}
	return fmt.Appendln(nil, n+1), nil
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}
