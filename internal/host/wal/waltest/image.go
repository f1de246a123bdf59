package waltest

import (
	"path/filepath"
	"slices"
)

// Image is what a disk held at a moment, synced or not, as a copy of it would.
type Image struct{ dirs map[string]map[string][]byte }

// Image copies the disk.
func (d *Disk) Image() Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	img := Image{map[string]map[string][]byte{}}
	img.take("/", d.root)
	return img
}

func (img Image) take(path string, in *dir) {
	files := map[string][]byte{}
	for name, ino := range in.names {
		if ino.sub != nil {
			img.take(filepath.Join(path, name), ino.sub)
		} else {
			files[name] = slices.Clone(ino.data)
		}
	}
	img.dirs[path] = files
}

// Restore ends all processes and puts an image in the place of what the disk holds, all of
// it durable. The zero Image is an empty disk.
func (d *Disk) Restore(img Image) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
	d.root = newDir()
	for path, files := range img.dirs {
		in := d.at(path)
		for name, contents := range files {
			ino := &inode{}
			ino.set(contents)
			in.names[name], in.durable[name] = ino, ino
		}
	}
}

// end ends all processes. The lock is held.
func (d *Disk) end() {
	d.boot++
	d.dead = false
	d.lock = map[string]bool{}
}
