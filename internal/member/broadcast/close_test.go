package broadcast

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// State transfers and deliveries leave no file open: a member runs for years, and has a bounded
// number of files.
func TestTransfersLeaveNoFileOpen(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fs := waltest.NewDisk().FS()
	n, err := Start(Config{
		ID: 1, Group: 7, Members: map[machine.NodeID]string{1: ln.Addr().String()}, Listener: ln,
		Dir: "/data", WAL: wal.Options{FS: fs, SegmentBytes: 4 << 10},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	n.keeping.Lock()
	err = n.history.restart(10)
	n.keeping.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	n.deliverMadeUp(t, 11, 20)
	if err := n.Snapshot(10, func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	before := fs.Open()
	want := func(after string) {
		t.Helper()
		if open := fs.Open(); !slices.Equal(open, before) {
			t.Errorf("%s leaves open %q, and before there were %q", after, open, before)
		}
	}
	for _, from := range []Position{5, 15} {
		ended := make(chan error, 1)
		go func() {
			_, err := n.sendTransfer(99, &transfer{}, from)
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, peer.ErrUnknownMember) {
				t.Errorf("a transfer for nobody, from %d on: got %v, want ErrUnknownMember", from, err)
			}
		case <-patience.Soon(t).Done():
			t.Fatalf("a transfer for nobody, from %d on, is written for ever", from)
		}
		want("a transfer that cannot be sent")
	}
	for _, err := range n.Deliver(patience.Soon(t), 12) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	want("a delivery that nobody goes on with")
	for _, err := range n.Deliver(patience.Soon(t), 3) {
		if !errors.Is(err, ErrTrimmed) {
			t.Errorf("what is trimmed: got %v, want ErrTrimmed", err)
		}
	}
	want("a delivery of what is trimmed")
}

// A call that waits for room in memory returns when the member ends, for nothing makes room any
// more.
func TestNobodyWaitsForRoomInAMemberThatEnds(t *testing.T) {
	n, err := Start(Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	waits, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.bytes = memoryFactor*n.cfg.memoryBytes() + 1 // as if a slow disk had not taken it yet
		close(waits)
		n.awaitRoom()
	}()
	patience.Within(t, waits, "it waits")
	n.fail(ErrClosed) // which takes the lock that the waiting call has given up
	select {
	case <-gone:
	case <-patience.Soon(t).Done():
		t.Error("the member has ended, and somebody waits for room in its memory")
	}
	n.mu.Lock()
	n.bytes = 0
	n.room.Broadcast()
	n.mu.Unlock()
}

// A start that fails, wherever that is, leaves nothing open or locked: it can be tried again in the
// same process.
func TestAFailedStartLeavesNothing(t *testing.T) {
	errDisk := errors.New("the disk fails")
	fs := waltest.NewDisk().FS()
	config := func() Config {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return Config{
			ID: 1, Group: 7, Members: map[machine.NodeID]string{1: ln.Addr().String(), 2: "127.0.0.1:1"}, Listener: ln,
			Dir: "/data", WAL: wal.Options{FS: fs, SegmentBytes: 4 << 10}, Logger: slog.New(slog.DiscardHandler),
		}
	}
	records := false // whether a start leaves records beside its own
	starts := func(when string) {
		t.Helper()
		n, err := Start(config())
		if err != nil {
			t.Fatalf("%s: a start fails: %v", when, err)
		}
		if records {
			n.acquaint(t, 2)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if open := fs.Open(); len(open) > 0 {
			t.Errorf("%s: a member was closed, and open are %q", when, open)
		}
	}
	starts("at first")
	for _, c := range []struct {
		name    string
		records bool
		change  func(*Config)
		fault   func(op, path string) error
	}{
		{name: "another group", change: func(c *Config) { c.Group = 8 }},
		{name: "no Listener", change: func(c *Config) { c.Listener.Close(); c.Listener = nil }},
		{name: "no Listener, and a log that lists the members", records: true, change: func(c *Config) { c.Listener.Close(); c.Listener = nil }},
		{name: "fewer clients than the log says", records: true, change: func(c *Config) { c.Clients = 5 }},
		{name: "a member that is nowhere", change: func(c *Config) { c.Dir, c.Members[2] = "/other", "nowhere" }},
		{name: "a history that cannot be read", fault: func(op, path string) error {
			if op == "open" && filepath.Base(filepath.Dir(filepath.Dir(path))) == "history" {
				return errDisk
			}
			return nil
		}},
		{name: "a log that cannot be written", fault: func() func(op, path string) error {
			opened := false
			return func(op, path string) error {
				if filepath.Dir(path) != "/data/wal" {
					return nil
				}
				opened = opened || op == "sync"
				if opened && op == "write" {
					return errDisk
				}
				return nil
			}
		}()},
		{name: "snapshots that cannot be listed, when the history is open", fault: func() func(op, path string) error {
			history := false
			return func(op, path string) error {
				history = history || op == "open" && filepath.Base(filepath.Dir(filepath.Dir(path))) == "history"
				if history && op == "readdir" && path == "/data/snap" {
					return errDisk
				}
				return nil
			}
		}()},
	} {
		if c.records && !records {
			records = true
			starts("with records")
		}
		cfg := config()
		if c.change != nil {
			c.change(&cfg)
		}
		fs.Fault = c.fault
		n, err := Start(cfg)
		fs.Fault = nil
		if err == nil {
			n.Close()
			t.Errorf("%s: it starts", c.name)
		} else if c.fault != nil && !errors.Is(err, errDisk) {
			t.Errorf("%s: got %v, want the disk's error", c.name, err)
		}
		if open := fs.Open(); len(open) > 0 {
			t.Errorf("%s: it did not start, and open are %q", c.name, open)
		}
		for _, dir := range []string{cfg.Dir, historyDir(cfg.Dir)} {
			if lock, err := fs.Lock(filepath.Join(dir, "lock")); err != nil {
				t.Errorf("%s: it did not start, and %s is locked: %v", c.name, dir, err)
			} else {
				lock.Close()
			}
		}
		starts("behind " + c.name)
	}
}

// A Trim may be under way when a member is closed, and writes its history until it ends.
func TestCloseWaitsForATrim(t *testing.T) {
	n, _ := aloneOn(t, 3)
	n.keeping.Lock()
	closed := make(chan error, 1)
	go func() { closed <- n.Close() }()
	patience.Within(t, n.ctx.Done(), "the member ends")
	select {
	case err := <-closed:
		t.Errorf("Close did not wait for a Trim: %v", err)
		return
	case <-time.After(50 * time.Millisecond):
	}
	if _, err := n.history.log.Append(wal.Record{Kind: historyMessage, Payload: encodeHistory(Message{Position: 4})}); err != nil {
		t.Errorf("while a Trim is under way the history does not take a record: %v", err)
	}
	n.keeping.Unlock()
	if err := patience.Within(t, closed, "Close returns"); err != nil {
		t.Error(err)
	}
}

// The history and the log stay open until the keeper and all transfers to other members have ended.
func TestCloseWaitsForItsWork(t *testing.T) {
	n, _ := aloneOn(t, 3)
	ends := make(chan struct{})
	n.work.Go(func() { <-ends })
	closed := make(chan error, 1)
	go func() { closed <- n.Close() }()
	patience.Within(t, n.ctx.Done(), "the member ends")
	select {
	case err := <-closed:
		t.Errorf("Close did not wait for what works for the member: %v", err)
		close(ends)
		return
	case <-time.After(50 * time.Millisecond):
	}
	if err := n.appendToHistory([]Message{{Position: 1}}); err != nil {
		t.Errorf("while something works for the member the history does not take a message: %v", err)
	}
	close(ends)
	if err := patience.Within(t, closed, "Close returns"); err != nil {
		t.Error(err)
	}
}

// brokenListener fails when it is closed.
type brokenListener struct{ net.Listener }

var errListener = errors.New("the listener is broken")

func (l brokenListener) Close() error { return errors.Join(errListener, l.Listener.Close()) }

// Close returns the errors of the listener, the history and the log. One failure keeps nothing else open,
// and a second Close does nothing.
func TestCloseSaysWhatFailed(t *testing.T) {
	errHistory, errLog := errors.New("the history's lock is broken"), errors.New("the log's lock is broken")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fs, faults := waltest.NewDisk().FS(), &faults{}
	fs.Fault = faults.fail
	n, err := Start(Config{
		ID: 1, Group: 7, Members: map[machine.NodeID]string{1: ln.Addr().String(), 2: "127.0.0.1:1"}, Listener: brokenListener{ln},
		Dir: "/data", WAL: wal.Options{FS: fs, SegmentBytes: 4 << 10}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	faults.set(func(op, path string) error {
		switch {
		case op == "unlock" && path == "/data/lock":
			return errLog
		case op == "unlock" && path == historyDir("/data")+"/lock":
			return errHistory
		}
		return nil
	})
	err = n.Close()
	for _, want := range []error{errListener, errHistory, errLog} {
		if !errors.Is(err, want) {
			t.Errorf("Close says %v, want %q, too", err, want)
		}
	}
	if open := fs.Open(); len(open) > 0 {
		t.Errorf("a Close that failed leaves open %q", open)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("behind a Close the listener gives %v, want it closed", err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("a second Close says %v", err)
	}
}
