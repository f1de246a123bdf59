package fence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// inode is a file: what everybody reads, and what outlives a power loss for sure.
type inode struct{ data, durable []byte }

// medium is a disk under processes that may die in the middle of a call, and under a power
// loss. A write that was not synced may outlive that, or may not.
type medium struct {
	t       *testing.T
	entries map[string]*inode // by path
	durable map[string]*inode
	locked  string
	left    int  // operations until the process dies
	fails   int  // the operation that fails alone, by what is left then; 0 for none
	done    bool // the operation at which it dies, or that fails, takes effect
	written uint64
}

var errDied = errors.New("the process has died")

// begin counts an operation. It reports whether the operation takes effect, and with what error it ends.
func (m *medium) begin() (effect bool, err error) {
	m.left--
	if m.left > 0 && m.left != m.fails {
		return true, nil
	}
	return m.left >= 0 && m.done, errDied
}

func (m *medium) lock(path string) (lockFile, error) {
	effect, err := m.begin()
	if !effect {
		return nil, err
	}
	if m.locked != "" {
		m.t.Fatalf("%s is locked twice", path)
	}
	if err == nil {
		m.locked = path
	}
	if m.entries[path] == nil {
		m.entries[path] = &inode{}
	}
	return &handle{m, m.entries[path], path}, err
}

func (m *medium) read(path string) ([]byte, error) {
	if _, err := m.begin(); err != nil {
		return nil, err
	}
	f := m.entries[path]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	return f.data, nil
}

func (m *medium) create(path string) (newFile, error) {
	effect, err := m.begin()
	f := m.entries[path]
	if f == nil {
		f = &inode{}
	}
	if effect {
		f.data = nil
		m.entries[path] = f
	}
	return &handle{m, f, ""}, err
}

func (m *medium) rename(from, to string) error {
	effect, err := m.begin()
	if effect && m.entries[from] == nil {
		return fs.ErrNotExist
	}
	if effect {
		m.entries[to] = m.entries[from]
		delete(m.entries, from)
	}
	m.lookAfterPowerLoss("a rename")
	return err
}

func (m *medium) syncDir(string) error {
	effect, err := m.begin()
	if effect {
		m.durable = maps.Clone(m.entries)
	}
	return err
}

type handle struct {
	m    *medium
	f    *inode
	lock string
}

func (h *handle) Write(p []byte) (int, error) {
	effect, err := h.m.begin()
	if effect {
		h.f.data = slices.Clone(p)
	}
	return len(p), err
}

func (h *handle) Sync() error {
	effect, err := h.m.begin()
	if effect {
		h.f.durable = h.f.data
	}
	return err
}

func (h *handle) Truncate(int64) error {
	_, err := h.Write(nil)
	return err
}

func (h *handle) WriteAt(p []byte, _ int64) (int, error) { return h.Write(p) }

func (h *handle) ReadAt(p []byte, _ int64) (int, error) {
	if _, err := h.m.begin(); err != nil {
		return 0, err
	}
	return copy(p, h.f.data), io.EOF
}

func (h *handle) Close() error {
	if h.lock != "" && h.m.locked == h.lock {
		h.m.locked = ""
	}
	return nil
}

// process calls Do in a process that dies at its operation number dies, and reports whether it did.
func (m *medium) process(token uint64, dies int, effect bool) (died bool) {
	m.left, m.done = dies, effect
	err := ledger{"dir/token", m}.do(token, func() error {
		m.written = max(m.written, token)
		m.lookAfterPowerLoss(fmt.Sprintf("a write under token %d", token))
		return nil
	})
	m.locked = "" // the kernel's part
	if err != nil && !errors.Is(err, errDied) {
		m.t.Fatalf("token %d: %v", token, err)
	}
	return err != nil
}

// lookAfterPowerLoss wants a whole token, and none below that of any write, whatever has outlived
// the loss beside what was synced.
func (m *medium) lookAfterPowerLoss(when string) {
	for i, what := range []string{"nothing that was not synced", "names", "contents", "names and contents"} {
		after := &medium{t: m.t, entries: m.durable, left: 100}
		if i&1 > 0 {
			after.entries = m.entries
		}
		after.entries = maps.Clone(after.entries)
		for path, f := range after.entries {
			if i&2 == 0 {
				after.entries[path] = &inode{data: f.durable}
			}
		}
		highest, err := ledger{"dir/token", after}.highest()
		if err != nil || highest < m.written {
			m.t.Errorf("a power loss at %s, which %s outlives: the highest token is %d, %v; a write under token %d was done", when, what, highest, err, m.written)
		}
	}
}

