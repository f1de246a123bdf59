package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/holder/storage"
)

const (
	// atLocal keeps leases in a directory of this user's on this machine.
	atLocal = "local"
	// atServer is where the commands that are about servers look for one.
	atServer = "etcd://127.0.0.1:2379"
)

// atFlag registers --at for commands that use leases, and the user that they ask a server as.
func atFlag(flags *pflag.FlagSet, at *place) {
	storeFlag(flags, &at.url)
	at.asUser = userFlags(flags)
}

// storeFlag registers --at for commands that use leases, but those of no server.
func storeFlag(flags *pflag.FlagSet, at *string) {
	flags.StringVar(at, "at", os.Getenv("TENURE_AT"),
		"engine `URL`: file:///DIR[,/DIR2,/DIR3], etcd://host:port,…, redis://host:port,…, flease:///SOCKET, or local; also by TENURE_AT; by default local, with a word about it")
	annotateAt(flags, atLeases)
}

// serverFlag registers --at for commands that are about servers.
func serverFlag(flags *pflag.FlagSet, at *place) {
	server := atServer
	if given := os.Getenv("TENURE_AT"); strings.HasPrefix(given, "etcd") { // else it is of a tenure around us
		server = given
	}
	flags.StringVar(&at.url, "at", server,
		"server's `URL`: etcd://host:port,… or etcds://…?cacert=F&cert=F&key=F; also by TENURE_AT, if that is a server's")
	annotateAt(flags, atServers)
	at.asUser = userFlags(flags)
}

// settle fills in the place of leases if the user has named none, and tells which machines that
// excludes: silence would be taken for a lock on all machines. It is told on a terminal, and
// elsewhere once, when the place is made: a cron job would send mail about it each night.
func settle(at *place, w io.Writer) {
	if at.url != "" {
		return
	}
	at.url = atLocal
	dir := localDir()
	if dir == "" {
		return // which is an error of its own
	}
	if _, err := os.Stat(dir); err == nil && people() == nil {
		return
	}
	fmt.Fprintf(w, "tenure: leases are kept in %s and exclude only this user's processes on this machine; --at file:///DIR is for machines that share DIR, --at %s says this is meant\n", dir, atLocal)
}

func localDir() string {
	state := storage.StateDir()
	if state == "" {
		return ""
	}
	return filepath.Join(state, "leases")
}

// local is the store of this user on this machine.
func local() (file.Config, error) {
	dir := localDir()
	if dir == "" {
		return file.Config{}, cli.Usagef("there is no place for leases, as neither HOME nor XDG_STATE_HOME is set: set one, or give --at")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return file.Config{}, fmt.Errorf("make a place for leases: %w; set XDG_STATE_HOME, or give --at", err)
	}
	return file.Config{Paths: []string{dir}, SingleHost: true}, nil
}

// openAt opens the engine, with the exit code that trouble deserves.
func openAt(ctx context.Context, at place) (tenure.Leaser, error) {
	return openFor(ctx, at, file.Process)
}

// openFor is openAt for leases of that kind of holder.
func openFor(ctx context.Context, at place, holder file.Holder) (tenure.Leaser, error) {
	return unavailable(at.url)(open(ctx, at, false, holder))
}

// lookAt opens the engine to look only, for which no right to write is needed.
func lookAt(ctx context.Context, at place) (tenure.Leaser, error) {
	return unavailable(at.url)(open(ctx, at, true, file.Process))
}

// openEngine and openServer open the engines that are no directories of files. Tests replace them.
var (
	openEngine = engine.Open
	openServer = func(ctx context.Context, cfg etcd.Config) (tenure.Leaser, error) {
		l, err := etcd.Open(ctx, cfg)
		if err != nil {
			return nil, err // not l: a nil *etcd.Leaser is no nil Leaser
		}
		return l, nil
	}
)

func open(ctx context.Context, at place, look bool, holder file.Holder) (tenure.Leaser, error) {
	var cfg file.Config
	var err error
	if err := at.unserved(); err != nil {
		return nil, err
	}
	switch {
	case at.url == atLocal:
		cfg, err = local()
	case strings.HasPrefix(at.url, "file:"):
		cfg, err = file.ReadURL(at.url)
		cfg.ReadOnly = look
	case strings.HasPrefix(at.url, "flease:"):
		if _, socket, err := flease.SocketOfURL(at.url); err == nil && !socket {
			return nil, fmt.Errorf("%w %q would make this command a peer, which is silent for a while after its start: run tenure peer on this machine, and write --at flease:///PATH with its socket", engine.ErrURL, at.url)
		}
		return openEngine(ctx, at.url)
	case at.served():
		cfg, err := at.config()
		if err != nil {
			return nil, err
		}
		return openServer(ctx, cfg)
	default:
		return openEngine(ctx, at.url)
	}
	if err != nil {
		return nil, err
	}
	cfg.Holder = holder
	l, err := file.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if l.Made() && at.url != atLocal {
		fmt.Fprintln(os.Stderr, "tenure: "+madeAt(cfg.Paths, l.Header().Term))
	}
	return l, nil
}

// madeAt tells that empty directories have become stores.
func madeAt(paths []string, term time.Duration) string {
	if len(paths) == 1 {
		return fmt.Sprintf("made a store for leases of %v in %s, which was empty; if there should have been one, look whether it is mounted", term, paths[0])
	}
	return fmt.Sprintf("made a set of %d stores for leases of %v in %s, which were empty; if there should have been stores, look whether all are mounted", len(paths), term, strings.Join(paths, ", "))
}

func unavailable(at string) func(tenure.Leaser, error) (tenure.Leaser, error) {
	return func(l tenure.Leaser, err error) (tenure.Leaser, error) {
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, engine.ErrURL):
			return nil, cli.Usage(err)
		case errors.As(err, new(cli.ExitError)):
			return nil, err
		case errors.Is(err, rpctypes.ErrUserEmpty):
			err = fmt.Errorf("%w (--user or TENURE_USER)", err)
		case strings.HasPrefix(at, "etcd"):
			err = fmt.Errorf("%w (--at or TENURE_AT names the server; `tenure serve` starts one)", err)
		}
		return nil, cli.Otherwise(cli.ExitUnavailable, err)
	}
}
