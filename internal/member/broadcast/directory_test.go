package broadcast

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/lab/golden"
	"github.com/tenure-lease/tenure/internal/lab/patience"
)

// calls are the calls of a disk in one life of a directory, each at its time.
type calls struct {
	mu     sync.Mutex
	began  time.Time
	fails  int // the call that fails; 0: none
	list   []string
	ignore bool
}

func (c *calls) fault(op, path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ignore {
		return nil
	}
	c.list = append(c.list, fmt.Sprintf("%v %s %s", time.Since(c.began), op, strings.TrimPrefix(path, "/")))
	if len(c.list) == c.fails {
		return errBroken
	}
	return nil
}

func (c *calls) take(from int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list[from:]
}

// lifeOfADirectory plays the life of a directory of one member: what each step does to the disk, and what comes of it.
// If fails is not 0, the call of the disk with that number fails, and only the outcome is written.
func lifeOfADirectory(t *testing.T, fails int) (all []string, outcome string) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		all, outcome = nil, ""
		c := &calls{began: time.Now(), fails: fails}
		fs := waltest.NewDisk().FS()
		fs.Fault = c.fault
		var log bytes.Buffer
		cfg := aloneConfig(fs)
		cfg.Dir, cfg.MemoryBytes = "/d", 12_000
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		var n *Node
		payload := bytes.Repeat([]byte("x"), 5000) // more than a segment
		state := func() string {
			if n == nil {
				return "no node"
			}
			trimmed, last := n.history.bounds()
			n.mu.Lock()
			defer n.mu.Unlock()
			return fmt.Sprintf("delivered %d, memory has %d of %d bytes behind %d, history (%d %d], log from %d to %d and durable to %d, starts %d, numbers %d",
				n.ram+Position(len(n.log)), len(n.log), n.bytes, n.ram, trimmed, last, n.journal.log.FirstSeq(), n.journal.log.LastSeq(), n.journal.mark.Load(), n.journal.self.N, n.seq)
		}
		broadcasts := func(payload []byte) func() error {
			return func() error { _, err := n.Broadcast(patience.Soon(t), payload); return err }
		}
		ends := func() error { err := patience.Returns(t, "Close", n.Close); return err }
		over, ended := false, false
		for _, step := range []struct {
			name string
			do   func() error
		}{
			{"start", func() (err error) { n, err = Start(cfg); return err }},
			{"broadcast", broadcasts(payload)},
			{"broadcast", broadcasts(payload)},
			{"broadcast", broadcasts(payload)},
			{"broadcast", broadcasts(nil)},
			{"broadcast", broadcasts(payload)},
			{"snapshot of 3", func() error {
				return n.Snapshot(3, func(w io.Writer) error { _, err := io.WriteString(w, "three"); return err })
			}},
			{"a snapshot that its application gives up", func() error {
				return n.Snapshot(4, func(io.Writer) error { return errors.New("the application has no state") })
			}},
			{"trim to 3", func() error { return n.Trim(3) }},
			{"trim to 4", func() error { return n.Trim(4) }},
			{"two seconds", func() error { time.Sleep(2 * time.Second); return nil }},
			{"deliver", func() error {
				var got []Position
				for m, err := range n.Deliver(patience.Soon(t), 4) {
					if err != nil {
						return err
					}
					if got = append(got, m.Position); len(got) == 2 {
						break
					}
				}
				return nil
			}},
			{"install", func() error {
				at, r, err := n.Install()
				if err != nil {
					return err
				}
				defer r.Close()
				b, err := io.ReadAll(r)
				if at != 3 || string(b) != "three" {
					err = errors.Join(err, fmt.Errorf("%q is installed, of %d", b, at))
				}
				return err
			}},
			{"close", ends},
			{"start again", func() (err error) { n, err = Start(cfg); return err }},
			{"broadcast", broadcasts(payload)},
			{"snapshot of 6", func() error {
				return n.Snapshot(6, func(w io.Writer) error { _, err := io.WriteString(w, "six"); return err })
			}},
			{"trim to 6", func() error { return n.Trim(6) }},
			{"broadcast", broadcasts(nil)},
			{"close", ends},
			{"start behind the history's new beginning", func() (err error) { n, err = Start(cfg); return err }},
			{"close", ends},
			{"start without the log", func() (err error) {
				c.mu.Lock()
				c.ignore = true
				c.mu.Unlock()
				err = errors.Join(fs.Rename("/d/wal", "/gone/wal"), fs.Rename("/d/snap", "/gone/snap"))
				c.mu.Lock()
				c.ignore = false
				c.mu.Unlock()
				if err == nil {
					n, err = Start(cfg)
				}
				return err
			}},
		} {
			if n != nil && n.reason() != nil && step.name != "close" && !strings.HasPrefix(step.name, "start") {
				if ended {
					continue // all that follows fails so
				}
				ended = true
			}
			from := len(c.take(0))
			err := step.do()
			synctest.Wait()
			time.Sleep(100 * time.Millisecond) // what lingers is written
			all = append(all, "== "+step.name)
			all = append(all, c.take(from)...)
			if err != nil {
				all = append(all, "-> "+err.Error())
				outcome += fmt.Sprintf("\n\t%s: %s", step.name, strings.ReplaceAll(err.Error(), wrong, "…"))
			}
			if step.name == "close" {
				ended = false
			}
			if over = err != nil && strings.HasPrefix(step.name, "start"); over {
				break
			}
			all = append(all, "-> "+state())
		}
		if n != nil && !over {
			if err := ends(); err != nil {
				outcome += fmt.Sprintf("\n\tlast close: %v", err)
			}
		}
		if n != nil {
			n.Close()
		}
		if open := fs.Open(); len(open) > 0 {
			outcome += fmt.Sprintf("\n\tleft open: %q", open)
		}
		for line := range strings.Lines(log.String()) {
			all = append(all, "log: "+strings.TrimSpace(line))
			outcome += "\n\tlog: " + strings.TrimSpace(line)
		}
	})
	return all, outcome
}

// Each step in the life of a directory makes these calls of the disk at these times. A call that fails has this outcome, at
// whichever step.
func TestLifeOfADirectory(t *testing.T) {
	const file = "testdata/directory.txt"
	steps, outcome := lifeOfADirectory(t, 0)
	var got strings.Builder
	at, from, last := 0, 1, ""
	var fails []string
	for _, call := range steps {
		if strings.HasPrefix(call, "== ") || strings.HasPrefix(call, "-> ") || strings.HasPrefix(call, "log: ") {
			fmt.Fprintln(&got, call)
			continue
		}
		at++
		fmt.Fprintln(&got, at, call)
		_, failed := lifeOfADirectory(t, at)
		failed = beyond(failed, outcome)
		if failed != last && at > 1 {
			fails = append(fails, fmt.Sprintf("%d to %d:%s", from, at-1, last))
			from = at
		}
		last = failed
	}
	fails = append(fails, fmt.Sprintf("%d to %d:%s", from, at, last))
	fmt.Fprintf(&got, "\nIf no call fails:%s\n\nOtherwise besides, if one fails of the calls\n%s\n", outcome, strings.Join(fails, "\n"))
	golden.Lines(t, file, got.String())
}

// wrong is how package wal goes on behind what it was doing.
const wrong = ": the log cannot be written: the disk is broken; this process has to end, and to be started again once the disk is well"

// beyond is what an outcome has beside a usual one.
func beyond(outcome, usual string) (lines string) {
	for line := range strings.SplitSeq(outcome, "\n\t") {
		if line != "" && !strings.Contains(usual, line) {
			lines += "\n\t" + line
		}
	}
	return lines
}
