package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

func TestInitAndFind(t *testing.T) {
	for _, single := range []bool{false, true} {
		dir := t.TempDir()
		if _, _, err := Find(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Find in an empty directory: %v, want that there is no store", err)
		}
		if err := Init(dir, testHeader, InitOptions{SingleHost: single}); err != nil {
			t.Fatal(err)
		}
		h, s, err := Find(dir)
		if err != nil || h != testHeader || s != single {
			t.Errorf("Find: %+v, %v, %v, want %+v, %v", h, s, err, testHeader, single)
		}
		other := testHeader
		other.Set[0]++
		if err := Init(dir, other, InitOptions{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second Init: %v, want that there is a store", err)
		}
		if h, _, _ := Find(dir); h != testHeader {
			t.Error("a second Init changed the header")
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*"+temporary)); left != nil {
			t.Errorf("Init left %v", left)
		}
	}
}

func TestInitOfSeveralAtOnce(t *testing.T) {
	dir := t.TempDir()
	const n = 8
	errs := make(chan error, n)
	for i := range n {
		go func() {
			h := testHeader
			h.Set[0] = byte(i + 1)
			errs <- Init(dir, h, InitOptions{})
		}()
	}
	made := 0
	for range n {
		err := <-errs
		if err == nil {
			made++
		} else if !errors.Is(err, fs.ErrExist) {
			t.Errorf("Init: %v, want success or that there is a store", err)
		}
	}
	if made != 1 {
		t.Errorf("%d made the store, want one", made)
	}
}

func TestWhatIsNotAStore(t *testing.T) {
	sealed := func(f func(b []byte)) []byte {
		b := make([]byte, block)
		h := storeHeader{Header: testHeader}
		h.encode(b)
		f(b)
		return b
	}
	tests := []struct {
		name    string
		prepare func(t *testing.T, dir string)
		find    error // the error that Find and Open wrap
		init    error // the error that Init wraps; nil if it succeeds
		says    string
	}{
		{"missing", func(t *testing.T, dir string) { os.Remove(dir) }, fs.ErrNotExist, fs.ErrNotExist, "mkdir"},
		{"empty", func(*testing.T, string) {}, fs.ErrNotExist, nil, "empty"},
		{"other files", func(t *testing.T, dir string) { write(t, dir, "thesis.tex", []byte("x")) }, register.ErrForeign, register.ErrForeign, "thesis.tex"},
		{"a fresh filesystem", func(t *testing.T, dir string) { os.Mkdir(filepath.Join(dir, "lost+found"), 0o700) }, fs.ErrNotExist, nil, "empty"},
		{"an Init that crashed", func(t *testing.T, dir string) {
			os.Mkdir(filepath.Join(dir, handlesDir), 0o700)
			write(t, dir, headerName+".123"+temporary, []byte("half"))
		}, fs.ErrNotExist, nil, "empty"},
		{"handles without a header", func(t *testing.T, dir string) {
			os.Mkdir(filepath.Join(dir, handlesDir), 0o700)
			write(t, dir, handlesDir+"/00", nil)
		}, register.ErrForeign, register.ErrForeign, "no TENURE"},
		{"a header that is something else", func(t *testing.T, dir string) { write(t, dir, headerName, []byte("hello\n")) }, register.ErrForeign, fs.ErrExist, ""},
		{"an empty header", func(t *testing.T, dir string) { write(t, dir, headerName, nil) }, register.ErrForeign, fs.ErrExist, "empty"},
		{"a header cut off", func(t *testing.T, dir string) { write(t, dir, headerName, sealed(func([]byte) {})[:100]) }, register.ErrDamaged, fs.ErrExist, "cut off"},
		{"a flipped bit", func(t *testing.T, dir string) {
			write(t, dir, headerName, sealed(func(b []byte) { b[77] ^= 1 }))
		}, register.ErrDamaged, fs.ErrExist, "checksum"},
		{"a newer format", func(t *testing.T, dir string) {
			write(t, dir, headerName, sealed(func(b []byte) { b[body+3]++; seal(b, magicStore) }))
		}, register.ErrNewer, fs.ErrExist, "format 2"},
		{"a device's", func(t *testing.T, dir string) {
			h := storeHeader{Header: testHeader, areas: 3, slots: 8}
			b := make([]byte, block)
			h.encode(b)
			write(t, dir, headerName, b)
		}, register.ErrForeign, fs.ErrExist, "device"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.prepare(t, dir)
			before := listing(t, dir)
			_, _, err := Find(dir)
			if !errors.Is(err, tt.find) || !strings.Contains(err.Error(), tt.says) && tt.find != fs.ErrNotExist {
				t.Errorf("Find: %v, want one that wraps %q and says %q", err, tt.find, tt.says)
			}
			if _, err := Open(dir, Options{Clock: new(testClock).now}); !errors.Is(err, tt.find) {
				t.Errorf("Open: %v, want one that wraps %q", err, tt.find)
			}
			if tt.init != nil {
				if err := Init(dir, testHeader, InitOptions{}); !errors.Is(err, tt.init) {
					t.Errorf("Init: %v, want one that wraps %q", err, tt.init)
				}
			}
			if after := listing(t, dir); after != before {
				t.Errorf("the directory was changed from %q to %q", before, after)
			}
			if tt.init == nil {
				if err := Init(dir, testHeader, InitOptions{}); err != nil {
					t.Errorf("Init: %v", err)
				}
			}
		})
	}
}

