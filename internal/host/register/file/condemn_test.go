package file

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// stepped is a host whose process can be stopped before any one of its system calls.
type stepped struct {
	host
	mu      sync.Mutex
	step    int // of the calls, from 1
	stop    int // the call before which to stop; 0: none
	stopped chan string
	goOn    chan struct{}
}

func newStepped(stop int) *stepped {
	return &stepped{host: host{buffered: true}, stop: stop, stopped: make(chan string, 1), goOn: make(chan struct{})}
}

func (h *stepped) before(what, path string) {
	h.mu.Lock()
	h.step++
	here := h.step == h.stop
	h.mu.Unlock()
	if here {
		h.stopped <- fmt.Sprintf("call %d, %s %s", h.stop, what, filepath.Base(path))
		<-h.goOn
	}
}

func (h *stepped) names(dir string) ([]string, error) {
	h.before("list", dir)
	return h.host.names(dir)
}

func (h *stepped) open(path string, write bool) (file, error) {
	h.before("open", path)
	f, err := h.host.open(path, write)
	return &steppedFile{f, h, path}, err
}

func (h *stepped) create(path string, perm os.FileMode) (file, error) {
	h.before("create", path)
	f, err := h.host.create(path, perm)
	return &steppedFile{f, h, path}, err
}

func (h *stepped) stat(path string) (info, error) {
	h.before("stat", path)
	return h.host.stat(path)
}

func (h *stepped) link(from, to string) error {
	h.before("link", to)
	return h.host.link(from, to)
}

func (h *stepped) rename(from, to string) error {
	h.before("rename", to)
	return h.host.rename(from, to)
}

func (h *stepped) remove(path string) error {
	h.before("remove", path)
	return h.host.remove(path)
}

func (h *stepped) syncDir(dir string) error {
	h.before("sync", dir)
	return h.host.syncDir(dir)
}

type steppedFile struct {
	file
	host *stepped
	path string
}

func (f *steppedFile) ReadAt(p []byte, off int64) (int, error) {
	f.host.before("read", f.path)
	return f.file.ReadAt(p, off)
}

func (f *steppedFile) WriteAt(p []byte, off int64) (int, error) {
	f.host.before("write", f.path)
	return f.file.WriteAt(p, off)
}

// idleScene is a store with a handle that has been idle for the wait and whose record
// nobody needs, and another that is still active.
type idleScene struct {
	*bench
	t     *testing.T
	what  string
	idle  *Store
	other *Store
	seen  uint64 // the greatest version of x that was read, or acknowledged
}

// sceneClaims has nobody need version 1 of a register, as after a release.
func sceneClaims(_ string, v machine.Value, _ machine.ID) bool { return v.Version.Seq <= 1 }

func (s *idleScene) open(f files) *Store {
	opts := s.options()
	opts.Obsolete = sceneClaims
	d := &directory{path: s.dir, files: f, perm: 0o600}
	st := newStore(s.dir, storeHeader{Header: testHeader, single: true}, opts, d, fileKeeper{d})
	s.t.Cleanup(func() { st.Close() })
	return st
}

func newIdleScene(t *testing.T, idle files) *idleScene {
	s := &idleScene{bench: newBench(t, InitOptions{SingleHost: true}), t: t}
	s.idle, s.other = s.open(idle), s.open(host{buffered: true})
	do(t, s.idle, put("x", 1, 1, "released"))
	do(t, s.other, put("y", 2, 2, "in use"), query("x"))
	return s
}

// pass lets the idle handle be idle for so long that anybody may tidy up behind it.
func (s *idleScene) pass(tidier *Store) {
	do(s.t, tidier, query("x"))
	s.clock.pass(testWait)
}

// read looks at x, which must not go back.
func (s *idleScene) read(who *Store, when string) {
	r := who.Do([]register.Op{query("x")})[0]
	if r.Err != nil {
		s.t.Errorf("%s: a read %s: %v", s.what, when, r.Err)
		return
	}
	got := r.Value.(quorumregister.State).Version.Seq
	if got < s.seen {
		s.t.Errorf("%s: a read %s shows version %d of x, after version %d was seen or acknowledged", s.what, when, got, s.seen)
	}
	if got > 1 {
		s.seen = max(s.seen, got)
	}
}

// write writes version 2 of x by the idle handle.
func (s *idleScene) write() {
	if r := s.idle.Do([]register.Op{put("x", 2, 1, "acquired")})[0]; r.Err != nil {
		s.t.Errorf("%s: the idle handle's write: %v", s.what, r.Err)
		return
	}
	s.seen = max(s.seen, 2)
}

// A process that tidies up may be stopped between any two system calls for any time. A
// write of an idle handle meanwhile stays.
func TestATidierIsStoppedAnywhere(t *testing.T) {
	for stop := 1; ; stop++ {
		slow := newStepped(0)
		s := newIdleScene(t, host{buffered: true})
		tidier := s.open(slow)
		s.pass(tidier)
		slow.step, slow.stop = 0, stop
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 3 { // looks and condemns, looks and removes, looks
				tidier.Do([]register.Op{query("y")})
			}
		}()
		select {
		case at := <-slow.stopped:
			s.what = "the tidier is stopped before " + at
		case <-done:
			slow.stop = 0
			if stop < 20 {
				t.Errorf("the tidier did all in %d calls", stop)
			}
			if got := s.handles(); len(got) != 1 {
				t.Errorf("files %v, want that of the active handle", got)
			}
			return
		}
		s.write()
		s.read(s.other, "meanwhile")
		close(slow.goOn)
		<-done
		s.read(s.other, "after it went on")
		s.read(s.open(host{buffered: true}), "by a new handle")
		do(t, s.idle, put("x", 3, 1, "renewed"))
		s.seen = 3
		s.read(tidier, "after a renewal")
	}
}

