package file

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// noted is a file system that notes each call, and lets one fail.
type noted struct {
	FS
	dir   string
	fails string // the call that fails, and which of its kind; "": none

	mu    sync.Mutex // handles are looked at side by side
	calls []string
	times map[string]int    // of each call
	fell  bool              // the call that fails has come
	names map[string]string // of handles, by the numbers that are drawn
	open  map[string]int
}

// name is a path within the store, with handles counted in the order in which they come.
func (n *noted) name(path string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	path = strings.TrimPrefix(strings.TrimPrefix(path, n.dir), "/")
	base := filepath.Base(path)
	id := strings.TrimSuffix(base, temporary)
	if strings.HasPrefix(id, headerName+".") {
		return headerName + ".*" + temporary
	}
	if b, err := hex.DecodeString(id); err != nil || len(b) < 8 {
		return path
	}
	if n.names[id] == "" {
		n.names[id] = fmt.Sprintf("handle%d", len(n.names)+1)
	}
	return strings.Replace(path, id, n.names[id], 1)
}

var errNoted = fmt.Errorf("this call fails: %w", syscall.EIO)

func (n *noted) note(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, call)
	n.times[call]++
	if fmt.Sprint(call, n.times[call]) == n.fails {
		n.fell = true
		return errNoted
	}
	return nil
}

// flagsOf are the names of flags with which a file is opened.
func flagsOf(flags int) (all string) {
	all = [...]string{"read", "write", "read and write"}[flags&3]
	for _, f := range []struct {
		flag int
		name string
	}{{os.O_CREATE, "create"}, {os.O_EXCL, "new"}, {os.O_TRUNC, "empty"}, {os.O_SYNC, "sync"}, {unix.O_NONBLOCK, "at once"}, {unix.O_DIRECT, "direct"}} {
		if f.flag != 0 && flags&f.flag == f.flag {
			all += ", " + f.name
		}
	}
	return all
}

func (n *noted) Open(path string, flags int, perm fs.FileMode) (File, error) {
	if err := n.note("open %s: %s, %v", n.name(path), flagsOf(flags), perm); err != nil {
		return nil, err
	}
	// The directory of a test may be on a file system without direct I/O, and need not outlive a loss of power.
	f, err := n.FS.Open(path, flags&^(unix.O_DIRECT|os.O_SYNC), perm)
	if err != nil {
		return nil, err
	}
	n.opened(path, 1)
	return &notedFile{f, n, path}, nil
}

func (n *noted) Names(dir string) ([]string, error) {
	if err := n.note("names of %s", n.name(dir)); err != nil {
		return nil, err
	}
	return n.FS.Names(dir)
}

func (n *noted) Stat(path string) (Info, error) {
	if err := n.note("stat %s", n.name(path)); err != nil {
		return Info{}, err
	}
	return n.FS.Stat(path)
}

func (n *noted) Lstat(path string) (Info, error) {
	if err := n.note("lstat %s", n.name(path)); err != nil {
		return Info{}, err
	}
	return n.FS.Lstat(path)
}

func (n *noted) Mkdir(path string, perm fs.FileMode) error {
	if err := n.note("mkdir %s: %v", n.name(path), perm); err != nil {
		return err
	}
	return n.FS.Mkdir(path, perm)
}

func (n *noted) Chmod(path string, perm fs.FileMode) error {
	if err := n.note("chmod %s: %v", n.name(path), perm); err != nil {
		return err
	}
	return n.FS.Chmod(path, perm)
}

func (n *noted) Link(from, to string) error {
	if err := n.note("link %s to %s", n.name(from), n.name(to)); err != nil {
		return err
	}
	return n.FS.Link(from, to)
}

func (n *noted) Rename(from, to string) error {
	if err := n.note("rename %s to %s", n.name(from), n.name(to)); err != nil {
		return err
	}
	return n.FS.Rename(from, to)
}

func (n *noted) Remove(path string) error {
	if err := n.note("remove %s", n.name(path)); err != nil {
		return err
	}
	return n.FS.Remove(path)
}

