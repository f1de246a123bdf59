// Command survivors breaks a package in every place that it knows how to, and prints the breaks that
// tests do not notice. Each is a rule without a test, or changes nothing that can be seen.
//
//	go run ./internal/lab/survivors ./internal/host/peer    # judged by peer's own tests
//	go run ./internal/lab/survivors -files 'lanes|keylease' ./internal/core/replica ./internal/lab/replicasim
//	go run ./internal/lab/survivors -n 40 -seed 7 -run TestScripts ./internal/core/replica ./internal/lab/replicasim
//	go run ./internal/lab/survivors -bugs DIR ./internal/host/peer ./internal/member/node    # bugs that a person wrote down
//
// The first package is broken; the tests of all that are named judge. All breaks are built into
// one program for each package of tests, and a file selects one of them. A break is judged by
// the tests that reach it, the quick ones first.
//
// Planted bugs (package internal/lab/mutant) are rules that a person thought of; this finds others.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var s survey
	flag.IntVar(&s.n, "n", 0, "try so many `breaks`, which the seed draws; 0: all")
	flag.Uint64Var(&s.seed, "seed", 1, "which breaks: another seed draws others")
	flag.DurationVar(&s.each, "each", 20*time.Second, "how long the tests of one break may take together; slow ones beyond that are left out")
	flag.StringVar(&s.run, "run", "", "the tests that judge: those whose names match this `regexp`")
	flag.StringVar(&s.bugs, "bugs", "", "try the bugs of this `directory` instead: files as those of testdata/mutants, without their second and third lines")
	flag.StringVar(&s.files, "files", "", "break only files whose names match this `regexp`; with -bugs, try only those bugs")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage: survivors [flags] PACKAGE [PACKAGE...]\n\nBreaks the first package, and prints the breaks that no test notices.\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := s.survive(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "survivors:", err)
		os.Exit(1)
	}
}

// survey is the breaks that are tried, and the tests that judge them: the flags have the meaning of each.
type survey struct {
	n                int
	seed             uint64
	each             time.Duration
	run, bugs, files string
}

// survive tries breaks, and prints each that is not noticed by an assertion, and the counts.
func (s survey) survive(ctx context.Context, dirs []string) error {
	only, err := regexp.Compile(s.files)
	if err != nil {
		return fmt.Errorf("-files: %w", err)
	}
	wanted, err := regexp.Compile(s.run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	temp, err := os.MkdirTemp("", "survivors")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	var b *broken
	if s.bugs != "" {
		b, err = weaveBugs(s.bugs, only)
	} else {
		b, err = breakPackage(dirs[0], only)
	}
	if err != nil {
		return err
	}
	trial, err := prepare(ctx, temp, dirs, b, wanted)
	if err != nil {
		return err
	}
	list := b.breaks
	if s.n > 0 && s.n < len(list) {
		rand.New(rand.NewPCG(s.seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:s.n]
	}
	fmt.Printf("%d breaks for %s, %d tests of %v\n", len(list), dirs[0], len(trial.tests), trial.took().Round(time.Second))
	counts, tried := map[verdict]int{}, 0
	for _, br := range list {
		v, err := trial.judge(ctx, br, s.each)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		counts[v]++
		tried++
		if v != failed {
			fmt.Printf("%-9s %s %s\n", v, br.where, br.what)
		}
	}
	fmt.Printf("%d tried: %d noticed by an assertion, %d by a panic, %d by the end of their time; %d lived, %d lived as far as there was time, no test reaches %d\n",
		tried, counts[failed], counts[panicked], counts[hung], counts[lived], counts[partly], counts[unreached])
	return nil
}
