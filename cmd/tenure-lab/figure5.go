package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/chart"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/abcastsim"
)

// figure5Report is the output of `tenure-lab figure5 -o json`: counts of simulated runs, the
// paper's figures, and measurements between real members.
type figure5Report struct {
	abcastsim.Figure5
	Measured []measuredRow `json:"measured"`
}

func figure5Command() *cobra.Command {
	var o cli.Output
	var svg, dir string
	var seed uint64
	var sizes []int
	var broadcasts int
	cmd := &cobra.Command{
		Use:   "figure5",
		Short: "Steps of consensus with and without asynchronous leases, counted",
		Long: `Reproduces Figure 5 of Dutta, Boichat and Guerraoui, "Asynchronous Leasing": how many
communication steps 100 instances of consensus take in a stable period, for leases of
1 to 100 instances, and without leases (CT96). They are counted message by message in
simulated runs of Tenure's atomic broadcast, and do not depend on delays.

Beside it: messages and bytes between members (8 bytes a number), of consensus and
leases, and how long a message of 100 bytes takes to be ordered, in simulated time (a
message takes 0.5 to 1.5 ms, a forced write up to 2 ms); one instance by itself; an
adaptive lease that begins with half of its greatest length, or with all of it; and what a
long lease costs if its holder dies.

Then each row is measured: --broadcasts messages of 100 bytes, one at a time, at a member
that does not lead, between real members in this process, over TCP on the loopback, each
with its log and fsync. Some more instances order nothing: the paper sends a message to
all, and a member may hear of the instance before it has the message. Messages and bytes
of consensus and leases are told apart from those that carry what is broadcast to all
(submits), and both from heartbeats, which have to do with time and not with broadcasts.
The frames that carry all three come last; pings of connections, two a second and stream,
are in no figure.`,
		Example: "  tenure-lab figure5\n  tenure-lab figure5 --members 3 -o json\n  tenure-lab figure5 --broadcasts 0 --svg figure5.svg",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, n := range sizes {
				if n < 3 || n > 15 {
					return cli.Usagef("--members %d: want groups of 3 to 15", n)
				}
			}
			if broadcasts < 0 {
				return cli.Usagef("--broadcasts %d: want a number of messages, or 0 to measure nothing", broadcasts)
			}
			counted, err := abcastsim.CountFigure5(seed, sizes...)
			if err != nil {
				return err
			}
			f := figure5Report{Figure5: counted, Measured: []measuredRow{}}
			for _, n := range sizes {
				crashes, err := abcastsim.CountCrashes(seed, 5, n, 1, 10, 20, 50, 100)
				if err != nil {
					return err
				}
				f.Crashes = append(f.Crashes, crashes...)
			}
			if svg != "" {
				if err := drawFigure5(svg, f.Figure5); err != nil {
					return err
				}
			}
			if broadcasts > 0 {
				if f.Measured, err = measureFigure5(cmd.Context(), dir, broadcasts, sizes); err != nil {
					return err
				}
			}
			return o.Print(cmd.OutOrStdout(), f, func() {
				figure5Tables(cmd.OutOrStdout(), f.Figure5)
				if broadcasts > 0 {
					measuredTable(cmd.OutOrStdout(), f.Measured)
				}
			})
		},
	}
	cmd.Flags().StringVar(&svg, "svg", "", "draw it to this `file`")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "of the simulated worlds")
	cmd.Flags().IntSliceVar(&sizes, "members", []int{3, 5, 7}, "sizes of the groups")
	cmd.Flags().IntVar(&broadcasts, "broadcasts", 100, "how many messages to measure over sockets, of each row; 0: none")
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` for the logs (default that of temporary files)")
	o.Register(cmd)
	return cmd
}

func figure5Tables(w io.Writer, f abcastsim.Figure5) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	printed := map[uint64]int{0: f.Paper[0].CT96}
	for _, p := range f.Paper {
		printed[p.Lambda] = p.FastCT
	}
	fmt.Fprintln(tw, "100 INSTANCES\tMEMBERS\tLAMBDA\tSTEPS\tPAPER\tLEASES\tMESSAGES\tBYTES\tLATENCY\t")
	for _, c := range f.Counted {
		fmt.Fprintf(tw, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%.2f ms\t\n", c.Algorithm, c.Members, lambdaName(c.Lambda), c.Steps, printed[c.Lambda], c.Leases, c.Messages, c.Bytes, c.Latency)
	}
	tw.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(tw, "ONE INSTANCE\tMEMBERS\tSTEPS\tPAPER\t")
	for _, c := range f.Alone {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t\n", c.Algorithm, c.Members, c.Steps, map[string]int{"fastct": 5, "ct96": 4}[c.Algorithm])
	}
	tw.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(tw, "ADAPTIVE LAMBDA <= 100\tMEMBERS\tBEGINS WITH\tSTEPS\tLEASES\t")
	for _, c := range f.Starts {
		fmt.Fprintf(tw, "%s\t%d\t%s\t%d\t%d\t\n", c.Algorithm, c.Members, c.Start, c.Steps, c.Leases)
	}
	tw.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(tw, "THE LEADER DIES\tMEMBERS\tLAMBDA\tTIMEOUT\tNEXT DELIVERY\tIN NORMAL MODE\tFAST AGAIN\t")
	for _, c := range f.Crashes {
		fmt.Fprintf(tw, "\t%d\t%d\t%.0f ms\t%.0f ms\t%d\t%.0f ms\t\n", c.Members, c.Lambda, c.Timeout, c.Gap, c.Normal, c.Until)
	}
	tw.Flush()
}

func lambdaName(lambda uint64) string {
	if lambda == 0 {
		return "-"
	}
	return fmt.Sprint(lambda)
}

// drawFigure5 draws steps against λ, counted and printed: they do not depend on the
// size of the group, so that the first one's are shown.
func drawFigure5(path string, f abcastsim.Figure5) error {
	c := chart.Chart{
		Title: "Figure 5: communication steps for 100 consensus instances", X: "λ, instances per lease", Y: "steps", LinearY: true,
		Lines: []chart.Line{{Name: "CT96, counted"}, {Name: "FastCT, counted"}, {Name: "FastCT, the paper", Shape: chart.Dots}, {Name: "NORMAL, leader dead"}},
	}
	n := f.Counted[0].Members
	ct96 := 0
	for _, x := range f.Counted {
		if x.Algorithm == "ct96" && x.Members == n {
			ct96 = x.Steps
		}
	}
	for _, x := range f.Counted {
		if x.Members == n && x.Lambda > 0 {
			at := float64(x.Lambda)
			c.Lines[0].Points = append(c.Lines[0].Points, [2]float64{at, float64(ct96)})
			c.Lines[1].Points = append(c.Lines[1].Points, [2]float64{at, float64(x.Steps)})
		}
	}
	for _, p := range f.Paper {
		c.Lines[2].Points = append(c.Lines[2].Points, [2]float64{float64(p.Lambda), float64(p.FastCT)})
	}
	for _, x := range f.Crashes {
		if x.Members == n {
			c.Lines[3].Points = append(c.Lines[3].Points, [2]float64{float64(x.Lambda), float64(x.Normal)})
		}
	}
	return draw(path, c.SVG)
}
