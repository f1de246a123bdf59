package server

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Kind names a server implementation.
type Kind string

// The two kinds.
const (
	Etcd   Kind = "etcd"
	Tenure Kind = "tenure"
)

// Kinds lists what to run tests against: both, unless the environment variable
// TENURE_COMPAT_KINDS names fewer, separated by commas.
func Kinds() []Kind {
	names := os.Getenv("TENURE_COMPAT_KINDS")
	if names == "" {
		return []Kind{Etcd, Tenure}
	}
	var kinds []Kind
	for name := range strings.SplitSeq(names, ",") {
		kinds = append(kinds, Kind(name))
	}
	return kinds
}

// Has reports whether kind is among Kinds.
func Has(kind Kind) bool { return slices.Contains(Kinds(), kind) }

// Binary builds the server of a kind, or etcdctl when asked for "etcdctl", and
// returns its path. Builds are kept in the user's cache directory and are
// brought up to date by each call; processes that build at once take turns. The
// environment variable TENURE_COMPAT_BINARY names a Tenure built before, to try
// another version of it.
func Binary(kind Kind) (string, error) {
	if path := os.Getenv("TENURE_COMPAT_BINARY"); path != "" && kind == Tenure {
		return path, nil
	}
	module, pkg := moduleDir(), ""
	switch kind {
	case Etcd:
		pkg = "go.etcd.io/etcd/server/v3"
	case "etcdctl":
		pkg = "go.etcd.io/etcd/etcdctl/v3"
	case Tenure: // with its own go.mod, as it is shipped
		module, pkg = filepath.Dir(module), "./cmd/tenure"
	default:
		return "", fmt.Errorf("unknown kind %q: want etcd or tenure", kind)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "tenure-compat")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, string(kind)+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the build of %s: %w", kind, err)
	}
	path := filepath.Join(dir, string(kind))
	build := exec.Command("go", "build", "-o", path, pkg)
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build %s: %w", kind, err), errors.New(string(out)))
	}
	return path, nil
}

// moduleDir is the directory of this module's go.mod.
func moduleDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(file))
}