func (n *noted) SyncDir(dir string) error {
	return n.note("sync the names of %s", n.name(dir))
}

func (n *noted) Writable(dir string) error {
	if err := n.note("writable %s", n.name(dir)); err != nil {
		return err
	}
	return n.FS.Writable(dir)
}

func (n *noted) Probe(path string) error { return n.note("probe %s", n.name(path)) }

// opened counts the openings of a file.
func (n *noted) opened(path string, more int) {
	name := n.name(path)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[name] += more; n.open[name] == 0 {
		delete(n.open, name)
	}
}

// perFile has the looks at files one file after the other, which are made side by side.
func perFile(calls []string) []string {
	of := func(call string) string {
		fields := strings.Fields(call)
		if len(fields) < 2 || !strings.Contains(" open read fstat close ", " "+fields[0]+" ") {
			return ""
		}
		return strings.TrimSuffix(fields[1], ":")
	}
	calls = slices.Clone(calls)
	for from := 0; from < len(calls); from++ {
		to := from
		for to < len(calls) && of(calls[to]) != "" {
			to++
		}
		slices.SortStableFunc(calls[from:to], func(a, b string) int { return strings.Compare(of(a), of(b)) })
		from = max(from, to)
	}
	return calls
}

type notedFile struct {
	File
	n    *noted
	path string
}

func (f *notedFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.n.note("read %s at %d: %d", f.n.name(f.path), off, len(p)); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *notedFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.n.note("write %s at %d: %d", f.n.name(f.path), off, len(p)); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *notedFile) Stat() (Info, error) {
	if err := f.n.note("fstat %s", f.n.name(f.path)); err != nil {
		return Info{}, err
	}
	return f.File.Stat()
}

func (f *notedFile) Sync() error {
	return f.n.note("sync %s", f.n.name(f.path))
}

func (f *notedFile) Close() error {
	f.n.opened(f.path, -1)
	f.n.note("close %s", f.n.name(f.path))
	return f.File.Close()
}

// lifeOfAStore plays the life of a directory with a store: the calls of each step, and what comes of it. If fails names one,
// that call fails, and of the outcome there are the errors of the steps from there on.
func lifeOfAStore(t *testing.T, single bool, fails string) (all []string, errs string) {
	b := &bench{t: t, dir: t.TempDir(), obsolete: map[string]bool{}}
	n := &noted{FS: OS, dir: b.dir, fails: fails, names: map[string]string{}, open: map[string]int{}, times: map[string]int{}}
	if err := os.Chmod(b.dir, 0o755); err != nil { // whatever the mask of this process
		t.Fatal(err)
	}
	opts := b.options()
	opts.FS = n
	var one, two, looks *Store
	said := func(err error) string { return n.said(err) }
	replies := func(s *Store, ops ...register.Op) error {
		if s == nil {
			return errors.New("it is not open")
		}
		for i, r := range s.Do(ops) {
			if r.Err != nil {
				return fmt.Errorf("%d: %w", i, r.Err)
			}
			if r.Value != nil {
				all = append(all, fmt.Sprintf("   %+v", r.Value))
			}
		}
		return nil
	}
	opens := func(s **Store, readOnly bool) func() error {
		return func() (err error) {
			opts.ReadOnly = readOnly
			*s, err = Open(b.dir, opts)
			return err
		}
	}
	closes := func(s **Store) func() error {
		return func() error {
			if *s == nil {
				return nil
			}
			return (*s).Close()
		}
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"init", func() error { return Init(b.dir, testHeader, InitOptions{SingleHost: single, FS: n}) }},
		{"init again", func() error { return Init(b.dir, testHeader, InitOptions{SingleHost: single, FS: n}) }},
		{"open", opens(&one, false)},
		{"query of nothing", func() error { return replies(one, query("x")) }},
		{"put", func() error { return replies(one, put("x", 1, 1, "one")) }},
		{"put in the same slot", func() error { return replies(one, put("x", 2, 1, "two")) }},
		{"two puts and a note", func() error {
			return replies(one, put("y", 1, 1, "yes"), put("z", 1, 2, "no"), note("x", 3, 1, "note"))
		}},
		{"query of all", func() error { return replies(one, query("x"), query("y"), query("z")) }},
		{"another opens", opens(&two, false)},
		{"another queries", func() error { return replies(two, query("x")) }},
		{"another puts", func() error { return replies(two, put("x", 4, 3, "four")) }},
		{"an onlooker opens", opens(&looks, true)},
		{"an onlooker queries", func() error { return replies(looks, query("x")) }},
		{"an onlooker puts", func() error { return replies(looks, put("x", 5, 4, "five")) }},
		{"names", func() error {
			if looks == nil {
				return nil
			}
			names, err := looks.Names()
			all = append(all, fmt.Sprintf("   %q", names))
			return err
		}},
		{"leave", func() error {
			b.obsolete["z"] = true
			return replies(one, leave("z", 2))
		}},
		{"put in the slot of one that left", func() error { return replies(one, put("w", 1, 1, "new")) }},
		{"another closes", closes(&two)},
		{"later a query tidies", func() error {
			b.clock.pass(2 * testWait)
			b.obsolete["x"] = true
			return replies(one, query("x"))
		}},
		{"later another one", func() error { b.clock.pass(2 * testWait); return replies(one, query("y")) }},
		{"the onlooker closes", closes(&looks)},
		{"close", closes(&one)},
	} {
		from := len(n.calls)
		all = append(all, "== "+step.name)
		err := step.do()
		if err != nil {
			all = append(all, "-> "+said(err))
			if fails == "" || n.fell {
				errs += "\n\t" + step.name + ": " + said(err)
			}
		}
		all = append(all, perFile(n.calls[from:])...)
	}
	if len(n.open) > 0 {
		errs += fmt.Sprintf("\n\tleft open: %v", n.open)
	}
	return all, errs
}

