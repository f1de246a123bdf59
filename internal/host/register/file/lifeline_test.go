package file

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// lifelineStore makes and opens a store.
func lifelineStore(t *testing.T) (dir string, s *Store) {
	t.Helper()
	dir = t.TempDir()
	h := testHeader
	h.Of, h.Index = 1, 0
	if err := Init(dir, h, InitOptions{SingleHost: true}); err != nil {
		t.Fatal(err)
	}
	return dir, openStore(t, dir, nil)
}

func openStore(t testing.TB, dir string, sys FS) *Store {
	t.Helper()
	s, err := Open(dir, Options{Clock: clock.Now, FS: sys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

const thisBoot = "this boot"

var tiedID = machine.ID{1, 2, 3}

// holderEnv has the helper test be a holder: "dir" or "dir inherit".
const holderEnv = "TENURE_TEST_LIFELINE"

// TestLifelineHolder is not a test but the process of a holder, which others start and kill. It holds by
// stamp 3, and has a child.
func TestLifelineHolder(t *testing.T) {
	dir, inherit, _ := strings.Cut(os.Getenv(holderEnv), " ")
	if dir == "" {
		return
	}
	line, err := openStore(t, dir, nil).Lifelines(thisBoot, inherit != "").Tie(tiedID)
	if err != nil {
		t.Fatal(err)
	}
	for stamp := range uint64(3) {
		if err := line.Held(stamp + 1); err != nil {
			t.Fatal(err)
		}
	}
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("child", child.Process.Pid)
	select {}
}

// startHolder returns when the process holds.
func startHolder(t *testing.T, dir, inherit string) (holder *os.Process, child int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLifelineHolder$")
	cmd.Env = append(os.Environ(), holderEnv+"="+strings.TrimSpace(dir+" "+inherit))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if n, _ := fmt.Sscanf(lines.Text(), "child %d", &child); n == 1 {
			t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
			t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
			return cmd.Process, child
		}
	}
	t.Fatalf("the holder has ended before it held: %v", cmd.Wait())
	return nil, 0
}

// kill kills a child of ours, and returns when the kernel has closed its files.
func kill(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
}

// The end of a process is known of the stamp by which its claim has held last, and of no other, as soon as it
// has ended and not before. Its children are no part of it.
func TestTheEndOfAProcess(t *testing.T) {
	dir, s := lifelineStore(t)
	lines := s.Lifelines(thisBoot, false)
	holder, child := startHolder(t, dir, "")
	if lines.Ended(tiedID, 3) {
		t.Error("a holder that lives is said to have ended")
	}
	kill(t, holder)
	if !lines.Ended(tiedID, 3) {
		t.Error("a holder that was killed is not known to have ended")
	}
	for _, stamp := range []uint64{0, 1, 2, 4} {
		if lines.Ended(tiedID, stamp) {
			t.Errorf("the holder held by stamp 3, and is said to have held by %d last", stamp)
		}
	}
	if err := syscall.Kill(child, 0); err != nil {
		t.Errorf("the child does not live on, and shows nothing: %v", err)
	}
}

// A holder that is a process with its children has ended when they have, too.
func TestTheEndOfAFamily(t *testing.T) {
	dir, s := lifelineStore(t)
	lines := s.Lifelines(thisBoot, false)
	holder, child := startHolder(t, dir, "inherit")
	kill(t, holder)
	if lines.Ended(tiedID, 3) {
		t.Error("a holder whose child lives is said to have ended")
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !await(t, func() bool { return lines.Ended(tiedID, 3) }) { // the child is not ours, so nothing tells of its end
		t.Error("a holder whose child was killed, too, is not known to have ended")
	}
}

// await asks until the answer is yes. It gives up long after a process ends that was killed.
func await(t *testing.T, yes func() bool) bool {
	t.Helper()
	wait, cancel := clock.System.Alarm(clock.After(clock.System, 20e9)), false
	defer wait.Stop()
	for !yes() && !cancel {
		select {
		case <-wait.C:
			cancel = true
		default:
		}
	}
	return !cancel
}

// leftLifeline is what a holder by a stamp leaves that was killed.
func leftLifeline(t *testing.T, l *Lifelines, id machine.ID, stamp uint64) string {
	t.Helper()
	line, err := l.Tie(id)
	if err == nil {
		err = line.Held(stamp)
	}
	if err == nil {
		err = line.f.Close() // as the kernel does
	}
	if err != nil {
		t.Fatal(err)
	}
	return l.path(id)
}

// away is a file system that other machines write to as well.
type away struct{ FS }

type awayFile struct{ File }

func (awayFile) Local() bool { return false }

func (a away) Open(path string, flags int, perm fs.FileMode) (File, error) {
	f, err := a.FS.Open(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return awayFile{f}, nil
}

// Whatever is not the lifeline of that holder, as it has written it, proves nothing: others wait.
func TestWhatProvesNoEnd(t *testing.T) {
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		must(err)
		return b
	}
	for what, spoil := range map[string]func(dir, path string, l *Lifelines) *Lifelines{
		"another boot": func(dir, _ string, _ *Lifelines) *Lifelines {
			return openStore(t, dir, nil).Lifelines("another boot", false)
		},
		"a network's file system": func(dir, _ string, _ *Lifelines) *Lifelines {
			return openStore(t, dir, away{OS}).Lifelines(thisBoot, false)
		},
		"another set": func(_, _ string, l *Lifelines) *Lifelines {
			l.set = machine.ID{9}
			return l
		},
		"a copy": func(_, path string, _ *Lifelines) *Lifelines {
			b := read(path)
			must(os.Rename(path, path+".was"), os.WriteFile(path, b, 0o600))
			return nil
		},
		"the file of another claim": func(_, path string, l *Lifelines) *Lifelines {
			must(os.Rename(leftLifeline(t, l, machine.ID{7}, 3), path))
			return nil
		},
		"no file": func(_, path string, _ *Lifelines) *Lifelines {
			must(os.Remove(path))
			return nil
		},
		"an empty file": func(_, path string, _ *Lifelines) *Lifelines {
			must(os.Truncate(path, 0))
			return nil
		},
		"half a file": func(_, path string, _ *Lifelines) *Lifelines {
			must(os.Truncate(path, int64(lifelineSize/2)))
			return nil
		},
		"a longer file": func(_, path string, _ *Lifelines) *Lifelines {
			must(os.Truncate(path, int64(lifelineSize+1)))
			return nil
		},
		"a pipe": func(_, path string, _ *Lifelines) *Lifelines {
			must(os.Remove(path), syscall.Mkfifo(path, 0o600))
			return nil
		},
		"a directory": func(_, path string, _ *Lifelines) *Lifelines {
			must(os.Remove(path), os.Mkdir(path, 0o700))
			return nil
		},
	} {
		dir, s := lifelineStore(t)
		lines := s.Lifelines(thisBoot, false)
		path := leftLifeline(t, lines, tiedID, 3)
		if !lines.Ended(tiedID, 3) {
			t.Errorf("%s: before, the holder is not known to have ended", what)
		}
		if other := spoil(dir, path, lines); other != nil {
			lines = other
		}
		if lines.Ended(tiedID, 3) {
			t.Errorf("%s: taken for the end of a holder", what)
		}
	}
}

// late has something happen between the look at a file and its lock.
type late struct {
	FS
	happens func()
}

type lateFile struct {
	File
	happens func()
}

func (f lateFile) Lock(shared bool) (bool, error) {
	f.happens()
	return f.File.Lock(shared)
}

func (l late) Open(path string, flags int, perm fs.FileMode) (File, error) {
	f, err := l.FS.Open(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return lateFile{f, l.happens}, nil
}

// A holder that renews its lease and ends between the look at its lifeline and the lock has held by a later stamp than
// the one that was asked about, which proves nothing.
func TestAStampIsLookedAtUnderTheLock(t *testing.T) {
	dir, s := lifelineStore(t)
	lines := s.Lifelines(thisBoot, false)
	path := leftLifeline(t, lines, tiedID, 3)
	renews := func() {
		f, err := OS.Open(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if err := (&Lifeline{of: lines, id: tiedID, f: f, info: info}).Held(4); err != nil {
			t.Fatal(err)
		}
	}
	if openStore(t, dir, late{OS, renews}).Lifelines(thisBoot, false).Ended(tiedID, 3) {
		t.Error("a holder renewed its lease before its lifeline was locked, and is taken for ended by its earlier stamp")
	}
	if !lines.Ended(tiedID, 4) {
		t.Error("the end of the holder by its last stamp is not known")
	}
}

// A lifeline that may not tell of all processes, or that another has locked, is none.
func TestWhatIsNoLifeline(t *testing.T) {
	dir, s := lifelineStore(t)
	lines := openStore(t, dir, away{OS}).Lifelines(thisBoot, false)
	if _, err := lines.Tie(machine.ID{6}); err != errNotLocal {
		t.Errorf("on a network's file system: Tie returns %v, want %q", err, errNotLocal)
	}
	lines = s.Lifelines(thisBoot, false)
	line, err := lines.Tie(tiedID)
	if err != nil {
		t.Fatal(err)
	}
	defer line.Cut()
	if _, err := lines.Tie(tiedID); err == nil {
		t.Error("two lifelines of one claim")
	}
	if _, err := openStore(t, dir, outrun{OS}).Lifelines(thisBoot, false).Tie(machine.ID{5}); err != errLockedOnce {
		t.Errorf("another locks the file first: Tie returns %v, want %q", err, errLockedOnce)
	}
	left, err := os.ReadDir(filepath.Join(dir, lifelinesDir))
	if err != nil || len(left) != 1 {
		t.Errorf("what is no lifeline leaves files: %v, %v; want one", left, err)
	}
}

// outrun has another process lock each file that is made.
type outrun struct{ FS }

type outrunFile struct{ File }

func (outrunFile) Lock(bool) (bool, error) { return false, nil }

func (o outrun) Open(path string, flags int, perm fs.FileMode) (File, error) {
	f, err := o.FS.Open(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return outrunFile{f}, nil
}

// A claim's lifeline goes with its tenure.
func TestALifelineIsCut(t *testing.T) {
	_, s := lifelineStore(t)
	lines := s.Lifelines(thisBoot, false)
	line, err := lines.Tie(tiedID)
	if err != nil {
		t.Fatal(err)
	}
	if err := line.Held(1); err != nil {
		t.Fatal(err)
	}
	line.Cut()
	if _, err := os.Stat(lines.path(tiedID)); !os.IsNotExist(err) {
		t.Errorf("the lifeline of a tenure that is over: %v, want none", err)
	}
}

// Only a single directory has lifelines, and only where the boot is known.
func TestStoresWithoutLifelines(t *testing.T) {
	dir, s := lifelineStore(t)
	if s.Lifelines("", false) != nil {
		t.Error("a machine that does not know its boot has lifelines")
	}
	one := s.header
	s.header.Of = 3
	if s.Lifelines(thisBoot, false) != nil {
		t.Error("one of three stores has lifelines")
	}
	s.header = one
	if s.Lifelines(thisBoot, false) == nil {
		t.Errorf("%s has no lifelines", dir)
	}
}

// Users that may write handles may make lifelines, and see each other's, whatever the umask.
func TestLifelinesAreShared(t *testing.T) {
	dir, _ := lifelineStore(t)
	if err := os.Chmod(filepath.Join(dir, handlesDir), 0o777); err != nil {
		t.Fatal(err)
	}
	lines := openStore(t, dir, nil).Lifelines(thisBoot, false)
	path := leftLifeline(t, lines, tiedID, 3)
	for path, want := range map[string]fs.FileMode{path: 0o666, filepath.Dir(path): 0o777} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, st.Mode().Perm(), err, want)
		}
	}
}

// Lifelines of processes that were killed are removed if they are of no use: they are of an earlier boot,
// or there are very many. Those of the living stay, and other files.
func TestLifelinesAreTidiedUp(t *testing.T) {
	dir, s := lifelineStore(t)
	lines := s.Lifelines(thisBoot, false)
	earlier := openStore(t, dir, nil).Lifelines("an earlier boot", false)
	lives, err := earlier.Tie(machine.ID{4})
	if err != nil {
		t.Fatal(err)
	}
	defer lives.Cut()
	kept := []string{filepath.Base(leftLifeline(t, lines, machine.ID{1}, 1)), filepath.Base(leftLifeline(t, lines, machine.ID{3}, 0)), machine.ID{4}.String(), "notes.txt"}
	if err := os.WriteFile(filepath.Join(dir, lifelinesDir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	leftLifeline(t, earlier, machine.ID{2}, 1)
	left := func() (names []string) {
		all, err := os.ReadDir(filepath.Join(dir, lifelinesDir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			names = append(names, e.Name())
		}
		return names
	}
	line, err := lines.Tie(tiedID)
	if err != nil {
		t.Fatal(err)
	}
	line.Cut()
	slices.Sort(kept)
	if got := left(); !slices.Equal(got, kept) {
		t.Errorf("left are %q, want %q", got, kept)
	}
	for i := range mostLifelines {
		path := filepath.Join(dir, lifelinesDir, machine.ID{5, byte(i >> 8), byte(i)}.String())
		if err := os.WriteFile(path, append(lines.head(), make([]byte, 32)...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := len(left())
	if lines.tidy(0); len(left()) != before-lifelinesLook+1 { // one of which is locked
		t.Errorf("of %d files %d are left after a look at %d of them", before, len(left()), lifelinesLook)
	}
}
