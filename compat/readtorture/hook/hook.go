// Package hook is what the members that are tortured have and Tenure has not: a clock of
// another rate, a disk that is slow, and pauses between what a reader does. It is laid
// over Tenure's sources when they are built (see package readtorture), and does nothing
// unless the environment says so.
//
//	TORTURE_PPM   by how many millionths the clock is fast
//	TORTURE_TAIL  bytes of the log that are kept in memory, and so between snapshots
//	TORTURE_FILE  a file that says, as long as it is there, what else is to be done:
//	              "sync=50ms pause=100ms odds=20"
package hook

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var (
	ppm = number("TORTURE_PPM")
	// began is the first reading of the clock, which is right: the rate of a life is its own.
	began atomic.Int64

	syncs, pauses, odds atomic.Int64
)

// lookEvery is how soon what the file says is known.
const lookEvery = 5 * time.Millisecond

func init() {
	if path := os.Getenv("TORTURE_FILE"); path != "" {
		go func() {
			for ; ; time.Sleep(lookEvery) {
				text, _ := os.ReadFile(path) // none says nothing
				obey(string(text))
			}
		}()
	}
}

func number(name string) int64 {
	n, err := strconv.ParseInt(os.Getenv(name), 10, 64)
	if err != nil && os.Getenv(name) != "" {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	return n
}

// obey takes what the file says.
func obey(text string) {
	sync, pause, once := int64(0), int64(0), int64(1)
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		d, _ := time.ParseDuration(value)
		switch name {
		case "sync":
			sync = int64(d)
		case "pause":
			pause = int64(d)
		case "odds":
			n, _ := strconv.ParseInt(value, 10, 64)
			once = max(n, 1)
		}
	}
	syncs.Store(sync)
	pauses.Store(pause)
	odds.Store(once)
}

// Drift makes the reading of this member's clock of the kernel's, in nanoseconds.
func Drift(kernel int64) int64 {
	began.CompareAndSwap(0, kernel)
	from := began.Load()
	return kernel + drifted(kernel-from, ppm)
}

// Undrift is the reading of the kernel's clock at which Drift is what is given, or one
// just before.
func Undrift(reading int64) int64 {
	from := began.Load()
	if ppm == 0 || from == 0 || reading < from {
		return reading
	}
	return from + int64(float64(reading-from)/(1+float64(ppm)/1e6))
}

func drifted(span, ppm int64) int64 { return int64(float64(span) * float64(ppm) / 1e6) }

// Disk takes the time of a slow disk's sync: the time that is set, or up to twice as long.
func Disk() {
	if d := syncs.Load(); d > 0 {
		time.Sleep(time.Duration(d + rand.Int64N(d)))
	}
}

// Pause stops the caller, once in a while and for up to as long as is set. It returns
// true, to stand in a condition.
func Pause() bool {
	if d := pauses.Load(); d > 0 && rand.Int64N(odds.Load()) == 0 {
		time.Sleep(time.Duration(rand.Int64N(d)))
	}
	return true
}

// Tail is how many bytes of the log are kept in memory, if that is set.
func Tail(otherwise int) int {
	if n := number("TORTURE_TAIL"); n > 0 {
		return int(n)
	}
	return otherwise
}
