package leasetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure"
)

var _ tenure.Recorder = (*memoryLeaser)(nil)

// maxRecord is the length of the longest record, in bytes.
const maxRecord = 2 << 10

// record returns the record of a name.
func (m *Memory) record(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.records[name])
}

// setRecord reports false for an entry that has left.
func (m *Memory) setRecord(e *entry, record []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(e.claim.Name)
	if !slices.Contains(m.queues[e.claim.Name], e) {
		return false
	}
	m.records[e.claim.Name] = record
	return true
}

func (l *memoryLeaser) Record(ctx context.Context, name string) ([]byte, error) {
	if err := tenure.CheckName(name); err != nil {
		return nil, err
	}
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	record := make(chan []byte, 1) // a call that is given up may still run
	if err := l.line.call(ctx, func() { record <- l.store.record(name) }); err != nil {
		return nil, unanswered(err)
	}
	return <-record, nil
}

func (l *memoryLeaser) SetRecord(ctx context.Context, lease tenure.Lease, record []byte) error {
	x, ok := lease.(*memoryLease)
	switch {
	case !ok || x.leaser != l:
		return fmt.Errorf("%w: the lease is another Leaser's", tenure.ErrClaim)
	case len(record) > maxRecord:
		return fmt.Errorf("%w: a record of %d bytes; %d is the most", tenure.ErrClaim, len(record), maxRecord)
	}
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := x.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.ctx, cancel)()
	known := make(chan bool, 1)
	record = slices.Clone(record)
	err = l.line.call(ctx, func() { known <- l.store.setRecord(x.entry, record) })
	switch lost := x.Check(); {
	case lost != nil:
		return lost
	case err != nil:
		return unanswered(err)
	case !<-known:
		return fmt.Errorf("%w: expired at the store", tenure.ErrLost)
	}
	return nil
}