func TestHeadersThatMakeNoSense(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []func(*register.Header){
		func(h *register.Header) { h.Set = machine.ID{} },
		func(h *register.Header) { h.Of = 0 },
		func(h *register.Header) { h.Index = 3 },
		func(h *register.Header) { h.Index = -1 },
		func(h *register.Header) { h.Term = 0 },
		func(h *register.Header) { h.Delay = -time.Second },
		func(h *register.Header) { h.Drift = -1 },
		func(h *register.Header) { h.Drift = register.MaxDrift + 1 },
	} {
		h := testHeader
		f(&h)
		if err := Init(dir, h, InitOptions{}); err == nil {
			t.Fatalf("Init with %+v succeeded", h)
		}
	}
	if err := Init(dir, testHeader, InitOptions{Handles: 4}); err == nil {
		t.Fatal("Init of a directory with a number of handles succeeded")
	}
	if err := Init(os.DevNull, testHeader, InitOptions{Handles: 4}); err == nil {
		t.Fatal("Init on a character device succeeded")
	}
}

func TestNotWritable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	b := newBench(t, InitOptions{})
	handles := filepath.Join(b.dir, handlesDir)
	os.Chmod(handles, 0o500)
	defer os.Chmod(handles, 0o700)
	if _, err := Open(b.dir, b.options()); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "allowed to write") {
		t.Errorf("Open: %v, want that it is not allowed", err)
	}
}

