package flease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
	"github.com/tenure-lease/tenure/internal/wire"
)

// A planned shutdown leaves what the peer has promised in a file, which the next life
// removes before it says a word: one that came up with the same file twice would have
// forgotten what it promised in between (E5).

// snapshotMagic begins the file. After it come the terms' id and the peer's index, which the next life must
// share, the record, and a CRC32C of all.
const snapshotMagic = "TENUREFL"

func (p *Peer) snapshotPath() string {
	return filepath.Join(p.cfg.State, fmt.Sprintf("flease-%d.snapshot", p.self))
}

// restore takes what the life before has left, and makes sure that no other will.
func (p *Peer) restore() ([]*flease.Record, error) {
	if p.cfg.fresh {
		return []*flease.Record{{}}, nil
	}
	if p.cfg.State == "" {
		return nil, nil
	}
	disk := p.cfg.FS
	if err := disk.MkdirAll(p.cfg.State); err != nil {
		return nil, fmt.Errorf("flease: the directory for state: %w", err)
	}
	path := p.snapshotPath()
	b, err := readFile(disk, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("flease: what the last shutdown left: %w", err)
	}
	if err := disk.Remove(path); err != nil {
		return nil, fmt.Errorf("flease: what the last shutdown left cannot be used up: %w", err)
	}
	if err := disk.SyncDir(p.cfg.State); err != nil {
		return nil, fmt.Errorf("flease: what the last shutdown left cannot be used up: %w", err)
	}
	r, err := p.parseSnapshot(b)
	if err != nil {
		p.cfg.Logger.Warn("flease: what the last shutdown left is of no use, so there is a quarantine", "file", path, "error", err)
		return nil, nil
	}
	return []*flease.Record{r}, nil
}

func (p *Peer) parseSnapshot(b []byte) (*flease.Record, error) {
	head := p.snapshotHead()
	if len(b) < len(head)+4 || wire.Checksum(b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, errors.New("the file is damaged")
	}
	if string(b[:len(head)]) != string(head) {
		return nil, errors.New("it is another peer's, or of a cluster with other terms")
	}
	r := new(flease.Record)
	return r, r.UnmarshalBinary(b[len(head) : len(b)-4])
}

func (p *Peer) snapshotHead() []byte {
	b := []byte(snapshotMagic)
	b = binary.LittleEndian.AppendUint64(b, p.terms().id())
	return binary.LittleEndian.AppendUint64(b, uint64(p.self))
}

// save has the machine fall silent, and leaves its state behind if there is a place.
func (p *Peer) save() error {
	if p.cfg.State == "" {
		return nil
	}
	p.driver.Step(flease.Shutdown{})
	var r *flease.Record
	select {
	case r = <-p.snapshot:
	case <-p.ctx.Done():
		return nil
	case <-time.After(5 * time.Second):
		return errors.New("flease: the peer is too busy to save its state; its next start has a quarantine")
	}
	record, err := r.MarshalBinary()
	if err != nil {
		return fmt.Errorf("flease: save the state: %w", err)
	}
	b := append(p.snapshotHead(), record...)
	b = binary.LittleEndian.AppendUint32(b, wire.Checksum(b))
	if err := writeFile(p.cfg.FS, p.snapshotPath(), b); err != nil {
		return fmt.Errorf("flease: save the state; the next start has a quarantine: %w", err)
	}
	return nil
}

// writeFile makes a file durable, all of it or nothing.
func writeFile(disk wal.FS, path string, b []byte) error {
	next := path + ".new"
	f, err := disk.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = disk.Rename(next, path)
	}
	if err != nil {
		_ = disk.Remove(next)
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// readFile is all that a file has.
func readFile(disk wal.FS, path string) ([]byte, error) {
	f, err := disk.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}
