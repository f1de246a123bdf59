package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/abcastsim"
	"github.com/tenure-lease/tenure/internal/lab/asyncleasesim"
	"github.com/tenure-lease/tenure/internal/lab/diskleasesim"
	"github.com/tenure-lease/tenure/internal/lab/fastctsim"
	"github.com/tenure-lease/tenure/internal/lab/fleasesim"
	"github.com/tenure-lease/tenure/internal/lab/quorumregistersim"
	"github.com/tenure-lease/tenure/internal/lab/replicasim"
	"github.com/tenure-lease/tenure/internal/lab/sim"
)

// protocols are what `tenure-lab sim` can play.
func protocols() []sim.Protocol {
	return []sim.Protocol{
		replicasim.Protocol(),
		replicasim.ReadLeaseProtocol(),
		replicasim.KeyOrderProtocol(),
		replicasim.PushProtocol(),
		quorumregistersim.Protocol(),
		diskleasesim.Protocol(),
		diskleasesim.EndsProtocol(),
		diskleasesim.ConsensusProtocol(),
		fleasesim.Protocol(),
		fleasesim.PaperProtocol(),
		asyncleasesim.Protocol(),
		fastctsim.Protocol(),
		abcastsim.Protocol(),
	}
}

// simulation is what `tenure-lab sim` is asked for.
type simulation struct {
	protocol sim.Protocol
	seed     uint64
	worlds   int
	workers  int
	failures int
	notes    int
	svg      string
	out      cli.Output
}

// simReport is what `tenure-lab sim -o json` prints.
type simReport struct {
	Protocol string         `json:"protocol"`
	Seed     uint64         `json:"seed"` // of the first world
	Worlds   int            `json:"worlds"`
	Failures []simFailure   `json:"failures"`
	Counters map[string]int `json:"counters"`
	Elapsed  float64        `json:"elapsed_s"`
	Hash     string         `json:"trace_hash"`
}

type simFailure struct {
	Seed  uint64 `json:"seed"`
	Error string `json:"error"`
}

func simCommand() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "sim [PROTOCOL]",
		Short: "Play a protocol in simulated worlds full of faults, and check it",
		Long: `Runs the product's own state machines in simulated worlds: crashes, pauses, clocks
that drift, networks and disks that fail. Checkers that know true time judge what
happens. A seed is a world: the same seed is the same course of events.

Without PROTOCOL the protocols are listed. --seed alone plays that one world again.
With --worlds, seeds count up from --seed (from 1 without it). If something is
violated, the exit code is 1; the seed, the last events and how to see it again are
printed, and the history is drawn to ./PROTOCOL-SEED.svg (--svg names another file;
with --seed alone it draws worlds without a violation, too).

trace_hash stands for all that happened in all worlds: equal hashes, equal runs.`,
		Example: `  tenure-lab sim
  tenure-lab sim replica --worlds 1000
  tenure-lab sim replica --seed 42 --svg world.svg
  tenure-lab sim disklease --seed 5000 --worlds 100000 --failures 0 -o json`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, p := range protocols() {
				if len(args) == 0 {
					names = append(names, cobra.CompletionWithDesc(p.Name, p.About))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return s.list(cmd)
			}
			i := slices.IndexFunc(protocols(), func(p sim.Protocol) bool { return p.Name == args[0] })
			if i < 0 {
				return cli.Usagef("there is no protocol %q; `tenure-lab sim` lists them", args[0])
			}
			s.protocol = protocols()[i]
			switch {
			case s.worlds < 1:
				return cli.Usagef("--worlds %d: want at least 1", s.worlds)
			case s.workers < 0 || s.failures < 0 || s.notes < 0:
				return cli.Usagef("--workers, --failures and --notes cannot be negative")
			case cmd.Flags().Changed("seed") && !cmd.Flags().Changed("worlds"):
				return s.one(cmd)
			}
			return s.many(cmd)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&s.seed, "seed", 1, "`seed` of the first world; alone: play this world again")
	flags.IntVar(&s.worlds, "worlds", 100, "`number` of worlds")
	flags.IntVar(&s.workers, "workers", 0, "`number` of worlds played at once; 0: one for each processor")
	flags.IntVar(&s.failures, "failures", 1, "stop after this `number` of worlds with a violation; 0: never")
	flags.IntVar(&s.notes, "notes", 40, "`number` of last events to print of a world with a violation")
	flags.StringVar(&s.svg, "svg", "", "`file` for the picture of the first world with a violation")
	for _, name := range []string{"seed", "worlds", "workers", "failures", "notes"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	s.out.Register(cmd)
	return cmd
}

