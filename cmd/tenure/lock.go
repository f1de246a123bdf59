package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
)

func lockCommand() *cobra.Command {
	var t tenancy
	var patience wait
	var shared bool
	var e every
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "lock NAME [flags] -- COMMAND [ARG…]",
		Short: "Run a command while holding a lease: flock for a cluster",
		Long: `Waits for the lease on NAME, runs COMMAND, and releases the lease after it has
ended. COMMAND finds in its environment
  TENURE_LEASE  the name
  TENURE_TOKEN  the fencing token, a decimal number that grows from holder to holder
  TENURE_AT     the engine's URL, also the default of --at: for a tenure inside it

Leases are kept where --at says: in directories or on devices that machines share, on a
Tenure server or an etcd, on Redis servers (see tenure lease init), or among machines
that each run tenure peer. By default they are
kept in a directory of this user's, and exclude only what this user runs on this machine.
There, as in any one directory that only this machine writes to, a lease is free as soon
as its holder and the command have ended, by kill -9 too, unless there is a --lock-delay.
Elsewhere the lease of a holder that has died has to run out: see --ttl.

With --every the command is run once a period, for jobs that many hosts start: the host
that comes first runs it. Each other one leaves at once, and so does this one, for as
long after the beginning of a run as --every says. Let it be shorter than the time
between two starts by more than hosts may be late: 20h for a job that is started each
night. The store keeps when the last run began, by the clock of its host; clocks may be
minutes apart. Peers keep that in memory, and lose it if a majority crashes at one time.
A run counts whether it succeeds or not. With --retry one that failed, or
whose host died, is run again by the next that comes.

` + guardHelp + `

With --events and no command the lease is held until standard input ends or
a signal comes, so that a program in any language can hold a lease: start
this as a child, read its lines, and stop when it says "lost" or ends.

` + exitHelp + everyHelp,
		Example: `  # One backup at a time: of this user on this machine, with nothing to set up;
  # on all machines that share a directory; in the whole cluster.
  tenure lock backup -- pg_dump -f /backup/db.sql
  tenure lock backup --at file:///mnt/shared/leases -- pg_dump -f /backup/db.sql
  tenure lock backup --at etcd://10.0.0.1:2379 -- pg_dump -f /backup/db.sql
  tenure lock backup --at flease:///run/tenure/peer.sock -- pg_dump -f /backup/db.sql

  # A nightly job that cron starts on several hosts: one of them runs it.
  tenure lock nightly --every 20h --at file:///mnt/shared/leases -- ./backup.sh

  # Give up after ten seconds; exit code 75 says that somebody else has it.
  tenure lock nightly-report --wait 10s --ttl 30s -- ./report

  # At most three at once; readers beside readers.
  tenure lock encoder -n 3 -- ffmpeg -i in.mkv out.mp4
  tenure lock catalog --shared -- ./export

  # On a server that has users: as app, whose password is in a file.
  tenure lock backup --at etcd://10.0.0.1:2379 --user app --password-file /etc/tenure/password -- ./backup

  # Hand the token to the resource.
  tenure lock ledger -- sh -c 'curl -H "Tenure-Token: $TENURE_TOKEN" -d @entry http://ledger/'

  # Hold a lease from another language: it ends with our standard input.
  tenure lock worker-7 --events`,
		ValidArgsFunction: completeNames(&t.at),
		RunE: func(cmd *cobra.Command, args []string) error {
			if shared {
				if cmd.Flags().Changed("slots") {
					return cli.Usagef("--shared and -n exclude each other: a shared lease has room for any number")
				}
				t.claim.Slots = tenure.Shared
			}
			t.asJSON = t.asJSON || o == "json"
			if err := t.complete(cmd, args); err != nil {
				return err
			}
			if err := e.complete(cmd.Flags(), &t); err != nil {
				return err
			}
			return lock(context.Background(), &t, &e, patience)
		},
	}
	flags := cmd.Flags()
	t.register(flags)
	e.register(flags)
	o.Register(cmd)
	flags.StringVar(&t.claim.Holder, "holder", "", "the `text` that others see about us (default host:pid)")
	flags.Var(&patience, "wait", "how long to wait for the lease, and the server; 0 to try once")
	t.claim.Slots = 1
	flags.VarP((*slots)(&t.claim.Slots), "slots", "n", "`number` of those that may hold the name at once (a semaphore)")
	flags.BoolVar(&shared, "shared", false, "hold beside others with --shared, exclude all others")
	return cmd
}

// slots is the number of --slots.
type slots int

func (n *slots) String() string { return strconv.Itoa(int(*n)) }
func (n *slots) Type() string   { return "int" }

func (n *slots) Wants() string {
	return "a number of slots, 1 or more; flock's -n, to try once, is --wait 0 here"
}

func (n *slots) Set(s string) error {
	v, err := strconv.ParseInt(s, 10, 32)
	if err != nil || v < 1 || v >= tenure.Shared {
		return errors.New("want " + n.Wants())
	}
	*n = slots(v)
	return nil
}

func lock(ctx context.Context, t *tenancy, e *every, patience wait) error {
	defer t.events.close()
	waiting, cancel := patience.bound(ctx)
	defer cancel()
	leaser, err := t.start(waiting)
	if err != nil {
		return err
	}
	defer leaser.Close()
	lease, err := e.acquire(waiting, t, leaser, patience)
	if err != nil {
		return err
	}
	t.ended = e.end
	code, err := t.under(ctx, lease)
	if err == nil && code != 0 {
		err = cli.Exit(code, nil)
	}
	return err
}