var drawnHeader = regexp.MustCompile(headerName + `\.[0-9a-f]+\` + temporary)

// said is an error without what is drawn.
func (n *noted) said(err error) string {
	text := drawnHeader.ReplaceAllString(strings.ReplaceAll(err.Error(), n.dir, "DIR"), headerName+".*"+temporary)
	for id, name := range n.names {
		text = strings.ReplaceAll(text, id, name)
	}
	return text
}

// Each step in the life of a store makes these calls of the file system in this order, with these flags, places and lengths. If one
// of them fails, the step has this error, and no file is left open.
func TestSystemCallsOfAStore(t *testing.T) {
	const file = "testdata/systemcalls.txt"
	var got strings.Builder
	for _, single := range []bool{false, true} {
		steps, usual := lifeOfAStore(t, single, "")
		fmt.Fprintf(&got, "==== a store of one host: %v\n", single)
		calls, from, last := 0, 1, ""
		var fails []string
		times := map[string]int{}
		for _, line := range steps {
			if strings.HasPrefix(line, "== ") || strings.HasPrefix(line, "-> ") || strings.HasPrefix(line, "   ") {
				fmt.Fprintln(&got, line)
				continue
			}
			calls++
			times[line]++
			fmt.Fprintln(&got, calls, line)
			if strings.HasPrefix(line, "close ") {
				continue // it is closed, whatever the error
			}
			_, errs := lifeOfAStore(t, single, fmt.Sprint(line, times[line]))
			beyond := ""
			for e := range strings.SplitSeq(errs, "\n\t") {
				if e != "" && !strings.Contains(usual, e) {
					beyond += "\n\t" + e
				}
			}
			if beyond != last && calls > 1 {
				fails = append(fails, fmt.Sprintf("%d to %d:%s", from, calls-1, last))
				from = calls
			}
			last = beyond
		}
		fails = append(fails, fmt.Sprintf("%d to %d:%s", from, calls, last))
		fmt.Fprintf(&got, "\nIf no call fails:%s\n\nOtherwise besides, if one fails of the calls\n%s\n\n", usual, strings.Join(fails, "\n"))
	}
	golden.Lines(t, file, got.String())
}