// list prints the protocols.
func (s *simulation) list(cmd *cobra.Command) error {
	type entry struct {
		Name  string `json:"name"`
		About string `json:"about"`
	}
	var entries []entry
	for _, p := range protocols() {
		entries = append(entries, entry{p.Name, p.About})
	}
	return s.out.Print(cmd.OutOrStdout(), entries, func() {
		tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
		fmt.Fprintln(tw, "PROTOCOL\tWHAT IS PLAYED")
		for _, e := range entries {
			fmt.Fprintf(tw, "%s\t%s\n", e.Name, e.About)
		}
		tw.Flush()
	})
}

// one plays the world of a seed again, with its picture.
func (s *simulation) one(cmd *cobra.Command) error {
	s.worlds = 1
	if err := s.many(cmd); err != nil || s.svg == "" {
		return err
	}
	w, _ := s.protocol.Replay(s.seed)
	return draw(s.svg, w.Timeline().SVG)
}

// many plays worlds, and the first again in which something was violated.
func (s *simulation) many(cmd *cobra.Command) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	start := time.Now()
	line := cli.NewProgress(os.Stderr, s.worlds, "worlds")
	r, err := sim.Run(ctx, sim.Options{
		Protocol: s.protocol, First: s.seed, Worlds: s.worlds, Workers: s.workers, Failures: s.failures, Progress: line.Show,
	})
	line.Clear()
	report := simReport{
		Protocol: s.protocol.Name, Seed: s.seed, Worlds: r.Worlds, Failures: []simFailure{}, Counters: r.Counters,
		Elapsed: time.Since(start).Seconds(), Hash: fmt.Sprintf("%016x", r.Hash),
	}
	for _, f := range r.Failures {
		report.Failures = append(report.Failures, simFailure{f.Seed, f.Err.Error()})
	}
	if err := s.out.Print(cmd.OutOrStdout(), report, func() { report.table(cmd.OutOrStdout()) }); err != nil {
		return err
	}
	if err != nil {
		return cli.Exit(cli.ExitSignal+int(syscall.SIGINT), err)
	}
	if len(r.Failures) > 0 {
		return s.explain(cmd.ErrOrStderr(), r.Failures[0])
	}
	return nil
}

// explain replays a world in which something was violated, and shows it.
func (s *simulation) explain(w io.Writer, f sim.Failure) error {
	world, _ := s.protocol.Replay(f.Seed)
	fmt.Fprintf(w, "\nseed %d, the last events up to the violation:\n%s\n\n", f.Seed, strings.Join(world.Clues(s.notes), "\n"))
	path := s.svg
	if path == "" {
		path = fmt.Sprintf("%s-%d.svg", s.protocol.Name, f.Seed)
	}
	if err := draw(path, world.Timeline().SVG); err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		path = "." + string(filepath.Separator) + path
	}
	fmt.Fprintf(w, "picture: %s\nagain:   tenure-lab sim %s --seed %d\n", path, s.protocol.Name, f.Seed)
	return cli.Exit(cli.ExitFailure, fmt.Errorf("%s, seed %d: %w", s.protocol.Name, f.Seed, f.Err))
}

func (r simReport) table(w io.Writer) {
	seeds := fmt.Sprintf("seed %d", r.Seed)
	if r.Worlds > 1 {
		seeds = fmt.Sprintf("seeds %d to %d", r.Seed, r.Seed+uint64(r.Worlds)-1)
	}
	found := "nothing was violated"
	if n := len(r.Failures); n > 0 {
		found = fmt.Sprintf("VIOLATIONS in %d", n)
	}
	fmt.Fprintf(w, "%s, %s: %d worlds in %.1f s, %s\n", r.Protocol, seeds, r.Worlds, r.Elapsed, found)
	for _, f := range r.Failures {
		fmt.Fprintf(w, "  seed %d: %s\n", f.Seed, f.Error)
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(r.Counters)) {
		fmt.Fprintf(tw, "  %s\t%d\n", name, r.Counters[name])
	}
	fmt.Fprintf(tw, "  trace hash\t%s\n", r.Hash)
	tw.Flush()
}
