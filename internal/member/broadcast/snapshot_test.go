package broadcast

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

var errBroken = errors.New("the disk is broken")

// aloneOn starts a member that is alone, with its directory on a disk in memory and with some messages.
func aloneOn(t *testing.T, messages Position) (*Node, *faults) {
	t.Helper()
	fs, faults := waltest.NewDisk().FS(), &faults{}
	fs.Fault = faults.fail
	n, err := Start(aloneConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { patience.Returns(t, "Close", n.Close) })
	for n.Position() < messages {
		if _, err := n.Barrier(patience.Soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	return n, faults
}

// aloneConfig is that of a member that is alone.
func aloneConfig(fs wal.FS) Config {
	return Config{
		ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: "/data",
		WAL: wal.Options{FS: fs, SegmentBytes: 4 << 10},
	}
}

// faults are those of a disk. They may change while the disk works.
type faults struct {
	now atomic.Pointer[func(op, path string) error]
}

func (f *faults) fail(op, path string) error {
	if now := f.now.Load(); now != nil {
		return (*now)(op, path)
	}
	return nil
}

func (f *faults) set(now func(op, path string) error) { f.now.Store(&now) }
func (f *faults) end()                                { f.now.Store(nil) }

// saveState keeps a state that says its position.
func (n *Node) saveState(at Position) error {
	return n.Snapshot(at, func(w io.Writer) error { _, err := fmt.Fprint(w, at); return err })
}

// A snapshot may be replaced after it was listed and before its file is opened: then the application
// installs the newer one, and another member gets that one, too.
func TestASnapshotThatIsReplacedMeanwhile(t *testing.T) {
	n, disk := aloneOn(t, 9)
	if err := n.saveState(1); err != nil {
		t.Fatal(err)
	}
	next := Position(2)
	replaces := func() {
		once := true
		disk.set(func(op, path string) error {
			if once && op == "open" && filepath.Dir(path) == "/data/snap" {
				once = false
				return n.saveState(next)
			}
			return nil
		})
	}
	replaces()
	at, r, err := n.Install()
	disk.end()
	if err != nil || at != next {
		t.Fatalf("snapshot 1 is replaced while it is opened: Install gives that of %d, %v; want that of %d", at, err, next)
	}
	if state, err := io.ReadAll(r); err != nil || string(state) != "2" {
		t.Errorf("Install gives %q, %v; want the state after 2", state, err)
	}
	r.Close()

	next = 3
	replaces()
	at, file, size, err := n.openSnapshotFile()
	disk.end()
	if err != nil || at != next {
		t.Fatalf("snapshot 2 is replaced while it is opened: another member is given that of %d, %v; want that of %d", at, err, next)
	}
	if b, err := io.ReadAll(file); err != nil || int64(len(b)) != size || !bytes.Contains(b, []byte("3")) {
		t.Errorf("another member is given %d of %d bytes, %v", len(b), size, err)
	}
	file.Close()
}

// A member that has trimmed and has no snapshot, as after one was taken away, sends nothing and returns
// an error.
func TestWithoutASnapshotNothingIsExported(t *testing.T) {
	n, _ := aloneOn(t, 1)
	if at, file, _, err := n.openSnapshotFile(); err == nil || at != 0 {
		file.Close()
		t.Errorf("without a snapshot that of %d is exported, %v", at, err)
	}
}

// The application gets the disk's errors about snapshots. The member ends only where delivered
// messages may be lost.
func TestSnapshotsOnABrokenDisk(t *testing.T) {
	fails := func(op, in string) func(op, path string) error {
		return func(o, path string) error {
			if o == op && strings.HasPrefix(path, in) {
				return errBroken
			}
			return nil
		}
	}
	for _, tt := range []struct {
		what  string
		fault func(op, path string) error
		call  func(n *Node) error
		ends  bool
	}{
		{"Snapshot cannot look at first", func() func(op, path string) error {
			looks, fails := 0, fails("readdir", "/data/snap")
			return func(op, path string) error {
				err := fails(op, path)
				if err != nil {
					looks++
				}
				if looks > 1 {
					return nil
				}
				return err
			}
		}(), func(n *Node) error { return n.saveState(3) }, false},
		{"Snapshot cannot write", fails("write", "/data/snap"), func(n *Node) error { return n.saveState(7) }, false},
		{"Snapshot cannot remove the one before", fails("remove", "/data/snap"), func(n *Node) error { return n.saveState(7) }, false},
		{"Install cannot look", fails("readdir", "/data/snap"), func(n *Node) error { _, _, err := n.Install(); return err }, false},
		{"Install cannot open", fails("open", "/data/snap"), func(n *Node) error { _, _, err := n.Install(); return err }, false},
		{"a transfer cannot look", fails("readdir", "/data/snap"), func(n *Node) error { _, _, _, err := n.openSnapshotFile(); return err }, false},
		{"a transfer cannot open", fails("open", "/data/snap"), func(n *Node) error {
			_, _, _, err := n.openSnapshotFile()
			return fmt.Errorf("broadcast: %w", err)
		}, false},
		{"Trim cannot look", fails("readdir", "/data/snap"), func(n *Node) error { return n.Trim(4) }, false},
		{"Trim cannot begin the history anew", fails("sync", "/data/history"), func(n *Node) error { return n.Trim(4) }, true},
		{"Trim cannot keep what is held for another member", fails("sync", "/data/history"), func(n *Node) error {
			n.mu.Lock()
			n.transfers[2] = &transfer{writing: true, from: 2}
			n.mu.Unlock()
			return n.Trim(4)
		}, true},
		{"Trim cannot remove what is trimmed", fails("remove", "/data/history"), func(n *Node) error {
			for p := range Position(6) { // each has a file of its own
				if err := n.appendToHistory([]Message{{Position: p + 1, Payload: make([]byte, 3<<10)}}); err != nil {
					return err
				}
			}
			return n.Trim(4)
		}, true},
	} {
		n, disk := aloneOn(t, 9)
		if err := n.saveState(5); err != nil {
			t.Fatal(err)
		}
		disk.set(tt.fault)
		err := tt.call(n)
		if !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "broadcast: ") {
			t.Errorf("%s: got %v, want %v of this package", tt.what, err, errBroken)
		}
		if ended := n.reason(); errors.Is(ended, errBroken) != tt.ends {
			t.Errorf("%s: the member ends because of %v, want that it does: %v", tt.what, ended, tt.ends)
		}
		disk.end()
		if at, r, err := n.Install(); err != nil || at != 5 && at != 7 {
			t.Errorf("%s: then the snapshot is of %d, %v", tt.what, at, err)
		} else {
			r.Close()
		}
		n.Close()
		if err := n.Trim(5); err == nil || !tt.ends && !errors.Is(err, ErrClosed) {
			t.Errorf("%s: a Trim of a member that has ended: got %v, want why", tt.what, err)
		}
	}
}

// A history's files are small, so that few trimmed messages stay, unless the configuration says
// otherwise.
func TestSegmentsOfAHistory(t *testing.T) {
	for given, want := range map[int64]int{0: historySegmentBytes, 1 << 10: 1 << 10} {
		disk := waltest.NewDisk()
		h, err := openHistory("/data", nil, wal.Options{FS: disk.FS(), SegmentBytes: given})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.append(numbered(1, 1)); err != nil {
			t.Fatal(err)
		}
		names, err := disk.FS().ReadDir("/data/wal")
		if err != nil || len(names) != 1 {
			t.Fatalf("one message is in the segments %v, %v", names, err)
		}
		if got := len(disk.ReadFile("/data/wal/" + names[0])); got != want {
			t.Errorf("with SegmentBytes %d the history's segments have %d bytes, want %d", given, got, want)
		}
		if err := h.close(); err != nil {
			t.Error(err)
		}
	}
}

// A node keeps its own copy of the members that it was given: the caller may go on with the map.
func TestTheCallersMap(t *testing.T) {
	cfg := aloneConfig(waltest.NewDisk().FS())
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	clear(cfg.Members)
	if got := n.cfg.Members[1]; got != "127.0.0.1:1" {
		t.Errorf("the caller clears its map, and the node has member 1 at %q, want 127.0.0.1:1", got)
	}
}