// TestFileOverCrashes has the first process with a token die at each of its operations, and
// another one go on with the same token.
func TestFileOverCrashes(t *testing.T) {
	for _, effect := range []bool{false, true} {
		for dies := 1; ; dies++ {
			m := &medium{t: t, entries: map[string]*inode{}, durable: map[string]*inode{}}
			m.process(41, 100, true)
			died := m.process(42, dies, effect)
			m.process(42, 100, true)
			m.process(42, 100, true)
			m.lookAfterPowerLoss("the end")
			if m.written != 42 {
				t.Errorf("the last write was under token %d, want 42", m.written)
			}
			err := ledger{"dir/token", m}.do(41, func() error { return nil })
			if !errors.Is(err, ErrStale) {
				t.Errorf("token 41 after 42: %v, want it stale", err)
			}
			if !died {
				break
			}
		}
	}
}

// TestFileSyncsOnce: what is known to be durable costs nothing.
func TestFileSyncsOnce(t *testing.T) {
	m := &medium{t: t, entries: map[string]*inode{}, durable: map[string]*inode{}}
	m.process(42, 100, true)
	m.process(42, 100, true)
	if used := 100 - m.left; used != 3 {
		t.Errorf("a second call with a token took %d operations, want 3: to lock, to read the token and to read that it is durable", used)
	}
}

// TestFileWithoutADisk: a write is not done under a token that could not be made durable.
func TestFileWithoutADisk(t *testing.T) {
	for dies := 1; dies <= 7; dies++ {
		m := &medium{t: t, entries: map[string]*inode{}, durable: map[string]*inode{}}
		if !m.process(42, dies, true) || m.written != 0 {
			t.Errorf("operation %d fails: a write under token %d was done, want an error before it", dies, m.written)
		}
	}
}

// TestFileOnAFlakyDisk: one operation fails and the others do not. No write is done unless the token is durable, and
// the next call makes up for it. Only the note that a token is durable may be lost.
func TestFileOnAFlakyDisk(t *testing.T) {
	const needed, all = 7, 9 // the last two are the note's
	for _, effect := range []bool{true, false} {
		for number := 1; number <= all; number++ {
			m := &medium{t: t, entries: map[string]*inode{}, durable: map[string]*inode{}, fails: 100 - number}
			failed := m.process(42, 100, effect)
			if want := number <= needed; failed != want || (m.written == 0) != want {
				t.Errorf("operation %d of %d fails, with an effect %v: Do fails %v, and a write under token %d was done; want that only without an error", number, all, effect, failed, m.written)
			}
			m.fails = 0
			if m.process(42, 100, true) || m.written != 42 {
				t.Errorf("operation %d of %d failed: the next call writes under token %d, want 42", number, all, m.written)
			}
			if err := (ledger{"dir/token", m}).do(41, func() error { return nil }); !errors.Is(err, ErrStale) {
				t.Errorf("operation %d of %d failed: token 41 after 42: %v, want it stale", number, all, err)
			}
		}
	}
}

// TestFileThatIsTakenAway: a token is written again when its file is gone or put back to an older one, although the
// lock file says that it is durable.
func TestFileThatIsTakenAway(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"gone":  os.Remove,
		"older": func(path string) error { return os.WriteFile(path, []byte("7\n"), 0o644) },
	} {
		f := File{filepath.Join(t.TempDir(), "token")}
		if err := f.Check(42); err != nil {
			t.Fatal(err)
		}
		if err := put(f.Path); err != nil {
			t.Fatal(err)
		}
		if err := f.Check(42); err != nil {
			t.Errorf("%s: token 42: %v", name, err)
		}
		if err := f.Check(41); !errors.Is(err, ErrStale) {
			t.Errorf("%s: token 41 after 42: %v, want it stale", name, err)
		}
	}
}

// cut is a file of which the rest cannot be read.
type cut string

func (c cut) ReadAt(b []byte, _ int64) (int, error) { return copy(b, c), syscall.EIO }

