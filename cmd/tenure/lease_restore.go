package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/address"
	"github.com/tenure-lease/tenure/internal/holder/redis"
)

// restoredStore is what `lease restore` prints.
type restoredStore struct {
	At     string  `json:"at"`
	Server string  `json:"server"`
	TookMS float64 `json:"took_ms"`
}

func leaseRestoreCommand() *cobra.Command {
	var at, server string
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make a Redis server count again that has lost writes",
		Long: `A Redis server that may have lost writes is left out of its set: it was emptied, or was
restarted with older data, or a replica took its place. The set goes on without it, and
bears fewer failures. Restore copies from the others what the server has lost, and has it
count again. Leases go on meanwhile.

Before it copies, restore waits for about three times the TTL of the leases, until nobody
can rely on what the server has forgotten. More than half of the set has to be in order
besides the server. If restore is interrupted, the server stays left out; restore it again.

An empty server can also take the place of one that is gone for good: name it in --at
instead of that one, which must never come back.`,
		Example: `  # b was restarted without its data.
  tenure lease restore --at redis://a,b,c --server b

  # d takes the place of b, whose machine is lost.
  tenure lease restore --at redis://a,d,c --server d`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at == "" || server == "" {
				return cli.Usagef("which server, of which set? Write: tenure lease restore --at redis://a,b,c --server b")
			}
			ctx, stop := cli.UntilSignal(cmd.Context())
			defer stop()
			began := time.Now()
			name, err := restore(ctx, at, server, func(name string, d time.Duration) {
				fmt.Fprintf(cmd.ErrOrStderr(), "restoring %s, which takes %v\n", name, d.Round(time.Second))
			})
			if err != nil {
				return restoreTrouble(stoppedBy(ctx, err))
			}
			done := restoredStore{At: at, Server: name, TookMS: millis(time.Since(began))}
			return o.Print(cmd.OutOrStdout(), done, func() { fmt.Fprintf(cmd.OutOrStdout(), "%s counts again\n", name) })
		},
	}
	storeFlag(cmd.Flags(), &at)
	cmd.Flags().StringVar(&server, "server", "", "the `server` to restore, one of those in --at")
	o.Register(cmd)
	return cmd
}

// restoreTrouble gives an error of restore the exit code that it deserves.
func restoreTrouble(err error) error {
	if errors.As(err, new(net.Error)) {
		return cli.Otherwise(cli.ExitUnavailable, err)
	}
	return cli.Interrupted(err)
}

// restore returns the server's address as the set has it.
func restore(ctx context.Context, at, server string, waits func(server string, d time.Duration)) (string, error) {
	if scheme, _, _ := strings.Cut(at, ":"); scheme != "redis" && scheme != "rediss" {
		return "", cli.Usagef("%s is no set of Redis servers: a directory or device that lost its store is replaced with the whole set, by tenure lease init", at)
	}
	cfg, err := redis.ReadURL(at)
	if err != nil {
		return "", cli.Usage(err)
	}
	if !slices.Contains(cfg.Addrs, server) {
		named, err := address.Hosts(server, "6379")
		if err != nil {
			return "", cli.Usage(err)
		}
		if len(named) != 1 || !slices.Contains(cfg.Addrs, named[0]) {
			return "", cli.Usagef("--server %s is none of the servers in --at: %s", server, strings.Join(cfg.Addrs, ", "))
		}
		server = named[0]
	}
	return server, redis.Restore(ctx, cfg, server, func(d time.Duration) { waits(server, d) })
}
