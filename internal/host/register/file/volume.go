package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// volume holds the places of all handles: a directory of files, or a device's areas.
type volume interface {
	// names lists the names that places have now, in order: see condemned.
	names() ([]string, error)
	// open opens the file or area of a name to read it. It fails with fs.ErrNotExist if nothing
	// has.
	open(name string) (file, error)
	// shared reports whether handles come and go in a place, each with records of the earlier ones
	// beside its own.
	shared() bool
	// discard removes the file of a name for good.
	discard(name string) error
	// condemn gives a place a name that it has never had, and returns that.
	condemn(place string) (name string, err error)
	// pardon gives a place its first name back.
	pardon(name string) error
	// untwin removes names in excess of places that have several.
	untwin(names []string) error
	// litter lists the half-made files of crashed handles.
	litter() ([]string, error)
}

const (
	headerName = "TENURE"
	handlesDir = "handles"
)

// directory has a file for each handle.
type directory struct {
	path  string
	files files
	sys   FS // for the header
	// Users of the directory may use its files.
	perm fs.FileMode
	// rooted says that the names of the header and of the handles' directory are durable.
	rooted bool
}

func (d *directory) header() string              { return filepath.Join(d.path, headerName) }
func (d *directory) handles() string             { return filepath.Join(d.path, handlesDir) }
func (d *directory) pathOf(place string) string  { return filepath.Join(d.path, handlesDir, place) }
func (d *directory) shared() bool                { return false }
func (d *directory) open(n string) (file, error) { return d.files.open(d.pathOf(n), false) }
func (d *directory) names() ([]string, error)    { return d.list(isPlace) }
func (d *directory) litter() ([]string, error)   { return d.list(isTemporary) }
func isHandle(name string) bool                  { _, ok := parseHandle(name); return ok }

// isPlace reports whether a file's name is, or was made from, a handle's.
func isPlace(name string) bool {
	place, once, more := strings.Cut(name, ".")
	return isHandle(place) && (!more || isHandle(once))
}

func isTemporary(name string) bool {
	name, ok := strings.CutSuffix(name, temporary)
	return ok && isHandle(name)
}

// list leaves out foreign files: editors and network filesystems put things into directories.
func (d *directory) list(want func(string) bool) ([]string, error) {
	names, err := d.files.names(d.handles())
	if err != nil {
		return nil, err
	}
	n := 0
	for _, name := range names {
		if want(name) {
			names[n] = name
			n++
		}
	}
	return names[:n], nil
}

func (d *directory) condemn(place string) (string, error) {
	var once machine.ID
	rand.Read(once[:])
	name := place + "." + once.String()
	return name, d.files.rename(d.pathOf(place), d.pathOf(name))
}

func (d *directory) pardon(name string) error {
	return d.files.rename(d.pathOf(name), d.pathOf(placeOf(name)))
}

// untwin repairs the trace that a crash in the middle of a rename may leave: two names of one file.
// Of these a condemned one goes. It is looked at before the other: if the file had gone from the
// one to the other meanwhile, the first would be gone for ever.
func (d *directory) untwin(names []string) error {
	for i := 1; i < len(names); i++ {
		if placeOf(names[i-1]) != placeOf(names[i]) {
			continue
		}
		excess, err := d.files.stat(d.pathOf(names[i]))
		if err != nil {
			continue // it was in the making, or is gone
		}
		other, err := d.files.stat(d.pathOf(names[i-1]))
		if err != nil {
			continue
		}
		if excess.ident != other.ident {
			return fmt.Errorf("%s and %s are two files of one handle, as when a backup was copied over the directory: %w: remove the older one", names[i-1], names[i], register.ErrDamaged)
		}
		if err := d.discard(names[i]); err != nil {
			return err
		}
	}
	return nil
}

// placeOf returns the place of a name. A name is the handle's, and after a dot the random mark of
// one condemnation.
func placeOf(name string) string {
	place, _, _ := strings.Cut(name, ".")
	return place
}

func condemned(name string) bool { return strings.Contains(name, ".") }

func (d *directory) discard(name string) error {
	err := d.files.remove(d.pathOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// root makes the store's own names durable. The Init that made them may have died, or failed, just before it did so,
// and without them a loss of power would take away what a handle has promised: a new store might be made
// beside its leases. A user who must not list the directory relies on another's having done it.
func (d *directory) root() error {
	if d.rooted {
		return nil
	}
	if err := d.files.syncDir(d.path); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	d.rooted = true
	return nil
}

// add makes a new handle's file with these contents. Others see it only when it is
// whole and durable.
func (d *directory) add(id machine.ID, image []byte) (f file, ident [2]uint64, err error) {
	path := d.pathOf(handleName(id))
	if f, err = d.files.create(path+temporary, d.perm); err != nil {
		return nil, ident, err
	}
	err = d.publish(f, path, image)
	if err == nil {
		var st info
		st, err = f.stat()
		ident = st.ident
	}
	if err != nil {
		f.Close()
		d.files.remove(path + temporary)
		return nil, ident, err
	}
	return f, ident, nil
}

// publish fills a new file and gives it its name, unless another has that.
func (d *directory) publish(f file, path string, image []byte) error {
	if _, err := f.WriteAt(image, 0); err != nil {
		return err
	}
	if err := f.sync(); err != nil {
		return err
	}
	if err := d.files.link(path+temporary, path); err != nil {
		return err
	}
	if err := d.files.remove(path + temporary); err != nil {
		return err
	}
	return d.files.syncDir(filepath.Dir(path))
}
