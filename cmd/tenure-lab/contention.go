package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/chart"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/diskleasesim"
)

func contentionCommand() *cobra.Command {
	var o cli.Output
	var svg string
	var seed uint64
	var term, delay time.Duration
	cmd := &cobra.Command{
		Use:   "contention",
		Short: "Storage leases against the number of contenders, simulated",
		Long: `Lets 1 to 1,000 processes contend for one storage lease, in simulated time: accesses
to the store take up to δ, most of them nearly that. Shown are the time until one of
them has a free lease, from a release to the next holder (the median of 20) and from
a holder's death to the next holder; how many accesses all of them together make per
tenure; and, beside it, the first time as the paper's Figure 2 has it, which waits
Δ+6δ at first sight and knows no queue.`,
		Example: "  tenure-lab contention\n  tenure-lab contention --term 10s --delay 100ms -o json\n  tenure-lab contention --svg contention.svg",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if delay <= 0 || term < 12*delay {
				return cli.Usagef("a term of %v is too short for a delay of %v: make it at least 12 times as long", term, delay)
			}
			contests := []diskleasesim.Contest{}
			for _, n := range []int{1, 2, 3, 10, 30, 100, 300, 1000} {
				contests = append(contests, diskleasesim.Contend(seed, n, term, delay))
				fmt.Fprintf(cmd.ErrOrStderr(), "\r%d contenders", n)
			}
			fmt.Fprintln(cmd.ErrOrStderr())
			if svg != "" {
				if err := drawContests(svg, contests, term, delay); err != nil {
					return err
				}
			}
			return o.Print(cmd.OutOrStdout(), contests, func() { contestTable(cmd.OutOrStdout(), contests) })
		},
	}
	cmd.Flags().StringVar(&svg, "svg", "", "draw it to this `file`")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "of the simulated worlds")
	cmd.Flags().DurationVar(&term, "term", 15*time.Second, "Δ, how long a lease lasts (`duration`)")
	cmd.Flags().DurationVar(&delay, "delay", 5*time.Millisecond, "δ, how long an access takes at most (`duration`)")
	o.Register(cmd)
	return cmd
}

func contestTable(w io.Writer, contests []diskleasesim.Contest) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "CONTENDERS\tFIRST\tHAND-OVER\tTAKE-OVER\tACCESSES/TENURE\tFIRST, FIGURE 2\t")
	for _, c := range contests {
		fmt.Fprintf(tw, "%d\t%.3f s\t%.3f s\t%.2f s\t%.0f\t%.2f s\t\n", c.Contenders, c.First, c.HandOver, c.TakeOver, c.Accesses, c.PlainFirst)
	}
	tw.Flush()
}

func drawContests(path string, contests []diskleasesim.Contest, term, delay time.Duration) error {
	c := chart.Chart{
		Title: fmt.Sprintf("Contention for a storage lease, Δ = %v, δ = %v", term, delay),
		X:     "contenders", Y: "seconds",
		Lines: []chart.Line{{Name: "first, Figure 2"}, {Name: "take-over"}, {Name: "hand-over"}, {Name: "first"}},
	}
	for _, x := range contests {
		for i, y := range []float64{x.PlainFirst, x.TakeOver, x.HandOver, x.First} {
			c.Lines[i].Points = append(c.Lines[i].Points, [2]float64{float64(x.Contenders), y})
		}
	}
	return draw(path, c.SVG)
}
