package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// faulty is a host on which steps fail as told.
type faulty struct {
	host
	mu sync.Mutex // held while before is called
	// fail is asked before each step that changes something, and before each look at a path or
	// a list. Of a write it also says how many bytes come through.
	fail func(step, path string, n int) (through int, err error)
	// before is called before each step that only looks.
	before func(step, path string)
	// list may change the result of names.
	list func(names []string) []string
	left atomic.Int64 // files that are open
}

func (f *faulty) check(step, path string) error {
	if f.fail == nil {
		return nil
	}
	_, err := f.fail(step, path, 0)
	return err
}

func (f *faulty) look(step, path string) {
	if f.before != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.before(step, path)
	}
}

func (f *faulty) names(dir string) ([]string, error) {
	f.look("names", dir)
	if err := f.check("names", dir); err != nil {
		return nil, err
	}
	names, err := f.host.names(dir)
	if f.list != nil {
		names = f.list(names)
	}
	return names, err
}

func (f *faulty) open(path string, write bool) (file, error) {
	f.look("open", path)
	h, err := f.host.open(path, write)
	if err != nil {
		return nil, err
	}
	f.left.Add(1)
	return &faultyFile{h, f, path}, nil
}

func (f *faulty) create(path string, perm os.FileMode) (file, error) {
	if err := f.check("create", path); err != nil {
		return nil, err
	}
	h, err := f.host.create(path, perm)
	if err != nil {
		return nil, err
	}
	f.left.Add(1)
	return &faultyFile{h, f, path}, nil
}

func (f *faulty) stat(path string) (info, error) {
	if err := f.check("stat", path); err != nil {
		return info{}, err
	}
	return f.host.stat(path)
}

func (f *faulty) link(from, to string) error {
	if err := f.check("link", to); err != nil {
		return err
	}
	return f.host.link(from, to)
}

func (f *faulty) rename(from, to string) error {
	if err := f.check("rename", from); err != nil {
		return err
	}
	return f.host.rename(from, to)
}

func (f *faulty) remove(path string) error {
	if err := f.check("remove", path); err != nil {
		return err
	}
	return f.host.remove(path)
}

func (f *faulty) syncDir(dir string) error {
	if err := f.check("sync", dir); err != nil {
		return err
	}
	return f.host.syncDir(dir)
}

type faultyFile struct {
	file
	host *faulty
	path string
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if f.host.fail == nil {
		return f.file.WriteAt(p, off)
	}
	n, err := f.host.fail("write", f.path, len(p))
	if err == nil {
		return f.file.WriteAt(p, off)
	}
	if n > 0 {
		// A sector that does not come through stays as it was.
		was := aligned((len(p) + block - 1) / block * block)
		if _, err := f.file.ReadAt(was, off); err != nil {
			clear(was)
		}
		copy(was, p[:n])
		f.file.WriteAt(was, off)
	}
	return 0, err
}

func (f *faultyFile) Close() error {
	f.host.left.Add(-1)
	return f.file.Close()
}

func (f *faultyFile) sync() error {
	if err := f.host.check("sync", f.path); err != nil {
		return err
	}
	return f.file.sync()
}

var errCrash = errors.New("the process is dead")

// script is a handle's life. It reports each Put that was acknowledged.
func script(t *testing.T, s *Store, acked func(name string, seq uint64)) {
	try := func(names []string, seq uint64) {
		var ops []register.Op
		for _, name := range names {
			ops = append(ops, put(name, seq, 1, fmt.Sprint(seq)), note(name, seq, 1, fmt.Sprint(seq)))
		}
		for i, r := range s.Do(append(ops, query("x"))) {
			if i%2 == 0 && i < len(ops) && r.Err == nil {
				acked(names[i/2], seq)
			}
		}
	}
	try([]string{"x"}, 1)
	try([]string{"x"}, 2)
	try([]string{"x", "y", "z"}, 3)
	many := []string{"x", "y", "z"}
	for i := range leastSlots {
		many = append(many, fmt.Sprint("n", i))
	}
	try(many, 4)
	try(many, 5)
	s.Close()
}

// A crash at any point of a handle's life loses nothing that was acknowledged, shows
// nothing that was never tried, and holds nobody up for longer than the wait.
func TestCrashAnywhere(t *testing.T) {
	for _, through := range []string{"nothing", "a piece", "everything"} {
		t.Run(through, func(t *testing.T) {
			for point, more := 0, true; more; point++ {
				more = crashAt(t, point, through)
			}
		})
	}
}

