package flease

import (
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

// A planned shutdown leaves the peer's promises in a file. The next start removes the file before
// it sends a message: a second start from the same file would forget the promises in between (E5).

// snapshotMagic begins the file. It is followed by the terms' id and the peer's index, which the
// next start must have, too, by the names' records, by the machine's record, and by a CRC32C of all.
const snapshotMagic = "TENUREF2"

func (p *Peer) snapshotPath() string {
	return filepath.Join(p.cfg.State, fmt.Sprintf("flease-%d.snapshot", p.self))
}

// restore takes the file of the last shutdown, and makes sure that no other start will.
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
		return nil, fmt.Errorf("flease: the state of the last shutdown: %w", err)
	}
	if err := disk.Remove(path); err != nil {
		return nil, fmt.Errorf("flease: the state of the last shutdown cannot be used up: %w", err)
	}
	if err := disk.SyncDir(p.cfg.State); err != nil {
		return nil, fmt.Errorf("flease: the state of the last shutdown cannot be used up: %w", err)
	}
	r, err := p.parseSnapshot(b)
	if err != nil {
		p.cfg.Logger.Warn("flease: the state of the last shutdown is of no use, so there is a quarantine", "file", path, "error", err)
		return nil, nil
	}
	return []*flease.Record{r}, nil
}

// parseSnapshot returns the record in a file of this peer, or why the file is of no use.
func (p *Peer) parseSnapshot(file []byte) (*flease.Record, error) {
	all := wire.Reader{Rest: file}
	body := wire.Reader{Rest: all.Take(uint64(max(len(file)-4, 0)))}
	if wire.Checksum(body.Rest) != all.Uint32() || all.Bad {
		return nil, errors.New("the file is damaged")
	}
	magic, id, self := string(body.Take(uint64(len(snapshotMagic)))), body.Uint64(), body.Uint64()
	if magic != snapshotMagic || id != p.terms().id() || self != uint64(p.self) {
		return nil, errors.New("it is another peer's, or of a cluster with other terms")
	}
	records := body.Bytes()
	r := new(flease.Record)
	if err := r.UnmarshalBinary(body.Rest); err != nil {
		return nil, err
	}
	return r, p.shelf.restore(records)
}

// sealSnapshot returns the file of a record.
func (p *Peer) sealSnapshot(record []byte) []byte {
	var w wire.Writer
	w.Put([]byte(snapshotMagic))
	w.Uint64(p.terms().id())
	w.Uint64(uint64(p.self))
	w.Bytes(p.shelf.save())
	w.Put(record)
	w.Uint32(wire.Checksum(w))
	return w
}

// save has the machine fall silent, and leaves its promises in Config.State if there is one.
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
	if err := writeFile(p.cfg.FS, p.snapshotPath(), p.sealSnapshot(record)); err != nil {
		return fmt.Errorf("flease: save the state; the next start has a quarantine: %w", err)
	}
	return nil
}

// writeFile makes a file durable, whole or not at all.
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

// readFile returns the whole file.
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