// The idle handle, too, may be stopped between any two system calls, or die there, while
// others tidy up. The part of its write that others have seen stays.
func TestTheOwnerIsStoppedAnywhere(t *testing.T) {
	for _, dies := range []bool{false, true} {
		for stop, more := 1, true; more; stop++ {
			slow := newStepped(0)
			s := newIdleScene(t, slow)
			tidier := s.open(host{buffered: true})
			s.pass(tidier)
			more = s.ownerStops(slow, stop, dies, func() {
				for range 2 {
					s.read(tidier, "by the tidier")
				}
			})
		}
	}
}

// Both are stopped, the tidier first.
func TestTidierAndOwnerAreStopped(t *testing.T) {
	for first := 1; ; first++ {
		for stop, more := 1, true; more; stop++ {
			slow, slower := newStepped(0), newStepped(0)
			s := newIdleScene(t, slow)
			tidier := s.open(slower)
			s.pass(tidier)
			slower.step, slower.stop = 0, first
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 2 {
					tidier.Do([]register.Op{query("y")})
				}
			}()
			at := ""
			select {
			case at = <-slower.stopped:
			case <-done:
				slower.stop = 0
				return
			}
			more = s.ownerStops(slow, stop, false, func() {
				s.read(s.other, "while both are stopped")
				close(slower.goOn)
				<-done
				s.what += ", the tidier before " + at
				s.read(s.other, "after the tidier went on")
			})
			<-done
		}
	}
}

// ownerStops has the idle handle stop before a call of its write while others act. It
// returns false when the write has no more so many.
func (s *idleScene) ownerStops(slow *stepped, stop int, dies bool, others func()) bool {
	slow.step, slow.stop = 0, stop
	done := make(chan error)
	go func() {
		done <- s.idle.Do([]register.Op{put("x", 2, 1, "acquired")})[0].Err
	}()
	more := true
	select {
	case at := <-slow.stopped:
		s.what = fmt.Sprintf("the owner is stopped before %s, dies %v", at, dies)
		others()
	case err := <-done:
		if err != nil {
			s.t.Errorf("the idle handle's write: %v", err)
		}
		s.seen, more, slow.stop = 2, false, 0
		others()
	}
	s.read(s.other, "meanwhile")
	if more && dies {
		s.t.Cleanup(func() { close(slow.goOn); <-done })
	} else if more {
		close(slow.goOn)
		if err := <-done; err != nil {
			s.t.Errorf("%s: its write: %v", s.what, err)
		}
		s.seen = 2
	}
	reader := s.open(host{buffered: true})
	for range 3 {
		s.clock.pass(testWait / 8)
		s.read(s.other, "later")
		s.read(reader, "later, by a new handle")
	}
	return more
}

// A crash in the middle of a rename may leave both names; one goes.
func TestTwoNamesOfOneFile(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "three"))
	path := filepath.Join(b.dir, handlesDir, s.home.place)
	aside := path + "." + writer(7).String()
	if err := os.Link(path, aside); err != nil {
		t.Fatal(err)
	}
	wantContents(t, b.open(), "x", "3 three")
	do(t, s, put("x", 4, 1, "four"))
	if got := b.handles(); len(got) != 1 || got[0] != filepath.Base(path) {
		t.Errorf("names %v, want the first one alone", got)
	}
	if err := os.WriteFile(aside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, b.open(), query("x"), register.ErrDamaged)
}

// An onlooker that meets something needed in a file that was put aside cannot give it back, and says so.
func TestAnOnlookerMeetsWhatWasPutAside(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "three"))
	path := filepath.Join(b.dir, handlesDir, s.home.place)
	if err := os.Rename(path, path+"."+writer(7).String()); err != nil {
		t.Fatal(err)
	}
	opts := b.options()
	opts.ReadOnly = true
	onlooker, err := Open(b.dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer onlooker.Close()
	wantFailure(t, onlooker, query("x"), register.ErrDamaged)
	wantContents(t, b.open(), "x", "3 three")
	if got := b.handles(); len(got) != 1 || got[0] != filepath.Base(path) {
		t.Errorf("names %v, want the first one given back", got)
	}
	wantContents(t, onlooker, "x", "3 three")
}

// A handle that cannot give back a file that was put aside and is needed answers nobody.
func TestAPardonFails(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "three"))
	path := filepath.Join(b.dir, handlesDir, s.home.place)
	if err := os.Rename(path, path+"."+writer(7).String()); err != nil {
		t.Fatal(err)
	}
	fail := true
	b.files = &faulty{fail: func(step, _ string, _ int) (int, error) {
		if fail && step == "rename" {
			return 0, unix.EACCES
		}
		return 0, nil
	}}
	reader := b.open()
	wantFailure(t, reader, query("x"), unix.EACCES)
	fail = false
	wantContents(t, reader, "x", "3 three")
}