// Memory is no place for a store that several hosts share.
func TestMemoryFilesystem(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "tenure")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Type != 0x1021994 {
		t.Skip("/dev/shm is not in memory here")
	}
	if err := Init(dir, testHeader, InitOptions{}); err == nil || !strings.Contains(err.Error(), "single-host") {
		t.Errorf("Init: %v, want advice to make it single-host", err)
	}
	if got := listing(t, dir); got != "" {
		t.Errorf("Init left %q", got)
	}
	if err := Init(dir, testHeader, InitOptions{SingleHost: true}); err != nil {
		t.Fatal(err)
	}
	var clock testClock
	s, err := Open(dir, Options{Clock: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.SingleHost() {
		t.Error("the store does not know that it is single-host")
	}
	do(t, s, put("x", 1, 1, "x"))
	wantContents(t, s, "x", "1 x")
}

func TestNFSMounts(t *testing.T) {
	line := func(device, opts, super string) string {
		return "36 35 " + device + " / /mnt/x " + opts + " shared:1 - nfs4 server:/x " + super + "\n"
	}
	const cached = "rw,vers=4.2,acregmin=3,acregmax=60,acdirmin=30,acdirmax=60,hard"
	tests := []struct {
		name, text string
		caches     bool
	}{
		{"default", line("0:40", "rw,relatime", cached), true},
		{"not listed", line("0:41", "rw,noac", cached), true},
		{"noac", line("0:40", "rw,relatime", "rw,vers=4.2,noac,hard"), false},
		{"actimeo=0", line("0:40", "rw", "rw,acregmin=0,acregmax=0,acdirmin=0,acdirmax=0,hard"), false},
		{"files only", line("0:40", "rw", "rw,acregmin=0,acregmax=0,hard"), true},
		{"another mount has it", line("0:41", "rw", "rw,noac") + line("0:40", "rw", cached), true},
		{"another is mounted on top", line("0:40", "rw", "rw,noac") + line("0:40", "rw", cached), true},
		{"it is mounted on another", line("0:40", "rw", cached) + line("0:40", "rw", "rw,noac"), false},
	}
	for _, tt := range tests {
		if got := cachesNames(parseMounts(tt.text, "0:40")); got != tt.caches {
			t.Errorf("%s: caches %v, want %v", tt.name, got, tt.caches)
		}
	}
}

func write(t *testing.T, dir, name string, p []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), p, 0o600); err != nil {
		t.Fatal(err)
	}
}

// listing shows all names and contents below a directory.
func listing(t *testing.T, dir string) string {
	var all strings.Builder
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && path == dir {
			return nil
		}
		p, _ := os.ReadFile(path)
		all.WriteString(strings.TrimPrefix(path, dir) + "=" + string(p) + "\n")
		return nil
	})
	return all.String()
}

// overtaken is a file system on which somebody does something after each list of a directory.
type overtaken struct {
	FS
	dir  string
	then func()
}

func (o overtaken) Names(dir string) ([]string, error) {
	names, err := o.FS.Names(dir)
	if dir == o.dir {
		o.then()
	}
	return names, err
}

// TestInitIsOvertaken: a store that another Init has made while this one looks around, and that is
// in use, is a store already, and not a ruin.
func TestInitIsOvertaken(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, handlesDir), 0o700); err != nil { // the other has begun
		t.Fatal(err)
	}
	err := Init(dir, testHeader, InitOptions{SingleHost: true, FS: overtaken{OS, dir, func() {
		if err := Init(dir, testHeader, InitOptions{SingleHost: true}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, handlesDir, handleName(machine.ID{1})), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}}})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("an Init that another has overtaken: %v, want %v", err, fs.ErrExist)
	}
}

// watched is a file system that notes the calls that make files and names durable.
type watched struct {
	FS
	dir   string
	steps *[]string
}

func (w watched) note(step, path string) {
	path, _ = filepath.Rel(w.dir, path)
	if strings.HasSuffix(path, temporary) {
		path = "a new file"
	}
	*w.steps = append(*w.steps, step+" "+path)
}

func (w watched) Open(path string, flags int, perm fs.FileMode) (File, error) {
	f, err := w.FS.Open(path, flags, perm)
	if err != nil || flags&os.O_CREATE == 0 {
		return f, err
	}
	return watchedFile{f, w, path}, nil
}

func (w watched) Mkdir(path string, perm fs.FileMode) error {
	w.note("make", path)
	return w.FS.Mkdir(path, perm)
}

func (w watched) Link(from, to string) error {
	w.note("link", to)
	return w.FS.Link(from, to)
}

func (w watched) SyncDir(dir string) error {
	w.note("sync", dir)
	return w.FS.SyncDir(dir)
}

type watchedFile struct {
	File
	w    watched
	path string
}

