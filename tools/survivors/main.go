// Command survivors breaks a package by chance, one place at a time, and prints the breaks that
// its tests do not notice. Each is a rule without a test, or changes nothing that can be seen.
//
//	cd tools && go run ./survivors ../peer                     # 25 breaks, judged by peer's own tests
//	go run ./survivors -n 40 -seed 7 ../replica ../sim/replicasim
//	go run ./survivors -run TestScripts -files 'lanes|keylease' ../replica ../sim/replicasim
//
// The first package is broken; the tests of all that are named judge. Planted bugs (package
// sim/mutant) are those rules that somebody thought of; this finds the others.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	n := flag.Int("n", 25, "how many `breaks` to try")
	seed := flag.Uint64("seed", 1, "which breaks: another seed draws others")
	each := flag.Duration("each", 3*time.Minute, "how long the tests may take for one break")
	run := flag.String("run", "", "the tests that judge, as for go test; all but TestMutants by default")
	files := flag.String("files", "", "break only files whose names match this `regexp`")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage: survivors [flags] PACKAGE [PACKAGE...]\n\nBreaks the first package by chance, and prints what the tests of all do not notice.\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	t := trial{dirs: flag.Args(), run: *run, each: *each}
	if err := survive(ctx, t, *n, *seed, *files); err != nil {
		fmt.Fprintln(os.Stderr, "survivors:", err)
		os.Exit(1)
	}
}

// survive tries n breaks that a seed draws, and prints each that lives and the counts.
func survive(ctx context.Context, t trial, n int, seed uint64, files string) error {
	only, err := regexp.Compile(files)
	if err != nil {
		return fmt.Errorf("-files: %w", err)
	}
	list, err := breaksIn(t.dirs[0], only)
	if err != nil {
		return err
	}
	fmt.Printf("%d places in %s\n", len(list), t.dirs[0])
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if t.temp, err = os.MkdirTemp("", "survivors"); err != nil {
		return err
	}
	defer os.RemoveAll(t.temp)
	if said, err := t.pass(ctx); err != nil {
		return fmt.Errorf("the tests fail without a break: %w\n%s", err, said)
	}
	counts := map[verdict]int{}
	tried := 0
	for _, b := range list {
		if tried == n || ctx.Err() != nil {
			break
		}
		began := time.Now()
		v, err := t.try(ctx, b)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
		counts[v]++
		if v == unbuilt {
			continue
		}
		tried++
		fmt.Printf("%3d %-8s %s:%d %s (%.0f s)\n", tried, v, filepath.Base(b.file), b.line, b.what, time.Since(began).Seconds())
	}
	fmt.Printf("%d tried: %d noticed by an assertion, %d by a panic, %d by the end of their time, %d lived; %d more did not build\n",
		tried, counts[failed], counts[panicked], counts[hung], counts[lived], counts[unbuilt])
	return nil
}
