package file

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tenure-lease/tenure/machine"
)

// volume holds the places of all handles: a directory of files, or a device's areas.
type volume interface {
	// places lists them, in order.
	places() ([]string, error)
	// open opens a place to read it. It fails with fs.ErrNotExist if there is none.
	open(place string) (file, error)
	// shared tells that handles come and go in a place, each with records of the
	// earlier ones beside its own.
	shared() bool
	// discard removes a place for good.
	discard(place string) error
	// litter lists what crashed handles left half made.
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
	// Those who may use the directory may use its files.
	perm fs.FileMode
}

func (d *directory) header() string              { return filepath.Join(d.path, headerName) }
func (d *directory) handles() string             { return filepath.Join(d.path, handlesDir) }
func (d *directory) pathOf(place string) string  { return filepath.Join(d.path, handlesDir, place) }
func (d *directory) shared() bool                { return false }
func (d *directory) open(p string) (file, error) { return d.files.open(d.pathOf(p), false) }
func (d *directory) places() ([]string, error)   { return d.list(isHandle) }
func (d *directory) litter() ([]string, error)   { return d.list(isTemporary) }
func isHandle(name string) bool                  { _, ok := parseHandle(name); return ok }
func isTemporary(name string) bool {
	name, ok := strings.CutSuffix(name, temporary)
	return ok && isHandle(name)
}

// list leaves out what is not ours: editors and network filesystems put things
// into directories.
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

func (d *directory) discard(place string) error {
	err := d.files.remove(d.pathOf(place))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
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
