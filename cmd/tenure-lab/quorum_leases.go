package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/widearea"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

func quorumLeasesCommand() *cobra.Command {
	b := quorumLeasesBench{plan: widearea.FullPlan}
	var quick bool
	cmd := &cobra.Command{
		Use:   "quorum-leases",
		Short: "Read leases over a wide area, simulated: the paper's evaluation beside ours",
		Long: `Runs the evaluation of Paxos Quorum Leases (SoCC 2014, section 5) over the product's
own replicas in simulated time: five of them in Japan, California (the leader), Oregon,
Virginia and Ireland, with ten clients each, which read and write 100,000 keys, and
links as long as in the paper's Table 1. Measured are, for each policy of read leases,

  - how long reads and writes take at each site (Figure 6), with keys that are popular
    at one site each and with keys that are equally likely,
  - how many reads take less than 10 ms if nine of ten operations read (Table 2),
  - how long both take on three keys at once, which go together or are leased apart (5.5),
  - how long writes stall when a replica dies, the leader or another (Figure 7), and
    what the length of leases has to do with it,
  - the same under the paper's own protocol, which the product has for this comparison
    only: promises that are pushed, with a guard and a grace period (section 3.8). It
    is measured if the policies quorum/key and all/key are.
  - how much a local cluster can do, by a model of what replicas' processors take (Figure 8).

A full run has 2,500,000 operations a policy, which take up to half an hour each; --quick shows
in seconds that it works. A seed always gives the same figures. Each operation is
judged as well: "stale" counts those that missed an earlier one, and has to be 0.

With --real each policy also runs for a minute over five real members in this process,
with links that take as long, beside a minute of simulated time; the report says by how
much the two differ. What else the machine does is in that.`,
		Example: `  tenure-lab quorum-leases --quick
  tenure-lab quorum-leases --html report.html --svg figures
  tenure-lab quorum-leases --policy leader,all --lease 1s -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if quick {
				asked := b.plan
				b.plan = widearea.QuickPlan
				b.plan.Seed, b.plan.Policies, b.plan.Length = asked.Seed, asked.Policies, asked.Length
			}
			if err := b.check(); err != nil {
				return err
			}
			return b.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&b.html, "html", "", "write the report with all figures to this `file`")
	cmd.Flags().StringVar(&b.svg, "svg", "", "draw each figure to a file in this `directory`")
	cmd.Flags().Uint64Var(&b.plan.Seed, "seed", 1, "of the simulated worlds")
	cmd.Flags().StringSliceVar(&b.plan.Policies, "policy", widearea.AllPolicies, "policies of read leases to measure")
	cmd.Flags().DurationVar(&b.plan.Length, "lease", 0, "how long read leases last (`duration`); 0: as shipped")
	cmd.Flags().BoolVar(&quick, "quick", false, "few operations: it shows that it works, and no figures to go by")
	cmd.Flags().BoolVar(&b.real, "real", false, "run each policy over real members in real time as well, as a check")
	cmd.Flags().DurationVar(&b.realTime, "real-time", time.Minute, "how long that takes for each policy (`duration`)")
	b.output.Register(cmd)
	return cmd
}

// quorumLeasesBench is the plan of a run.
type quorumLeasesBench struct {
	plan      widearea.Plan
	real      bool
	realTime  time.Duration
	html, svg string
	output    cli.Output
}

// check refuses what would fail later, perhaps after hours.
func (b *quorumLeasesBench) check() error {
	if l := b.plan.Length; l != 0 && (l < quorumlease.MinTTL || l > quorumlease.MaxTTL) {
		return cli.Usagef("--lease %v: want from %v to %v, as a member has it, or 0 for leases as shipped", l, quorumlease.MinTTL, quorumlease.MaxTTL)
	}
	if b.realTime < 3*time.Second {
		return cli.Usagef("--real-time %v: want 3 s at least, and a minute for figures to go by", b.realTime)
	}
	if b.svg != "" {
		if err := os.MkdirAll(b.svg, 0o755); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
		probe, err := os.CreateTemp(b.svg, ".tenure")
		if err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
		probe.Close()
		if err := os.Remove(probe.Name()); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	if b.html != "" {
		// The output of an earlier run stays until there is something in its place.
		f, err := os.OpenFile(b.html, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return fmt.Errorf("--html: %w", err)
		}
		return f.Close()
	}
	return nil
}

// run measures, prints and draws. Measuring took long: the results are printed before anything
// else can go wrong, and in spite of all that went wrong meanwhile.
func (b *quorumLeasesBench) run(ctx context.Context, w io.Writer) error {
	var line *cli.Progress
	b.plan.Progress = func(what string, done, of int) {
		if line == nil {
			line = cli.NewProgress(os.Stderr, of, "")
		}
		line.What = "operations (now: " + what + ")"
		line.Show(done, 0)
	}
	report, err := b.plan.Evaluate()
	if line != nil {
		line.Clear()
	}
	if len(report.Measured.Runs) == 0 {
		return err
	}
	if err != nil {
		err = fmt.Errorf("this is not all: %w", err)
	}
	if b.real && err == nil {
		if report.Real, err = realRuns(ctx, b.plan, b.realTime); err != nil {
			err = fmt.Errorf("in real time: %w", err)
		}
	}
	return errors.Join(
		b.output.Print(w, report, func() { quorumLeasesTable(w, report) }),
		drawReport(report, b.html, b.svg),
		err)
}

// drawReport writes the report and the figures where they are wanted.
func drawReport(r widearea.Report, html, svg string) error {
	if html == "" && svg == "" {
		return nil
	}
	figures, err := quorumLeasesFigures(r)
	if err != nil {
		return err
	}
	if svg != "" {
		for _, f := range figures {
			if err := os.WriteFile(filepath.Join(svg, f.name+".svg"), f.svg, 0o644); err != nil {
				return fmt.Errorf("draw the figures: %w", err)
			}
		}
	}
	if html == "" {
		return nil
	}
	var b bytes.Buffer
	if err := quorumLeasesHTML(&b, r, figures); err != nil {
		return err
	}
	if err := os.WriteFile(html, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// quorumLeasesTable prints the most important figures: for each policy and site the share of
// local reads, the time of operations, and the cost of a death.
func quorumLeasesTable(w io.Writer, r widearea.Report) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	for i, o := range r.Measured.Runs {
		if i == 0 {
			fmt.Fprintf(tw, "WORKLOAD\tPOLICY\t\t%s\tMEAN OPERATION\tSTALE\tFAILED\t\n", strings.Join(widearea.Sites[:], "\t"))
		}
		row := func(first, what string, of func(widearea.SiteOutcome) string, rest string) {
			fmt.Fprintf(tw, "%s\t%s\t", first, what)
			for _, s := range o.Sites {
				fmt.Fprintf(tw, "%s\t", of(s))
			}
			fmt.Fprintf(tw, "%s\t\n", rest)
		}
		row(o.Workload+"\t"+o.Policy, "reads < 10 ms", func(s widearea.SiteOutcome) string { return percent(s.Reads.Under10) }, fmt.Sprintf("%.1f ms\t%d\t%d", o.Mean, o.Stale, o.Failed))
		row("\t", "mean read", func(s widearea.SiteOutcome) string { return fmt.Sprintf("%.1f ms", s.Reads.Mean) }, "\t\t")
		row("\t", "mean write", func(s widearea.SiteOutcome) string { return fmt.Sprintf("%.1f ms", s.Writes.Mean) }, "\t\t")
		row("\t", "writes at minimum", func(s widearea.SiteOutcome) string { return atMinimum(r, s) }, "\t\t")
	}
	tw.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(tw, "DEATH AT\tPOLICY\tLEASE\tDEATHS\tSTALL, KEYS READ THERE\tOTHER KEYS\tLOCAL READS BEFORE\tSTALE\tFAILED\t")
	for _, t := range append(r.Measured.Deaths, r.Measured.Sweep...) {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%.2f s (max %.2f s)\t%.2f s (max %.2f s)\t%s\t%d\t%d\t\n",
			t.Site, t.Policy, leaseLength(t.Length), t.Deaths, t.Held.Stall, t.Held.MaxStall, t.Other.Stall, t.Other.MaxStall, percent(t.Local), t.Stale, t.Failed)
	}
	tw.Flush()
	fmt.Fprintln(w)
	printControls(w, r)
	printShifts(w, r)
	fmt.Fprintln(tw, "LOCAL CLUSTER\tPOLICY\tA SECOND\t95 % CONFIDENCE\tLEADER BUSY\tOTHERS BUSY\tSTALE\tFAILED\t")
	for _, t := range r.Measured.Throughput {
		fmt.Fprintf(tw, "%s\t%s\t%.0f\t%.0f to %.0f\t%s\t%s\t%d\t%d\t\n", t.What, throughputName(t), t.Mean, t.Low, t.High, percent(t.Leader), percent(t.Others), t.Stale, t.Failed)
	}
	tw.Flush()
	fmt.Fprintln(w)
	tw = tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "\tTHE PAPER\tHERE")
	for _, s := range statementRows(r) {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", s.What, s.Paper, s.Here)
	}
	tw.Flush()
	realTable(w, r.Real)
	for _, l := range r.Measured.LeftOut {
		fmt.Fprintln(w, "left out:", l.Why)
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// atMinimum prints how many writes took the least time, if that was measured.
func atMinimum(r widearea.Report, s widearea.SiteOutcome) string {
	if r.Measured.MinimumOf == "" {
		return "-"
	}
	return percent(s.AtMinimum)
}

// leaseLength names a length of leases, of which 0 is the product's own.
func leaseLength(seconds float64) string {
	if seconds == 0 {
		return "as shipped"
	}
	return fmt.Sprintf("%g s", seconds)
}

// statementRow is a figure of the paper's text, and ours.
type statementRow struct{ Where, What, Paper, Here string }

func statementRows(r widearea.Report) (rows []statementRow) {
	measured := map[string]widearea.Finding{}
	for _, s := range r.Measured.Statements {
		measured[s.ID] = s
	}
	for _, s := range r.Paper.Statements {
		row := statementRow{s.Where, s.What, s.Text, "not measured"}
		if m, ok := measured[s.ID]; ok {
			switch m.Unit {
			case "share":
				row.Here = percent(m.Value)
			case "times":
				row.Here = fmt.Sprintf("%.1f times", m.Value)
			default:
				row.Here = fmt.Sprintf("%.2f %s", m.Value, m.Unit)
			}
			if m.Under != "" {
				row.Here += " (" + m.Under + ")"
			}
		}
		rows = append(rows, row)
	}
	return rows
}
