package waltest

import (
	"maps"
	"slices"
)

// Image is what a disk held at a moment, synced or not, as a copy of it would.
type Image struct{ dirs map[string]map[string][]byte }

// Image copies the disk.
func (d *Disk) Image() Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	img := Image{map[string]map[string][]byte{}}
	for path, in := range d.dirs {
		files := map[string][]byte{}
		for name, ino := range in.names {
			files[name] = slices.Clone(ino.data)
		}
		img.dirs[path] = files
	}
	return img
}

// Restore ends all processes and puts an image in the place of what the disk holds, all of
// it durable. The zero Image is an empty disk.
func (d *Disk) Restore(img Image) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
	d.dirs = map[string]*dir{}
	for path, files := range img.dirs {
		in := d.at(path)
		for name, contents := range files {
			in.names[name] = &inode{}
			in.names[name].set(contents)
		}
		in.durable = maps.Clone(in.names)
	}
}

// end ends all processes. The lock is held.
func (d *Disk) end() {
	d.boot++
	d.dead = false
	d.lock = map[string]bool{}
}