// crashAt reports whether the crash came before the end.
func crashAt(t *testing.T, point int, through string) bool {
	b := newBench(t, InitOptions{SingleHost: true})
	steps := 0
	b.files = &faulty{host: host{buffered: true}, fail: func(step, path string, n int) (int, error) {
		steps++
		switch {
		case steps <= point:
			return 0, nil
		case steps > point+1 || through == "nothing":
			return 0, errCrash
		case through == "a piece":
			return n/2 + 100, errCrash
		}
		return n, errCrash
	}}
	s := b.open()
	acked := map[string]uint64{}
	script(t, s, func(name string, seq uint64) { acked[name] = seq })
	b.files = nil
	survivor := b.open()
	look := func(damage bool) {
		survivor.Do([]register.Op{query("x")}) // even if nothing was acknowledged
		for name, seq := range acked {
			r := survivor.Do([]register.Op{query(name)})[0]
			if damage && errors.Is(r.Err, register.ErrDamaged) {
				continue
			}
			if r.Err != nil {
				t.Errorf("crash at %d: %s: %v", point, name, r.Err)
				continue
			}
			st := state(t, survivor, name)
			if st.Version.Seq < seq || st.Version.Seq > 5 || string(st.Data) != fmt.Sprint(st.Version.Seq) {
				t.Errorf("crash at %d: %s shows %d %q, want what was acknowledged, %d, or later", point, name, st.Version.Seq, st.Data, seq)
			}
			if len(st.Notes) != 1 || st.Notes[0].Seq < seq {
				t.Errorf("crash at %d: %s shows notes %v, want that of %d or later", point, name, st.Notes, seq)
			}
		}
	}
	look(true)
	b.clock.pass(testWait)
	look(false)
	do(t, survivor, put("x", 10, 2, "on"))
	b.clock.pass(testWait)
	do(t, survivor, query("x"))
	for _, name := range b.handles() {
		if strings.HasSuffix(name, temporary) {
			t.Errorf("crash at %d: %s is still there", point, name)
		}
	}
	return steps > point
}

// A step that fails, once, at any point: the store goes on, and its registers never go
// back.
func TestFailureAnywhere(t *testing.T) {
	for _, through := range []int{0, 1, 2} {
		for point, more := 0, true; more; point++ {
			b := newBench(t, InitOptions{SingleHost: true})
			steps := 0
			b.files = &faulty{host: host{buffered: true}, fail: func(step, path string, n int) (int, error) {
				if steps++; steps == point+1 {
					return n * through / 2, unix.EIO
				}
				return 0, nil
			}}
			s := b.open()
			b.files = nil
			reader := b.open()
			last := map[string]uint64{}
			script(t, s, func(name string, seq uint64) {
				st := state(t, reader, name)
				if st.Version.Seq < seq || st.Version.Seq < last[name] {
					t.Errorf("failure at %d: %s shows %d after %d was acknowledged and %d seen", point, name, st.Version.Seq, seq, last[name])
				}
				last[name] = st.Version.Seq
			})
			for name := range last {
				if got := state(t, reader, name).Version.Seq; got != 5 {
					t.Errorf("failure at %d: %s shows %d in the end, want 5", point, name, got)
				}
			}
			if got := len(b.handles()); got > 2 {
				t.Errorf("failure at %d: files %v", point, b.handles())
			}
			more = steps > point
		}
	}
}

// A record of a failed write stays in the slot, or a reader that met it would see the
// register go back.
func TestAFailedPutMayAppear(t *testing.T) {
	b := newBench(t, InitOptions{})
	broken := false
	b.files = &faulty{fail: func(step, path string, n int) (int, error) {
		if broken && step != "sync" {
			return n, unix.EIO
		}
		return 0, nil
	}}
	s := b.open()
	b.files = nil
	reader := b.open()
	do(t, s, put("x", 1, 1, "one"))
	broken = true
	wantFailure(t, s, put("x", 2, 1, "two"), unix.EIO)
	wantContents(t, reader, "x", "2 two")
	broken = false
	do(t, s, note("x", 1, 1, "n"))
	wantContents(t, reader, "x", "2 two 1=n")
}

// A write that got stuck and comes in late does no harm: the handle has moved.
func TestAStuckWrite(t *testing.T) {
	b := newBench(t, InitOptions{})
	var stuck []func()
	f := &faulty{}
	b.files = f
	s := b.open()
	b.files = nil
	reader := b.open()
	do(t, s, put("x", 1, 1, "one"))
	for seq := uint64(2); seq < 6; seq++ {
		failed := false
		h := s.home
		old := append([]byte(nil), h.image...)
		f.fail = func(step, path string, n int) (int, error) {
			if step == "write" && !failed {
				failed = true
				dup, err := (host{}).open(filepath.Join(b.dir, handlesDir, h.place), true)
				if err != nil {
					t.Fatal(err)
				}
				stuck = append(stuck, func() {
					p := aligned(len(old))
					copy(p, old)
					dup.WriteAt(p, 0)
					dup.Close()
				})
				return 0, unix.EIO
			}
			return 0, nil
		}
		wantFailure(t, s, put("x", seq, 1, fmt.Sprint(seq)), unix.EIO)
		do(t, s, put("x", seq, 1, fmt.Sprint(seq)))
		for _, land := range stuck {
			land()
		}
		stuck = nil
		want := fmt.Sprintf("%d %d", seq, seq)
		wantContents(t, s, "x", want)
		wantContents(t, reader, "x", want)
	}
}

