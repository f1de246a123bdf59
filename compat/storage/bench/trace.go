package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// accesses are what a program asked of the files below a path.
type accesses struct {
	Reads, Writes           int
	ReadBytes, WrittenBytes int64
	Others                  int // open, stat, list, close and the like
	first, last             float64
}

// span is the time from the beginning of the first to the end of the last.
func (a accesses) span() time.Duration {
	return time.Duration((a.last - a.first) * float64(time.Second))
}

func (a *accesses) add(b accesses, from, to float64) {
	a.Reads, a.Writes, a.Others = a.Reads+b.Reads, a.Writes+b.Writes, a.Others+b.Others
	a.ReadBytes, a.WrittenBytes = a.ReadBytes+b.ReadBytes, a.WrittenBytes+b.WrittenBytes
	if a.first == 0 {
		a.first = from
	}
	a.last = to
}

var errNoStrace = errors.New("strace is not installed: I/Os are not counted")

// trace runs a command under strace and returns what it did below a path, between
// the marks that it made; all is under "" if it made none.
func trace(ctx context.Context, cmd *exec.Cmd, path string) (map[string]accesses, error) {
	binary, err := exec.LookPath("strace")
	if err != nil {
		return nil, errNoStrace
	}
	f, err := os.CreateTemp("", "trace")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	args := append([]string{"-f", "-y", "-ttt", "-T", "-s", "64", "-o", f.Name(),
		"-e", "trace=%desc,%file,io_submit,io_getevents", "--", cmd.Path}, cmd.Args[1:]...)
	traced := exec.CommandContext(ctx, binary, args...)
	traced.Env = cmd.Env
	if _, err := spend(traced); err != nil {
		return nil, err
	}
	return readTrace(bufio.NewScanner(f), path), nil
}

const markPrefix = "bench mark: "

var (
	traceLine = regexp.MustCompile(`^(\d+) +(\d+\.\d+) (.*)$`)
	callName  = regexp.MustCompile(`^(\w+)\(`)
	duration  = regexp.MustCompile(`<(\d+\.\d+)>$`)
	returned  = regexp.MustCompile(`\) += (-?\d+)`)
	aio       = regexp.MustCompile(`IOCB_CMD_(PREAD|PWRITE)V?,.*?aio_nbytes=(\d+)`)
	marking   = regexp.MustCompile(markPrefix + `(\w*)`)
)

func readTrace(lines *bufio.Scanner, path string) map[string]accesses {
	lines.Buffer(nil, 1<<20)
	all := map[string]accesses{}
	type half struct {
		text string
		from float64
	}
	halves := map[string]half{} // by thread: calls that others interrupted
	phase := ""
	for lines.Scan() {
		m := traceLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		pid, text := m[1], m[3]
		from, _ := strconv.ParseFloat(m[2], 64)
		if begun, ok := strings.CutSuffix(text, " <unfinished ...>"); ok {
			halves[pid] = half{begun, from}
			continue
		}
		if strings.HasPrefix(text, "<... ") {
			_, rest, _ := strings.Cut(text, " resumed>")
			text, from = halves[pid].text+rest, halves[pid].from
		}
		if m := marking.FindStringSubmatch(text); m != nil {
			phase = m[1]
			continue
		}
		to := from
		if m := duration.FindStringSubmatch(text); m != nil {
			took, _ := strconv.ParseFloat(m[1], 64)
			to += took
		}
		a := all[phase]
		if b, ok := access(text, path); ok {
			a.add(b, from, to)
		} else if strings.HasPrefix(text, "io_getevents(") && a.first != 0 {
			a.last = to // the end of what was submitted
		}
		all[phase] = a
	}
	return all
}

// access tells what a call did below a path.
func access(text, path string) (a accesses, ok bool) {
	m := callName.FindStringSubmatch(text)
	if m == nil || !strings.Contains(text, path) {
		return a, false
	}
	n := int64(0)
	if r := returned.FindStringSubmatch(text); r != nil {
		n, _ = strconv.ParseInt(r[1], 10, 64)
	}
	switch m[1] {
	case "io_submit":
		for _, cb := range aio.FindAllStringSubmatch(text, -1) {
			bytes, _ := strconv.ParseInt(cb[2], 10, 64)
			if cb[1] == "PREAD" {
				a.Reads, a.ReadBytes = a.Reads+1, a.ReadBytes+bytes
			} else {
				a.Writes, a.WrittenBytes = a.Writes+1, a.WrittenBytes+bytes
			}
		}
	case "read", "pread64", "preadv":
		a.Reads, a.ReadBytes = 1, max(n, 0)
	case "write", "pwrite64", "pwritev":
		a.Writes, a.WrittenBytes = 1, max(n, 0)
	case "execve", "epoll_ctl":
		return a, false
	default:
		a.Others = 1
	}
	return a, true
}
