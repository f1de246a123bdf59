package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/chart"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/fleasescale"
)

func fleaseScaleCommand() *cobra.Command {
	var o cli.Output
	var svg string
	var peers []int
	run := fleasescale.Run{Costs: fleasescale.ServiceTimes, Time: 30 * time.Millisecond}
	cmd := &cobra.Command{
		Use:   "flease-scale",
		Short: "Leases a second against the number of Flease peers, simulated",
		Long: `Lets clusters of 3 to 1,000 Flease peers acquire and give back leases as fast as they
can, in simulated time: each peer keeps claims under way for resources whose names are
drawn from ten million (so many may be named; few of them are held at any moment, and
what is idle takes nothing), and its one processor takes time for each frame and each operation
that comes or goes, as measured on a real machine. Names are spread over cells of three
by themselves. Shown are the leases that all peers together are granted, how long one
takes, and how many operations share a frame: fewer, the more peers there are.

A thousand peers take some minutes. A seed always gives the same figures.`,
		Example: "  tenure-lab flease-scale\n  tenure-lab flease-scale --peers 3,100 -o json\n  tenure-lab flease-scale --svg scale.svg",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(peers) == 0 || slices.Min(peers) < 1 || slices.Max(peers) > fleasescale.MaxPeers {
				return cli.Usagef("--peers %v: name numbers of peers from 1 to %d", peers, fleasescale.MaxPeers)
			}
			if run.UnderWay < 1 || run.Resources < 1 {
				return cli.Usagef("%d claims of %d resources: there have to be some", run.UnderWay, run.Resources)
			}
			rates := []fleasescale.Rate{}
			for _, n := range peers {
				fmt.Fprintf(cmd.ErrOrStderr(), "\r%d peers ", n)
				run.Peers = n
				r, err := run.Play()
				if err != nil {
					return fmt.Errorf("%d peers: %w", n, err)
				}
				rates = append(rates, r)
			}
			fmt.Fprintln(cmd.ErrOrStderr())
			if svg != "" {
				if err := drawScale(svg, rates); err != nil {
					return err
				}
			}
			return o.Print(cmd.OutOrStdout(), rates, func() { scaleTable(cmd.OutOrStdout(), rates) })
		},
	}
	cmd.Flags().IntSliceVar(&peers, "peers", []int{3, 10, 30, 100, 300, 1000}, "sizes of the cluster")
	cmd.Flags().IntVar(&run.UnderWay, "claims", 256, "that each peer keeps under way")
	cmd.Flags().IntVar(&run.Resources, "resources", 10_000_000, "from whose names claims draw; it is no number of leases that are held")
	cmd.Flags().StringVar(&svg, "svg", "", "draw it to this `file`")
	cmd.Flags().Uint64Var(&run.Seed, "seed", 1, "of the simulated worlds")
	o.Register(cmd)
	return cmd
}

func scaleTable(w io.Writer, rates []fleasescale.Rate) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "PEERS\tLEASES/S\tA PEER\tLATENCY\tOPERATIONS/FRAME\tBUSY\tBUSIEST\tREFUSED/S\t")
	for _, r := range rates {
		fmt.Fprintf(tw, "%d\t%.0f\t%.0f\t%.1f ms\t%.1f\t%.0f %%\t%.0f %%\t%.0f\t\n",
			r.Peers, r.PerSecond, r.PerSecond/float64(r.Peers), r.Latency, r.Ops, 100*r.Busy, 100*r.Busiest, r.Refused)
	}
	tw.Flush()
}

func drawScale(path string, rates []fleasescale.Rate) error {
	c := chart.Chart{
		Title: "Flease: leases a second against peers, cells of three, ten million resources",
		X:     "peers", Y: "leases a second",
		Lines: []chart.Line{{Name: "all peers"}, {Name: "each"}},
	}
	for _, r := range rates {
		n := float64(r.Peers)
		c.Lines[0].Points = append(c.Lines[0].Points, [2]float64{n, r.PerSecond})
		c.Lines[1].Points = append(c.Lines[1].Points, [2]float64{n, r.PerSecond / n})
	}
	return draw(path, c.SVG)
}
