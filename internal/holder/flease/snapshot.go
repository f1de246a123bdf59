package flease

import (
	"encoding/json"
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

// snapshotMagic begins the file. It is followed by the peer's index and the names' records; by the terms' id,
// which the next start must have, too, or the rest is of no use to it; by the machine's record; and by a CRC32C of
// all.
const snapshotMagic = "TENUREF3"

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

// parseSnapshot returns the record in a file of this peer, or why the file is of no use. The names' records are
// restored in any case, unless the file is another peer's: they are not about terms.
func (p *Peer) parseSnapshot(file []byte) (*flease.Record, error) {
	all := wire.Reader{Rest: file}
	body := wire.Reader{Rest: all.Take(uint64(max(len(file)-4, 0)))}
	if wire.Checksum(body.Rest) != all.Uint32() || all.Bad {
		return nil, errors.New("the file is damaged")
	}
	magic, self := string(body.Take(uint64(len(snapshotMagic)))), body.Uint64()
	var saved savedShelf
	if magic != snapshotMagic || self != uint64(p.self) {
		return nil, errors.New("it is another peer's, or of another version of the program")
	}
	if err := json.Unmarshal(body.Bytes(), &saved); err != nil {
		return nil, err
	}
	if saved.Cluster != p.cfg.Cluster {
		return nil, errors.New("it is another cluster's")
	}
	p.shelf.restore(saved, p.list(p.members), len(p.members.Addrs) == 1)
	if body.Uint64() != p.terms().id() {
		return nil, errors.New("it is of a cluster with other terms; the records of --every in it are kept")
	}
	r := new(flease.Record)
	return r, r.UnmarshalBinary(body.Rest)
}

// sealSnapshot returns the file of a record.
func (p *Peer) sealSnapshot(record []byte) []byte {
	var w wire.Writer
	w.Put([]byte(snapshotMagic))
	w.Uint64(uint64(p.self))
	m := p.Members()
	w.Bytes(p.shelf.save(savedShelf{Cluster: p.cfg.Cluster, List: p.list(m), Epoch: m.Epoch, Life: p.pure.Incarnation}))
	w.Uint64(p.terms().id())
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
