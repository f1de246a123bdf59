package torture

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register/file"
)

// place is one store's place, with the attacks that can be made on it. Where we may, each
// has a small filesystem of its own, which can be filled and frozen.
type place struct {
	root    string // holds the store and the copies that were put aside
	mounted bool
}

// newPlace makes one below dir, without the store.
func newPlace(dir string, n int) (*place, error) {
	p := &place{root: filepath.Join(dir, fmt.Sprint("place", n))}
	if err := os.Mkdir(p.root, 0o755); err != nil {
		return nil, err
	}
	image := p.root + ".img"
	p.mounted = run("truncate", "-s", "12M", image) == nil && run("mkfs.ext4", "-q", "-m", "0", image) == nil &&
		run("mount", "-o", "loop", image, p.root) == nil
	return p, nil
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func (p *place) store() string  { return filepath.Join(p.root, "store") }
func (p *place) aside() string  { return filepath.Join(p.root, "aside") }
func (p *place) copied() string { return filepath.Join(p.root, "copy") }
func (p *place) filler() string { return filepath.Join(p.root, "filler") }

// remove undoes newPlace, when nobody uses it any more.
func (p *place) remove() error {
	if !p.mounted {
		return nil
	}
	return run("umount", p.root)
}

// vanish takes the directory away; back brings it back as it is now.
func (p *place) vanish() error { return os.Rename(p.store(), p.aside()) }
func (p *place) back() error   { return os.Rename(p.aside(), p.store()) }

// empty puts an empty directory in the place of one that vanished, and unempty takes it
// away. Nobody may have put anything into it.
func (p *place) empty() error   { return os.Mkdir(p.store(), 0o755) }
func (p *place) unempty() error { return os.Remove(p.store()) }

// backup copies the directory, and restore puts the copy in its place.
func (p *place) backup() error { return run("cp", "-a", p.store(), p.copied()) }

func (p *place) restore() error {
	return errors.Join(p.vanish(), os.Rename(p.copied(), p.store()), os.RemoveAll(p.aside()))
}

// freeze has all writes hang, and thaw lets them go on.
func (p *place) freeze() error { return run("fsfreeze", "-f", p.root) }
func (p *place) thaw() error   { return run("fsfreeze", "-u", p.root) }

// fill leaves no room on the filesystem, and drain makes it again.
func (p *place) fill() error {
	f, err := os.Create(p.filler())
	if err != nil {
		return err
	}
	defer f.Close()
	for buf := make([]byte, 4096); ; {
		if _, err := f.Write(buf); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (p *place) drain() error { return os.Remove(p.filler()) }

// flip inverts a bit of a record that is in use: in one of its copies, or in both.
func (p *place) flip(random *rand.Rand, both bool) error {
	s, err := file.Open(p.store(), file.Options{Clock: clock.Now, ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	type slot struct {
		path      string
		slots, at int
	}
	var used []slot
	for h, err := range s.Dump() {
		if err != nil {
			return err
		}
		for _, r := range h.Records {
			if r.Name != "" {
				used = append(used, slot{filepath.Join(p.store(), "handles", h.Place), h.Slots, r.Slot})
			}
		}
	}
	if len(used) == 0 {
		return errNothing
	}
	u := used[random.IntN(len(used))]
	first := random.IntN(2)
	bit := random.IntN(sector * 8)
	for c := range 2 {
		if both || c == first {
			// A header, a farewell, the one copies of all slots, the other copies.
			if err := flipBit(u.path, int64(2+c*u.slots+u.at)*4096, bit); err != nil {
				return err
			}
		}
	}
	return nil
}

// errNothing is an attack that finds nothing to attack.
var errNothing = errors.New("nothing to damage")

const sector = 512

// flipBit damages the sector at off past the page cache, as a disk would.
func flipBit(path string, off int64, bit int) error {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_DIRECT|syscall.O_SYNC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return errNothing // it was just tidied away
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b := alignedSector()
	if _, err := f.ReadAt(b, off); errors.Is(err, io.EOF) {
		return errNothing
	} else if err != nil {
		return err
	}
	b[bit/8] ^= 1 << (bit % 8)
	_, err = f.WriteAt(b, off)
	return err
}