// TestOnlyAWholeNoteCounts: a lock file that holds anything but the token and a line end says nothing about it.
func TestOnlyAWholeNoteCounts(t *testing.T) {
	for _, token := range []uint64{42, 1<<64 - 1} {
		whole := text(token)
		for note, want := range map[string]bool{whole: true, "": false, whole[:len(whole)-1]: false, whole + whole: false, "1" + whole: false, whole + "\n": false} {
			if got := knownDurable(strings.NewReader(note), token); got != want {
				t.Errorf("the lock file holds %q: token %d is known to be durable: %v, want %v", note, token, got, want)
			}
		}
		if knownDurable(cut(whole), token) {
			t.Errorf("behind token %d the lock file cannot be read, and it is known to be durable", token)
		}
	}
}

// fullDisk has no room for what is written.
type fullDisk struct{ host }

type fullFile struct{ newFile }

func (fullFile) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func (d fullDisk) create(path string) (newFile, error) {
	file, err := d.host.create(path)
	return fullFile{file}, err
}

// A token that the disk does not take lets nobody write, and leaves the one before.
func TestFileOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := (ledger{path, host{}}).do(5, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	wrote := false
	err := ledger{path, fullDisk{}}.do(6, func() error { wrote = true; return nil })
	if !errors.Is(err, syscall.ENOSPC) || wrote {
		t.Errorf("on a full disk: %v, written %v; want %v and nothing written", err, wrote, syscall.ENOSPC)
	}
	if highest, err := (ledger{path, host{}}).highest(); err != nil || highest != 5 {
		t.Errorf("then the highest token is %d, %v; want 5", highest, err)
	}
}

// lateDisk reports what it could not write only when a file is closed, as some network filesystems do.
type lateDisk struct{ host }

type lateFile struct{ newFile }

func (f lateFile) Close() error { return errors.Join(f.newFile.Close(), syscall.EIO) }

func (d lateDisk) create(path string) (newFile, error) {
	file, err := d.host.create(path)
	return lateFile{file}, err
}

// TestFileThatDoesNotClose: what a disk says when the token's file is closed counts.
func TestFileThatDoesNotClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	wrote := false
	err := ledger{path, lateDisk{}}.do(6, func() error { wrote = true; return nil })
	if !errors.Is(err, syscall.EIO) || wrote {
		t.Errorf("a file that fails as it is closed: %v, written %v; want %v and nothing written", err, wrote, syscall.EIO)
	}
	if highest, err := (ledger{path, host{}}).highest(); err != nil || highest != 0 {
		t.Errorf("then the highest token is %d, %v; want none", highest, err)
	}
}

// TestTheHostSyncsDirectories: on a filesystem that cannot, that is an error. So it was tried.
func TestTheHostSyncsDirectories(t *testing.T) {
	const procfs = "/proc"
	d, err := os.Open(procfs)
	if err != nil {
		t.Skip(err)
	}
	defer d.Close()
	want := d.Sync()
	if want == nil {
		t.Skipf("%s can be synced", procfs)
	}
	if err := (host{}).syncDir(procfs); err == nil || err.Error() != want.Error() {
		t.Errorf("a directory that cannot be synced: %v, want %v", err, want)
	}
	if err := (host{}).syncDir(t.TempDir()); err != nil {
		t.Errorf("one that can: %v", err)
	}
}

// noted is a lock file that notes what is done to it.
type noted struct {
	lockFile
	fails error // of Truncate
	trace []string
}

func (n *noted) Truncate(size int64) error {
	n.trace = append(n.trace, fmt.Sprintf("cut to %d", size))
	return n.fails
}

func (n *noted) WriteAt(b []byte, at int64) (int, error) {
	n.trace = append(n.trace, fmt.Sprintf("write %q at %d", b, at))
	return len(b), nil
}

// TestANoteIsWrittenOverNone: an older note is gone before the next one is written, for a mixture of both, which a
// power loss may leave, would call a token durable that is not.
func TestANoteIsWrittenOverNone(t *testing.T) {
	for fails, want := range map[error][]string{
		nil:         {"cut to 0", `write "20\n" at 0`},
		syscall.EIO: {"cut to 0"},
	} {
		n := &noted{fails: fails}
		if noteDurable(n, 20); !slices.Equal(n.trace, want) {
			t.Errorf("a note, with the older one cut off by %v: %q, want %q", fails, n.trace, want)
		}
	}
}
