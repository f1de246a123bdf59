package file_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/host/register/filetest"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// TestNothingIsLeftOpen: code that goes past file.OS, and so past filetest.Main, leaves no
// descriptor open either.
func TestNothingIsLeftOpen(t *testing.T) { synctest.Test(t, nothingIsLeftOpen) }

// simulated is the bubble's clock.
func simulated() machine.Mono { return machine.Mono(time.Now().UnixNano()) }

func nothingIsLeftOpen(t *testing.T) {
	dir := t.TempDir()
	h := register.Header{Set: machine.ID{1}, Of: 1, Term: time.Minute, Delay: 10 * time.Millisecond}
	device := filepath.Join(dir, "device")
	handles := file.InitOptions{Handles: 2, Slots: 2}
	blank := func() {
		if err := os.WriteFile(device, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	fresh := func() string {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := func(what string, err, want error) {
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	for what, call := range map[string]func(what string){
		"to list a directory":  func(what string) { _, err := file.OS.Names(dir); want(what, err, nil) },
		"to sync a directory":  func(what string) { want(what, file.OS.SyncDir(dir), nil) },
		"to probe a file":      func(what string) { blank(); want(what, file.OS.Probe(device), nil) },
		"to list what is none": func(what string) { blank(); _, err := file.OS.Names(device); want(what, err, unix.ENOTDIR) },
		"to check a directory": func(what string) { want(what, file.Check(fresh(), h, file.InitOptions{}), nil) },
		"to make a directory":  func(what string) { want(what, file.Init(fresh(), h, file.InitOptions{}), nil) },
		"to check a device":    func(what string) { blank(); want(what, file.Check(device, h, handles), nil) },
		"to make a device":     func(what string) { blank(); want(what, file.Init(device, h, handles), nil) },
		"to make a device again": func(what string) {
			blank()
			want(what, file.Init(device, h, handles), nil)
			want(what, file.Init(device, h, handles), fs.ErrExist)
		},
		"to make no device": func(what string) {
			if err := os.WriteFile(device, []byte("something else"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := file.Init(device, h, handles); err == nil {
				t.Errorf("%s: want an error", what)
			}
		},
		"to write to a directory": func(what string) {
			path := fresh()
			want(what, file.Init(path, h, file.InitOptions{}), nil)
			openAndWrite(t, path)
		},
		"to write to a device": func(what string) {
			blank()
			want(what, file.Init(device, h, handles), nil)
			openAndWrite(t, device)
		},
		"to look at a device": func(what string) {
			blank()
			want(what, file.Init(device, h, handles), nil)
			s, err := file.Open(device, file.Options{Clock: simulated, ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			want(what, s.Close(), nil)
		},
		"to open a device that was cut short": func(what string) {
			blank()
			want(what, file.Init(device, h, handles), nil)
			if err := os.Truncate(device, 8192); err != nil {
				t.Fatal(err)
			}
			_, err := file.Open(device, file.Options{Clock: simulated})
			want(what, err, register.ErrDamaged)
		},
	} {
		filetest.Descriptors(t, what, func() { call(what) })
	}
}

func openAndWrite(t *testing.T, path string) {
	t.Helper()
	s, err := file.Open(path, file.Options{Clock: simulated})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := quorumregister.Put{Version: machine.Version{Seq: 1, Writer: machine.ID{1}}, Data: []byte("x")}
	if r := s.Do([]register.Op{{Name: "x", Writer: machine.ID{1}, Op: put}})[0]; r.Err != nil {
		t.Error(r.Err)
	}
}
