package readtorture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// insideFault is a thing that is done by package hook, within a member.
type insideFault int

const (
	slowDisk insideFault = iota
	pauses
)

func (f insideFault) String() string { return [...]string{"slow disk", "pauses of readers"}[f] }

// insideAttack is a fault that is undone later.
type insideAttack struct {
	Wait   time.Duration
	Fault  insideFault
	Victim victim
	All    bool // at each member
	Length time.Duration
	Odds   int // of a pause: one in so many
	Last   time.Duration
}

func (a insideAttack) String() string {
	who := a.Victim.String()
	if a.All {
		who = "all"
	}
	return fmt.Sprintf("inside: after %v %v of %v at %s (1 in %d), for %v", a.Wait, a.Fault, a.Length, who, a.Odds, a.Last)
}

func insideAttacks(random *rand.Rand, total time.Duration) (attacks []insideAttack) {
	for sum := time.Duration(0); sum < total; {
		a := insideAttack{
			Wait: between(random, 50*ms, 1500*ms), Fault: insideFault(random.IntN(int(pauses) + 1)), Victim: drawVictim(random),
			All: random.IntN(5) == 0, Odds: 1 + random.IntN(30), Last: between(random, 300*ms, 3000*ms),
		}
		switch random.IntN(3) {
		case 0:
			a.Length = between(random, 1*ms, 20*ms)
		case 1:
			a.Length = between(random, 20*ms, 200*ms)
		case 2:
			a.Length = between(random, 200*ms, 1500*ms)
		}
		attacks = append(attacks, a)
		sum += a.Wait + a.Last
	}
	return attacks
}

// insideOf is the file that tells a member what to do.
func insideOf(dir string, member int) string {
	return filepath.Join(dir, fmt.Sprintf("m%d.inside", member))
}

// carryOut does it and undoes it.
func (a insideAttack) carryOut(ctx context.Context, c *cluster) (err error) {
	pause(ctx, a.Wait)
	hit := []int{a.Victim.of(ctx, c)}
	if a.All {
		hit = nil
		for i := range c.Members {
			hit = append(hit, i)
		}
	}
	text := fmt.Sprintf("pause=%v odds=%d", a.Length, a.Odds)
	if a.Fault == slowDisk {
		text = fmt.Sprintf("sync=%v", a.Length)
	}
	for _, i := range hit {
		// It appears as a whole.
		at := insideOf(c.dir, i)
		err = errors.Join(err, os.WriteFile(at+".new", []byte(text), 0o600), os.Rename(at+".new", at))
	}
	pause(ctx, a.Last)
	for _, i := range hit {
		if gone := os.Remove(insideOf(c.dir, i)); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	c.did(a.Fault)
	return err
}