func TestAFullDisk(t *testing.T) {
	for _, errno := range []error{unix.ENOSPC, unix.EDQUOT} {
		b := newBench(t, InitOptions{})
		full := true
		b.files = &faulty{fail: func(step, path string, n int) (int, error) {
			if full && step == "write" {
				return n / 2, &os.PathError{Op: "write", Path: path, Err: errno}
			}
			return 0, nil
		}}
		s := b.open()
		r := s.Do([]register.Op{put("x", 1, 1, "one"), query("x")})
		if !errors.Is(r[0].Err, errno) || !strings.Contains(r[0].Err.Error(), "room") {
			t.Errorf("a Put on a full disk: %v, want advice to make room", r[0].Err)
		}
		if r[1].Err != nil {
			t.Errorf("a Query on a full disk: %v", r[1].Err)
		}
		if got := b.handles(); len(got) != 0 {
			t.Errorf("files %v, want none", got)
		}
		full = false
		do(t, s, put("x", 2, 1, "two"))
		full = true // as on a filesystem that copies on write
		wantFailure(t, s, put("x", 3, 1, "three"), errno)
		full = false
		wantContents(t, s, "x", "3 three")
	}
}

// A reader that cannot read does not take that for damage, however long it lasts.
func TestReadErrorsAreNotDamage(t *testing.T) {
	b := newBench(t, InitOptions{})
	do(t, b.open(), put("x", 1, 1, "one"))
	f := &unreadable{}
	b.files = f
	s := b.open()
	for range 3 {
		wantFailure(t, s, query("x"), unix.EIO)
		b.clock.pass(testWait)
	}
	f.works = true
	wantContents(t, s, "x", "1 one")
}

type unreadable struct {
	host
	works bool
}

func (u *unreadable) open(path string, write bool) (file, error) {
	f, err := u.host.open(path, write)
	if err != nil || u.works {
		return f, err
	}
	return &unreadableFile{f}, nil
}

type unreadableFile struct{ file }

func (unreadableFile) ReadAt([]byte, int64) (int, error) { return 0, unix.EIO }

// A look that lasts nearly as long as the wait is made again. By a clock that goes faster, it may
// have met a slot before that was used anew, and not the record that outdoes it.
func TestALookThatTakesTooLong(t *testing.T) {
	b := newBench(t, InitOptions{})
	do(t, b.open(), put("x", 1, 1, "one"))
	f := &faulty{}
	b.files = f
	s := b.open()
	longest := testWait * 9 / 10
	for _, pause := range []time.Duration{longest - 1, longest} {
		opened := 0
		f.before = func(step, _ string) {
			if step == "open" {
				if opened++; opened == 1 {
					b.clock.pass(pause)
				}
			}
		}
		wantContents(t, s, "x", "1 one")
		if want := 1 + int(pause/longest); opened != want {
			t.Errorf("a look that takes %v: the place was read %d times, want %d", pause, opened, want)
		}
	}
}

// A handle's record moves to another handle while a reader is between the two.
func TestHandlesThatComeAndGoDuringALook(t *testing.T) {
	move := func(t *testing.T, b *bench, from *Store) {
		to := b.open()
		do(t, to, put("x", 2, 2, "two"), query("x"))
		do(t, from, query("x"))
		from.Close()
	}
	tests := []struct {
		name string
		// set makes move happen at some point of the reader's look.
		set func(f *faulty, gone string, move func())
	}{
		{"after the list", func(f *faulty, gone string, move func()) {
			f.before = func(step, path string) {
				if step == "open" && filepath.Base(path) == gone {
					move()
				}
			}
		}},
		{"in the middle of the list, which misses both", func(f *faulty, gone string, move func()) {
			f.list = func(names []string) []string {
				move()
				var rest []string
				for _, n := range names {
					if n != gone {
						rest = append(rest, n)
					}
				}
				return rest
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, InitOptions{})
			b.t = t
			from, other := b.open(), b.open()
			do(t, other, put("z", 9, 3, "so that the first can be removed"))
			do(t, from, put("x", 1, 1, "one"))
			gone := from.home.place
			f := &faulty{}
			b.files = f
			reader := b.open()
			b.files = nil
			moved := false
			tt.set(f, gone, func() {
				if !moved {
					moved = true
					move(t, b, from)
					if len(b.handles()) != 2 {
						t.Errorf("files %v: the first was not removed", b.handles())
					}
				}
			})
			wantContents(t, reader, "x", "2 two")
			if !moved {
				t.Error("nothing moved")
			}
		})
	}
}
