// Command cache is an editor of a file that several machines share. It works on a copy of
// its own, under a lease, and writes the user's changes back together with each renewal of
// the lease.
//
//	mkdir /tmp/shared
//	go run ./examples/cache -dir /tmp/shared    # type lines; an empty one ends it
//
// Section 10 of G. Chockler and D. Malkhi, "Light-Weight Leases for Storage-Centric
// Coordination", 2006, is about such clients. Renewing means writing to the disk, and
// then the cache seems to be of little use. But a cache has to be written back anyway, and
// often, for everything that was not is lost when its client is falsely suspected of
// being dead. So the two go together here:
//
//   - No renewal without a write-back. A client that cannot save loses the file within the
//     lease's term, instead of keeping it from clients that could. It needs no timer of its
//     own, and while nothing was typed a renewal costs as much as without a cache.
//   - The possible loss is bounded: it is the text typed since the last renewal, a third of
//     a term ago if all is well. After a whole term without a renewal the editor takes no
//     more text.
//   - A write-back that comes late, as after the client was stopped for a while, is refused
//     if another client has opened the file in between: package fence compares tokens. If
//     nobody has, it is not too late, and nothing is lost.
//   - The user is told which text is lost, and where it has been put.
//
// To see it, stop the command (Ctrl-Z) after typing, edit the file by another, and go on
// (fg).
//
// See carrier.go for how a renewal carries something: a register.Store is the one place
// through which all accesses to the storage go.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	engine "github.com/tenure-lease/tenure/engine/file"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/machine"
)

func main() {
	dir := flag.String("dir", "", "directory that the clients share; the file is in it")
	var leases engine.Spec
	flag.DurationVar(&leases.TTL, "ttl", 5*time.Second, "how long others wait for a client that died; for the first user of the directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *dir, leases, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "cache:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, spec engine.Spec, typed io.Reader) error {
	store, err := openStore(ctx, dir, spec)
	if err != nil {
		return err
	}
	d, err := Open(ctx, store, filepath.Join(dir, "text"), os.TempDir())
	if err != nil {
		return err
	}
	fmt.Printf("%s-- it is yours; type lines to add\n", d.Text())
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(typed); s.Scan() && s.Text() != ""; {
			lines <- s.Text()
		}
	}()
	for {
		select {
		case line, more := <-lines:
			if !more {
				return d.Close()
			}
			// An error is told by Close.
			_ = d.Edit(func(text []byte) []byte { return append(text, line+"\n"...) })
		case <-d.Done():
			return d.Close()
		case <-ctx.Done():
			return d.Close()
		}
	}
}

// openStore opens the store of leases in the directory, which it makes if it is not there.
func openStore(ctx context.Context, dir string, spec engine.Spec) (register.Store, error) {
	path, err := filepath.Abs(filepath.Join(dir, "leases"))
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := engine.Init(ctx, []string{path}, spec); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return file.Open(path, file.Options{
		Clock:    clock.Now,
		Obsolete: func(_ string, v machine.Value, writer machine.ID) bool { return storage.Obsolete(v, writer) },
	})
}
