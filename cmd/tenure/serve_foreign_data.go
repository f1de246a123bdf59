package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// refuseEtcd refuses to begin with nothing where an etcd with the same settings keeps its data: its clients
// would find an empty store.
func (o *serveOptions) refuseEtcd(dir string) error {
	if o.hasStarted() || !holdsEtcd(dir) {
		return nil
	}
	return fmt.Errorf("%s has the data of an etcd, which is not read here, so the member would begin with an empty store: "+
		"save a snapshot of that etcd (etcdctl snapshot save FILE), stop it, and make a directory of the snapshot (tenure snapshot restore FILE --bump-revision 0 --data-dir DIRECTORY). "+
		"With another --data-dir the member does begin with an empty store", dir)
}

// holdsEtcd reports whether a directory is the data directory of an etcd.
func holdsEtcd(dir string) bool {
	for _, name := range []string{"snap", "wal"} {
		if _, err := os.Stat(filepath.Join(dir, "member", name)); err == nil {
			return true
		}
	}
	return false
}
