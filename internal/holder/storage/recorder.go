package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// recordName is the register with the record of a name: one that neither a lease nor an agreement
// can have, see agreement.
func recordName(name string) string { return name + "//" }

// recordFormat is the first byte of a record, unlike that of leases and agreements.
const recordFormat = 0xc1

// Record implements tenure.Recorder.
func (l *Leaser) Record(ctx context.Context, name string) ([]byte, error) {
	v, err := l.read(ctx, name, recordName(name))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the record of %q: %w", name, err)
	case v.Version == machine.Version{}:
		return nil, nil
	case len(v.Data) == 0 || v.Data[0] != recordFormat:
		return nil, fmt.Errorf("read the record of %q: %.8x… is none", name, v.Data)
	}
	return slices.Clone(v.Data[1:]), nil
}

// SetRecord implements tenure.Recorder. Stores cannot compare, but they keep the greater version. So a
// record has a version that orders it before all records of later tenures:
//
//   - Its Seq is one more than that of the record which was read first, with an atomic read that ended
//     while the lease was held. A later tenure's read begins after that, so it shows the same record
//     or a later one, and its Seq is at least as great.
//   - Its Writer begins with the token, so that at the same Seq the later tenure wins; the rest counts
//     the records of the tenure.
//
// A holder that is stopped behind the read and goes on after its lease has passed to another puts its
// record below that of the other. One that is stopped before the read finds that its lease has ended.
//
// A tenure that is ended by force (Break) may begin to read after the next has set a record. The greater token there
// tells it that it is lost, and it writes nothing. It can get above the next only by a second record whose read and
// write lie around the next's first write.
func (l *Leaser) SetRecord(ctx context.Context, held tenure.Lease, record []byte) error {
	x, ok := held.(*claim)
	if !ok || x.leaser != l {
		return holder.ErrForeign
	}
	data := append([]byte{recordFormat}, record...)
	return holder.Record(ctx, l.calls, x, record, func(ctx context.Context) error {
		select {
		case x.recording <- struct{}{}:
			defer func() { <-x.recording }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for {
			err := x.setRecord(ctx, data)
			if err == nil || x.Check() != nil || l.hopeless(err) {
				return err
			}
			select {
			case <-time.After(max(l.header.Term/50, l.header.Delay)):
			case <-ctx.Done():
				return fmt.Errorf("%w: %w (%w)", tenure.ErrUnavailable, context.Cause(ctx), err)
			}
		}
	})
}

// setRecord makes one attempt. An earlier one that has failed may still arrive at stores.
func (x *claim) setRecord(ctx context.Context, data []byte) error {
	x.records++
	var writer machine.ID
	binary.BigEndian.PutUint64(writer[:], x.Token())
	binary.BigEndian.PutUint64(writer[8:], x.records)
	cell := x.leaser.set.RegisterOf(recordName(x.Name()), writer)
	defer cell.Close()
	v, err := cell.Read(ctx)
	if err != nil {
		return err
	}
	if err := x.Check(); err != nil {
		return err
	}
	if x.slots == 1 && binary.BigEndian.Uint64(v.Version.Writer[:]) > x.Token() {
		x.Lose(errors.New("a later tenure has set a record, so this one was ended by force"))
		return x.Err()
	}
	_, err = cell.WriteAt(ctx, v.Version.Seq+1, data)
	return err
}

// Obsolete is for the options of stores: it reports whether a store may forget what a writer left at a
// register that shows v.
func Obsolete(v machine.Value, writer machine.ID) bool {
	if len(v.Data) > 0 && v.Data[0] == recordFormat {
		return v.Version.Writer != writer // it was replaced
	}
	return disklease.Obsolete(v, writer)
}
