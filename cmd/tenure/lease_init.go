package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/redis"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	onredis "github.com/tenure-lease/tenure/internal/host/register/redis"
)

// madeStores is what `lease init` prints.
type madeStores struct {
	At         string  `json:"at"`
	Set        string  `json:"set"`
	Stores     int     `json:"stores"`
	TTLMS      float64 `json:"ttl_ms"`
	DelayMS    float64 `json:"delay_ms"` // δ
	Measured   bool    `json:"delay_measured"`
	DriftPPM   int     `json:"drift_ppm"`
	FreeMS     float64 `json:"free_lease_ms"` // until one is had, at most, in ordinary times
	TakeoverMS float64 `json:"takeover_ms"`   // of a dead holder's
}

func leaseInitCommand() *cobra.Command {
	var at string
	var o cli.Output
	spec := file.Spec{}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make stores for leases",
		Long: `Makes a store in an empty directory, on a device, or on a Redis server, or a set of
several of which a minority may fail. What is chosen here holds for all leases in it:

  --ttl     how long a lease outlives its holder: others wait for it and 6 δ more
  --delay   δ: how long the storage takes for an access, at most, in ordinary times. It
            is measured unless it is given. A free lease takes 2 δ and a little. When the
            storage is slower than δ, that costs time and never exclusion.
  --drift   by how many millionths clocks may differ in rate from true time

Nothing is made where there is anything else. An empty directory needs no init to be used:
tenure lock makes a store in it with these defaults. Init is for other choices, for
devices and for Redis, and to be sure that it is the right directory.

Directories are used with direct I/O, so that machines see each other's writes; where
the filesystem has none, --single-host makes a store for one machine's processes.
On NFS, mount with noac.

` + fmt.Sprintf(`The exit code is
  0    the stores are made
  %d   wrong usage, such as leases that are too short for the storage; nothing was made
  %d   a place cannot be reached, or failed
  %d   there is a store already, or anything else; nothing was made`, cli.ExitUsage, cli.ExitUnavailable, cli.ExitCannotMake),
		Example: `  # A directory that machines share.
  tenure lease init --at file:///mnt/shared/leases

  # Three disks, of which any one may fail; leases that are free again soon.
  tenure lease init --at file:///mnt/a,/mnt/b,/mnt/c --ttl 5s

  # A block device, for 64 processes at a time.
  tenure lease init --at file:///dev/disk/by-id/shared --handles 64

  # Three independent Redis servers.
  tenure lease init --at redis://a,b,c`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at == "" {
				return cli.Usagef("where? write: tenure lease init --at file:///DIRECTORY")
			}
			h, err := initStores(context.Background(), at, spec)
			if err != nil {
				return initTrouble(err)
			}
			made := madeStores{
				At: at, Set: h.Set.String(), Stores: h.Of, TTLMS: millis(h.Term), DelayMS: millis(h.Delay), Measured: spec.Delay == 0,
				DriftPPM: h.Drift, FreeMS: millis(4 * h.Delay), TakeoverMS: millis(storage.Takeover(h)),
			}
			return o.Print(cmd.OutOrStdout(), made, func() { made.table(cmd.OutOrStdout(), h) })
		},
	}
	flags := cmd.Flags()
	storeFlag(flags, &at)
	o.Register(cmd)
	flags.DurationVar(&spec.Term, "ttl", 15*time.Second, "how long a lease lasts without renewal (`duration`)")
	flags.DurationVar(&spec.Delay, "delay", 0, "δ, the longest time of an access in ordinary times (`duration`; default: measured)")
	flags.IntVar(&spec.Drift, "drift", 1000, "by how many millionths (`ppm`) clocks may differ in rate from true time")
	flags.BoolVar(&spec.SingleHost, "single-host", false, "for the processes of one machine only, on any filesystem")
	flags.IntVar(&spec.Handles, "handles", 0, "`number` of processes that can use a device at a time")
	return cmd
}

func initStores(ctx context.Context, at string, spec file.Spec) (register.Header, error) {
	scheme, _, _ := strings.Cut(at, ":")
	switch scheme {
	case atLocal:
		cfg, err := local()
		if err != nil {
			return register.Header{}, err
		}
		spec.SingleHost = true
		return file.Init(ctx, cfg.Paths, spec)
	case "file":
		cfg, err := file.ReadURL(at)
		if err != nil {
			return register.Header{}, cli.Usage(err)
		}
		return file.Init(ctx, cfg.Paths, spec)
	case "redis", "rediss":
		if spec.SingleHost || spec.Handles != 0 {
			return register.Header{}, cli.Usagef("--single-host and --handles are for directories and devices")
		}
		cfg, err := redis.ReadURL(at)
		if err != nil {
			return register.Header{}, cli.Usage(err)
		}
		return redis.Init(ctx, cfg, spec.Spec)
	}
	return register.Header{}, cli.Usagef("%s needs no stores: init is for file:///DIRECTORY and redis://SERVER", at)
}

// initTrouble gives an error of init the exit code that it deserves.
func initTrouble(err error) error {
	switch {
	case errors.As(err, new(register.ChoiceError)):
		return cli.Usage(err)
	case errors.Is(err, fs.ErrExist), errors.Is(err, onredis.ErrExists), errors.Is(err, register.ErrForeign):
		return cli.Otherwise(cli.ExitCannotMake, err)
	}
	return cli.Otherwise(cli.ExitUnavailable, err)
}

func (m madeStores) table(w io.Writer, h register.Header) {
	how := "as given"
	if m.Measured {
		how = "measured"
	}
	stores := "a store"
	if m.Stores > 1 {
		stores = fmt.Sprintf("a set of %d stores, of which %d may fail,", m.Stores, (m.Stores-1)/2)
	}
	fmt.Fprintf(w, "made %s for leases of %v; accesses take up to %v (%s), clocks differ by up to %d ppm\n", stores, h.Term, h.Delay, how, h.Drift)
	fmt.Fprintf(w, "  a free lease is had within about %v\n", 4*h.Delay)
	fmt.Fprintf(w, "  a dead holder's is another's %v after its last renewal\n", storage.Takeover(h).Round(time.Millisecond))
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
