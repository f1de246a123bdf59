package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// InitOptions are fixed, too, when a store is made.
type InitOptions struct {
	// SingleHost makes a store for the processes of one host only, which then share
	// the host's page cache: faster, and on any filesystem.
	SingleHost bool
	// Handles is how many can be open at a time, of a device. A directory takes any
	// number: 0.
	Handles int
	// Slots is how many registers each handle can write at a time, of a device; 0 means
	// 32. A file in a directory grows.
	Slots int
	// FS is where a directory is. Default OS.
	FS FS
}

// Init makes a store in an empty directory, on a block device, or in a preallocated file, which
// have to be there and, but for zeros, empty. It touches nothing else. Of several at once one
// succeeds, and the others fail with fs.ErrExist. On a device nothing tells them apart: only one
// process at a time may make a store there. A crash leaves either a store or something where Init
// can be called again.
func Init(path string, h register.Header, opts InitOptions) error {
	at, err := survey(path, h, opts)
	if err != nil {
		return err
	}
	defer at.close()
	return at.init(path)
}

// Check reports why Init could not make a store, as far as that can be known beforehand, and
// leaves nothing behind. To make several stores, call it for each of them before the first Init.
func Check(path string, h register.Header, opts InitOptions) error {
	at, err := survey(path, h, opts)
	if err == nil {
		at.close()
	}
	return err
}

// site is a place where a store can be made.
type site struct {
	header storeHeader
	sys    FS          // of a directory
	perm   fs.FileMode // of a directory
	device file        // nil if it is a directory
}

// init makes the store.
func (at site) init(path string) error {
	if at.device != nil {
		return advise(lay(at.device, &at.header))
	}
	return initDirectory(at.sys, path, at.header, at.perm)
}

func (at site) close() {
	if at.device != nil {
		at.device.Close()
	}
}

// survey checks that a store can be made at a path. The caller closes the site that it returns.
func survey(path string, h register.Header, opts InitOptions) (at site, err error) {
	at.header = storeHeader{Header: h, single: opts.SingleHost, areas: opts.Handles, slots: opts.Slots}
	if err := at.header.check(); err != nil {
		return at, err
	}
	if at.sys = opts.FS; at.sys == nil {
		at.sys = OS
	}
	st, err := at.sys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return at, fmt.Errorf("%w: make the directory first (mkdir), on the filesystem that is to be shared", err)
	}
	if err != nil {
		return at, err
	}
	at.perm = st.Mode.Perm()
	switch {
	case st.Mode.IsDir() && (opts.Handles != 0 || opts.Slots != 0):
		return at, register.Choice(fmt.Errorf("%s is a directory, which takes any number of handles and registers: limits are for devices", path))
	case st.Mode.IsDir():
		return at, surveyDirectory(at.sys, path, at.header)
	case !isDevice(st.Mode):
		return at, fmt.Errorf("%s is %v: leases are kept in a directory, on a block device, or in a preallocated file", path, st.Mode.Type())
	}
	at.device, err = surveyDevice(path, &at.header)
	return at, err
}

func surveyDirectory(sys FS, path string, header storeHeader) error {
	if there, _ := exists(sys, filepath.Join(path, headerName)); there {
		return errExists(path)
	}
	if err := checkEmpty(sys, path); err != nil {
		return err
	}
	if header.single {
		return nil
	}
	return probeDir(sys, path)
}

func initDirectory(sys FS, path string, header storeHeader, perm fs.FileMode) error {
	handles := filepath.Join(path, handlesDir)
	if err := sys.Mkdir(handles, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return advise(err)
	}
	if err := sys.Chmod(handles, perm); err != nil { // past the umask, and if a crashed Init made it
		return err
	}
	var id machine.ID
	rand.Read(id[:])
	temp := filepath.Join(path, headerName+"."+id.String()+temporary)
	d := &directory{files: host{buffered: header.single, fs: sys}, perm: perm & 0o666}
	f, err := d.files.create(temp, d.perm)
	if err != nil {
		return advise(err)
	}
	defer f.Close()
	defer sys.Remove(temp)
	b := aligned(block)
	header.encode(b)
	if _, err := f.WriteAt(b, 0); err != nil {
		return advise(err)
	}
	if err := f.sync(); err != nil {
		return advise(err)
	}
	err = sys.Link(temp, filepath.Join(path, headerName))
	if errors.Is(err, fs.ErrExist) {
		return errExists(path)
	}
	if err != nil {
		return advise(err)
	}
	return d.files.syncDir(path)
}

// probeDir calls probe on a file that it makes and removes.
func probeDir(sys FS, path string) error {
	var id machine.ID
	rand.Read(id[:])
	name := filepath.Join(path, headerName+"."+id.String()+temporary)
	f, err := sys.Open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return advise(err)
	}
	defer sys.Remove(name)
	defer f.Close()
	return sys.Probe(name)
}

func errExists(path string) error {
	return fmt.Errorf("%s is a store already: use it as it is: %w", path, fs.ErrExist)
}

// checkEmpty returns an error unless a store may be made in a directory: it is empty, or holds only
// the traces of an Init that crashed or has not ended.
func checkEmpty(sys FS, path string) error {
	names, err := sys.Names(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		switch {
		case name == "." || name == "..":
		case name == headerName:
			return errExists(path)
		case name == "lost+found":
		case name == handlesDir && isDir(sys, filepath.Join(path, name)):
			inside, err := sys.Names(filepath.Join(path, name))
			if err != nil {
				return err
			}
			inside = slices.DeleteFunc(inside, func(n string) bool { return n == "." || n == ".." })
			if there, _ := exists(sys, filepath.Join(path, headerName)); there {
				return errExists(path) // it was made since the list was
			}
			if len(inside) > 0 {
				return fmt.Errorf("%s has %s/%s but no %s: %w: a store has lost its header; its leases end within twice their term. Bring back %s from a copy, or stop all processes that use the directory and empty it; use no other directory before they have stopped",
					path, name, inside[0], headerName, register.ErrForeign, headerName)
			}
		case strings.HasPrefix(name, headerName+".") && strings.HasSuffix(name, temporary):
		default:
			return fmt.Errorf("%s has %s in it: %w: use an empty directory", path, name, register.ErrForeign)
		}
	}
	return nil
}

func isDir(sys FS, path string) bool {
	st, err := sys.Lstat(path)
	return err == nil && st.Mode.IsDir()
}
