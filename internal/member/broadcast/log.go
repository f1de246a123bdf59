package broadcast

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tenure-lease/tenure/internal/host/wal"
)

// journal keeps the records of a member's machine in a log.
type journal struct {
	log  *wal.Log
	self life
	mark atomic.Uint64 // the number of the last record when the log was forced last
}

// rewrite is the record that stands in place of all before it.
type rewrite struct{ records []any }

// owner is the mark of a member's files: its group and its ID.
func (c Config) owner() []byte {
	var meta writer
	meta.uvarints(c.Group, uint64(c.ID))
	return meta.Writer
}

// addBirth adds a life, whose record in the log has the number at.
func (l *life) addBirth(at uint64) {
	var random [8]byte
	rand.Read(random[:]) // never fails
	b := birth{binary.LittleEndian.Uint64(random[:]) | 1, at}
	if l.N++; l.Dir == 0 {
		l.Dir = b.Number
	}
	l.Lives = append(l.Lives[max(0, len(l.Lives)-livesKept+1):len(l.Lives):len(l.Lives)], b)
}

// openJournal opens or makes the log in a directory, begins the next life, and returns
// the records that are kept.
func openJournal(cfg Config) (j *journal, records []any, err error) {
	meta := cfg.owner()
	exists, err := wal.Exists(cfg.Dir, cfg.WAL.FS)
	if err != nil {
		return nil, nil, fmt.Errorf("broadcast: %w", err)
	}
	j = &journal{}
	if !exists {
		if err := cfg.validateFounding(); err != nil {
			return nil, nil, err
		}
		switch left, err := wal.Exists(historyDir(cfg.Dir), cfg.WAL.FS); {
		case err != nil:
			return nil, nil, fmt.Errorf("broadcast: %w", err)
		case left:
			return nil, nil, fmt.Errorf("broadcast: %s has a history and no log: this member's acknowledgments are gone; remove it from the group and add another", cfg.Dir)
		}
		if j.log, err = wal.Create(cfg.Dir, meta, cfg.WAL); err != nil {
			return nil, nil, fmt.Errorf("broadcast: %w", err)
		}
	} else {
		var anew []any // the records after a kindBegin whose kindEnd has not come
		inside := false
		j.log, err = wal.Open(cfg.Dir, cfg.WAL, func(r wal.Record) error {
			switch r.Kind {
			case kindBegin:
				anew, inside = nil, true
				return nil
			case kindEnd:
				if !inside {
					return nil // its beginning was released
				}
				records, inside = anew, false
				return nil
			}
			body, err := decode(r.Kind, bytes.Clone(r.Payload))
			if err != nil {
				return fmt.Errorf("record %d: %w", r.Seq, err)
			}
			if l, ok := body.(life); ok {
				if 0 < j.self.N && j.self.N < l.N {
					anew, inside = nil, false // a start: the crash before it cut a rewriting short
				}
				if l.N >= j.self.N {
					j.self = l
				}
				return nil
			}
			if inside {
				anew = append(anew, body)
			} else {
				records = append(records, body)
			}
			return nil
		})
		if err != nil {
			return nil, nil, fmt.Errorf("broadcast: %w", err)
		}
		if !bytes.Equal(j.log.Meta(), meta) {
			return nil, nil, errors.Join(fmt.Errorf("%w: %s", ErrGroup, cfg.Dir), j.log.Close())
		}
	}
	if exists && len(records) == 0 { // the first start ended before it had a record: this one is it
		if err := cfg.validateFounding(); err != nil {
			return nil, nil, errors.Join(err, j.log.Close())
		}
	}
	j.self.addBirth(j.log.LastSeq() + 1)
	if err := j.write([]any{j.self}, true); err != nil {
		return nil, nil, errors.Join(err, j.log.Close())
	}
	return j, records, nil
}

// write is driver.Config.Persist.
func (j *journal) write(records []any, force bool) error {
	release := uint64(0)
	for _, r := range records {
		w, ok := r.(rewrite)
		if !ok {
			if err := j.append(r); err != nil {
				return err
			}
			continue
		}
		begin, err := j.log.Append(wal.Record{Kind: kindBegin})
		if err != nil {
			return err
		}
		for _, r := range append([]any{j.self}, w.records...) {
			if err := j.append(r); err != nil {
				return err
			}
		}
		if _, err := j.log.Append(wal.Record{Kind: kindEnd}); err != nil {
			return err
		}
		release = begin
	}
	if !force && release == 0 {
		return j.log.Flush()
	}
	if err := j.log.Sync(); err != nil {
		return err
	}
	j.mark.Store(j.log.LastSeq())
	if release > 0 {
		return j.log.ReleaseTo(release)
	}
	return nil
}

func (j *journal) append(record any) error {
	b := encode(record)
	_, err := j.log.Append(wal.Record{Kind: b[0], Payload: b[1:]})
	return err
}