func (f watchedFile) WriteAt(p []byte, off int64) (int, error) {
	f.w.note("write", f.path)
	return f.File.WriteAt(p, off)
}

func (f watchedFile) Sync() error {
	f.w.note("sync", f.path)
	return f.File.Sync()
}

// A store is made when a power loss cannot take it back. Its header gets its name only when it is
// whole and durable, with the directory of handles beside it. Then the names are made durable.
func TestAStoreIsDurableWhenItIsMade(t *testing.T) {
	w := watched{OS, t.TempDir(), new([]string)}
	if err := Init(w.dir, testHeader, InitOptions{SingleHost: true, FS: w}); err != nil {
		t.Fatal(err)
	}
	want := []string{"make handles", "write a new file", "sync a new file", "link " + headerName, "sync ."}
	if !slices.Equal(*w.steps, want) {
		t.Errorf("Init did %q, want %q", *w.steps, want)
	}
}

// halfMade is a file system on which an Init ends just before its names are durable.
type halfMade struct {
	watched
	why error
}

func (h halfMade) SyncDir(dir string) error {
	if dir == h.dir && h.why != nil {
		return h.why
	}
	return h.watched.SyncDir(dir)
}

// Whoever promises something in a store that an Init left behind makes the store's own names durable first, once. Else a
// loss of power would take the store away, and leave its leases.
func TestAStoreIsDurableBeforeItPromises(t *testing.T) {
	w := watched{OS, t.TempDir(), new([]string)}
	if err := Init(w.dir, testHeader, InitOptions{SingleHost: true, FS: halfMade{w, errBlind}}); !errors.Is(err, errBlind) {
		t.Fatalf("Init that fails just before its names are durable: %v", err)
	}
	for _, tt := range []struct {
		what string
		why  error
		err  error
	}{
		{"names that cannot be made durable", errBlind, errBlind},
		{"a directory that must not be listed", fs.ErrPermission, nil},
		{"a store that was left behind", nil, nil},
	} {
		s := openStore(t, w.dir, halfMade{w, tt.why})
		*w.steps = nil
		if r := s.Do([]register.Op{put("x", 1, 1, "1")})[0]; !errors.Is(r.Err, tt.err) || (r.Err == nil) != (tt.err == nil) {
			t.Errorf("%s: a Put returns %v, want %v", tt.what, r.Err, tt.err)
		}
		steps := *w.steps
		if rooted, linked := slices.Index(steps, "sync ."), slices.IndexFunc(steps, func(step string) bool { return strings.HasPrefix(step, "link ") }); tt.why == nil && (rooted < 0 || linked < rooted) {
			t.Errorf("%s: a Put did %q, want its names durable before it has a name of its own", tt.what, steps)
		}
		if tt.why == nil {
			*w.steps = nil
			s.home.doubt = errBlind // it moves to another file
			if r := s.Do([]register.Op{put("x", 2, 1, "2")})[0]; r.Err != nil || slices.Contains(*w.steps, "sync .") {
				t.Errorf("%s: another Put, to a new file, did %q, %v; want the names made durable once", tt.what, *w.steps, r.Err)
			}
		}
		s.Close()
	}
}

// Only the traces of an Init that died may stand in a directory that gets a store.
func TestWhatIsNoTraceOfAnInit(t *testing.T) {
	for name, trace := range map[string]bool{
		headerName + ".0" + temporary: true,
		"lost+found":                  true,
		headerName + ".bak":           false,
		headerName + "0" + temporary:  false,
		"x" + temporary:               false,
		handlesDir:                    false, // a file
	} {
		dir := t.TempDir()
		write(t, dir, name, []byte("x"))
		if err := Check(dir, testHeader, InitOptions{SingleHost: true}); (err == nil) != trace || err != nil && !errors.Is(err, register.ErrForeign) {
			t.Errorf("a directory with a file %s: %v; want it taken for an Init's trace: %v", name, err, trace)
		}
	}
}
