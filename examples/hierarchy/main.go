// Command hierarchy hands out many short locks cheaply, under one that is safe always:
//
//	mkdir /tmp/shared
//	go run ./examples/hierarchy serve -dir /tmp/shared -listen unix:/tmp/a.sock &
//	go run ./examples/hierarchy serve -dir /tmp/shared -listen unix:/tmp/b.sock &
//	go run ./examples/hierarchy lock  -dir /tmp/shared -n 10000
//
// The idea is Lampson's ("How to Build a Highly Available System Using Consensus",
// 1996), and sections 1 and 9 of G. Chockler and D. Malkhi, "Light-Weight Leases for
// Storage-Centric Coordination", 2006, make it of storage alone: agree, at the cost of
// consensus, on who owns everything; the owner then gives parts of it away without asking
// anybody. Kill the owner with -9 while locks are taken and see the other go on.
//
// # The outer lease
//
// Consensus over the storage decides on the owner, with one instance for each epoch: the
// value of epoch 7 is its owner, for ever. Consensus only confirms owners. A plain lease
// elects them (the leader oracle of section 8), and its holder proposes itself for the next
// epoch. So it does not matter if that lease is ever violated, by clocks run wild or by two
// elections where there should be one. Each epoch has one owner, and epochs follow one
// another. (TestEverybodyLeads has two that are elected all the time.)
//
// An owner owns until somebody else's epoch begins, and finds out by looking: a look at
// time t that shows that the next epoch is undecided is worth a span S, until t + S. It
// looks every S/3. To renew the outer lease is one read.
//
// A new owner learns that its epoch is decided, waits for W = S (1+ρ)/(1-ρ), and then
// begins. The predecessor's last look was before the decision, so it is worth nothing any
// more, even if their clocks differ in rate by ρ both ways.
//
// # Sub-leases
//
// The owner keeps them in memory (table.go): to grant one is to write into a map. Each ends
// before the outer lease does. So they are all over at the end of the owner's span, even if
// the owner is dead or asleep or does not know that it was deposed. Clients count from when
// they asked, and by clocks that may differ in rate from the owner's.
//
// Their tokens have the epoch in front, so they grow from owner to owner, too, and a
// resource that checks them (package fence) needs no clock at all.
//
// # What it costs
//
// The death of an owner costs the election's takeover time, an agreement, and W. That is
// the price for locks that cost no access to the storage, and for one thing to be
// decided that would otherwise be per lock. Each change of owner leaves a decision in the
// storage, for ever: choose a span that is not shorter than the machine's usual hiccups.
//
// Leaving on purpose is no faster here than dying.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/file"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("hierarchy", flag.ExitOnError)
	dir := flags.String("dir", "", "directory that all share")
	listen := flags.String("listen", "unix:", "serve: where clients reach us, unix:PATH or tcp:HOST:PORT")
	span := flags.Duration("span", 2*time.Second, "how long a look at the storage is worth; the same for all")
	name := flags.String("name", "row", "lock: beginning of the names to lock")
	n := flags.Int("n", 1000, "lock: how many names")
	verb := ""
	if len(os.Args) > 1 {
		verb = os.Args[1]
		_ = flags.Parse(os.Args[2:])
	}
	var err error
	switch verb {
	case "serve":
		var leases file.Spec
		leases.Term = *span
		err = serve(ctx, *dir, *listen, *span, leases)
	case "lock":
		err = lock(ctx, *dir, *name, *n, *span)
	default:
		err = errors.New("say serve or lock, and then -help")
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "hierarchy:", err)
		os.Exit(1)
	}
}

// serve owns whenever it can.
func serve(ctx context.Context, dir, listen string, span time.Duration, spec file.Spec) error {
	leaser, err := open(ctx, dir, spec)
	if err != nil {
		return err
	}
	defer leaser.Close()
	network, at, _ := strings.Cut(listen, ":")
	listener, err := net.Listen(network, at)
	if err != nil {
		return err
	}
	address := network + ":" + listener.Addr().String()
	table := NewTable()
	go Serve(listener, table)
	defer listener.Close()
	fmt.Println("serving at", address)
	outer := &Outer{
		Epochs:   Epochs{Store: leaser, Name: "outer"},
		Election: tenure.Election{Leaser: leaser, Claim: tenure.Claim{Name: "owner", Holder: address}},
		Me:       NewOwner(address),
		Span:     span,
		Drift:    leaser.Header().Drift,
		Table:    table,
	}
	return outer.Run(ctx)
}

// lock locks and unlocks names, at any owner.
func lock(ctx context.Context, dir, prefix string, n int, span time.Duration) error {
	path, err := filepath.Abs(filepath.Join(dir, "leases"))
	if err != nil {
		return err
	}
	leaser, err := file.Open(ctx, file.Config{Paths: []string{path}, ReadOnly: true})
	if err != nil {
		return err
	}
	defer leaser.Close()
	client := NewClient(Epochs{Store: leaser, Name: "outer"}, leaser.Header().Drift)
	defer client.Close()
	began, epochs := time.Now(), map[uint64]int{}
	for i := range n {
		sub, err := client.Lock(ctx, fmt.Sprint(prefix, i), span)
		if err != nil {
			return err
		}
		epochs[Epoch(sub.Token)]++
		client.Unlock(sub)
	}
	each := time.Since(began) / time.Duration(max(n, 1))
	fmt.Printf("%d locks, %v each; by epoch: %v\n", n, each.Round(time.Microsecond), epochs)
	return nil
}

// open makes the store of leases and agreements, if nobody has made it yet.
func open(ctx context.Context, dir string, spec file.Spec) (*file.Leaser, error) {
	path, err := filepath.Abs(filepath.Join(dir, "leases"))
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if _, err := file.Init(ctx, []string{path}, spec); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return file.Open(ctx, file.Config{Paths: []string{path}, Existing: true})
}
