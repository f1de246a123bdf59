package broadcast

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/tenure-lease/tenure/internal/host/wal"
)

// Snapshot keeps the application's state after a position, as written by a function, in a file,
// in place of the one before. It returns when that is durable. Members that lack trimmed
// messages get it, and so does the application by Install. The position is one that was
// delivered here, and greater than that of the last snapshot; else ErrPosition. Close waits for
// the function to return, and its writes fail from then on: it must not wait for Close.
func (n *Node) Snapshot(position Position, write func(io.Writer) error) error {
	n.saving.Lock() // and not keeping: it may take long
	defer n.saving.Unlock()
	if err := n.reason(); err != nil {
		return err
	}
	last, err := n.newest()
	if err != nil {
		return err
	}
	if position <= last || position > n.Position() {
		return fmt.Errorf("%w: a snapshot of %d, and %d are delivered, the last snapshot is of %d", ErrPosition, position, n.Position(), last)
	}
	snapshots := n.journal.log.Snapshots()
	save := func(w io.Writer) error { return write(lasting{n, w}) }
	if err := snapshots.Save(wal.SnapshotInfo{Index: uint64(position)}, save); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	if err := snapshots.Prune(1); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

// lasting writes as long as the node lasts.
type lasting struct {
	n *Node
	w io.Writer
}

func (l lasting) Write(b []byte) (int, error) {
	if err := l.n.reason(); err != nil {
		return 0, err
	}
	return l.w.Write(b)
}

// Install opens the newest snapshot, made here or sent by another member, and returns its
// position. An application begins with it if Deliver returns ErrTrimmed, and goes on from the
// position after it. Position 0 is that of no snapshot, with nothing to read. The data is good
// only if io.EOF comes at its end.
func (n *Node) Install() (Position, io.ReadCloser, error) {
	for {
		at, err := n.newest()
		if err != nil || at == 0 {
			return 0, io.NopCloser(bytes.NewReader(nil)), err
		}
		r, err := n.journal.log.Snapshots().Open(uint64(at))
		if errors.Is(err, wal.ErrNoSnapshot) {
			continue // there is a newer one
		}
		if err != nil {
			return 0, nil, fmt.Errorf("broadcast: %w", err)
		}
		return at, r, nil
	}
}

// newest is the position of the newest snapshot, 0 without one.
func (n *Node) newest() (Position, error) {
	list, err := n.journal.log.Snapshots().List()
	if err != nil {
		return 0, fmt.Errorf("broadcast: %w", err)
	}
	if len(list) == 0 {
		return 0, nil
	}
	return Position(list[len(list)-1]), nil
}

// Trim forgets the messages up to a position, here: one of which, or behind which, there is a
// Snapshot; else ErrPosition. On disk they go file by file. Messages that follow those of a
// state transfer to another member stay until a later Trim, so some may still be delivered.
func (n *Node) Trim(position Position) error {
	n.keeping.Lock()
	defer n.keeping.Unlock()
	if err := n.reason(); err != nil {
		return err
	}
	last, err := n.newest()
	if err != nil {
		return err
	}
	if position > last || position > n.Position() {
		return fmt.Errorf("%w: %d is to be trimmed, and the last snapshot is of %d", ErrPosition, position, last)
	}
	upto := position
	if held := n.heldFrom(); held <= position {
		upto = held - 1
		n.mu.Lock()
		messages := n.log[:min(position-min(n.ram, position), Position(len(n.log)))]
		n.mu.Unlock()
		err = n.storeInHistory(messages)
	}
	if err == nil {
		err = n.history.trim(upto)
	}
	if err != nil {
		n.failDisk(err)
		return err
	}
	n.forget(position)
	return nil
}
