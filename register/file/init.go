package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/register"
)

// InitOptions are what else is fixed when a store is made.
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
}

// Init makes a store in an empty directory, on a block device, or in a preallocated
// file, which have to be there and, but for zeros, empty. It touches nothing else. Of
// several at once one succeeds, the others fail with fs.ErrExist. A crash leaves either
// a store or something where Init can be called again.
func Init(path string, h register.Header, opts InitOptions) error {
	header := storeHeader{Header: h, single: opts.SingleHost, areas: opts.Handles, slots: opts.Slots}
	if err := header.check(); err != nil {
		return err
	}
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: make the directory first (mkdir), on the filesystem that is to be shared", err)
	}
	if err != nil {
		return err
	}
	switch {
	case st.IsDir() && (opts.Handles != 0 || opts.Slots != 0):
		return fmt.Errorf("%s is a directory, which takes any number of handles and registers: limits are for devices", path)
	case st.IsDir():
		return initDirectory(path, header, st.Mode().Perm())
	case !isDevice(st.Mode()):
		return fmt.Errorf("%s is %v: leases are kept in a directory, on a block device, or in a preallocated file", path, st.Mode().Type())
	}
	return initDevice(path, header)
}

func initDirectory(path string, header storeHeader, perm fs.FileMode) error {
	if _, err := os.Lstat(filepath.Join(path, headerName)); err == nil {
		return exists(path)
	}
	if err := checkEmpty(path); err != nil {
		return err
	}
	if !header.single {
		if err := probeDir(path); err != nil {
			return err
		}
	}
	handles := filepath.Join(path, handlesDir)
	if err := os.Mkdir(handles, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return advise(err)
	}
	if err := os.Chmod(handles, perm); err != nil { // past the umask, and if a crashed Init made it
		return err
	}
	var id machine.ID
	rand.Read(id[:])
	temp := filepath.Join(path, headerName+"."+id.String()+temporary)
	d := &directory{files: host{buffered: header.single}, perm: perm & 0o666}
	f, err := d.files.create(temp, d.perm)
	if err != nil {
		return advise(err)
	}
	defer f.Close()
	defer os.Remove(temp)
	b := aligned(block)
	header.encode(b)
	if _, err := f.WriteAt(b, 0); err != nil {
		return advise(err)
	}
	if err := f.sync(); err != nil {
		return advise(err)
	}
	err = os.Link(temp, filepath.Join(path, headerName))
	if errors.Is(err, fs.ErrExist) {
		return exists(path)
	}
	if err != nil {
		return advise(err)
	}
	return d.files.syncDir(path)
}

// probeDir tries what probe looks at on a file that it makes and removes.
func probeDir(path string) error {
	f, err := os.CreateTemp(path, headerName+".*"+temporary)
	if err != nil {
		return advise(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	return probe(f.Name())
}

func exists(path string) error {
	return fmt.Errorf("%s is a store already: use it as it is: %w", path, fs.ErrExist)
}

// checkEmpty tells whether a store may be made in a directory: there is nothing, or
// what an Init that crashed, or has not ended, left behind.
func checkEmpty(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == headerName:
			return exists(path)
		case name == "lost+found":
		case name == handlesDir && e.IsDir():
			inside, err := os.ReadDir(filepath.Join(path, name))
			if err != nil {
				return err
			}
			if len(inside) > 0 {
				return fmt.Errorf("%s has %s/%s but no %s: %w: use an empty directory", path, name, inside[0].Name(), headerName, register.ErrForeign)
			}
		case strings.HasPrefix(name, headerName+".") && strings.HasSuffix(name, temporary):
		default:
			return fmt.Errorf("%s has %s in it: %w: use an empty directory", path, name, register.ErrForeign)
		}
	}
	return nil
}
