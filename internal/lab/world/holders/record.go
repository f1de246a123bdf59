package holders

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tenure-lease/tenure"
)

// chronicle reads the record of a name whose exclusive lease is held, and sets it to the token.
func (h *Holder) chronicle(l tenure.Lease) {
	r, ok := h.Leaser.(tenure.Recorder)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.Habits.Term)
	defer cancel()
	h.recall(ctx, r, l)
	if r.SetRecord(ctx, l, fmt.Append(nil, l.Token())) == nil && !h.Ended() {
		h.Judge.recorded(l.Name(), l.Token())
		h.World.Count("records", 1)
	}
}

// recall judges what a read of the record returns: it is the last one that was set before, or a later
// one, and none of a tenure that is still to come.
func (h *Holder) recall(ctx context.Context, r tenure.Recorder, l tenure.Lease) {
	known := h.Judge.record(l.Name())
	raw, err := r.Record(ctx, l.Name())
	if err != nil || h.Ended() {
		return
	}
	token, err := strconv.ParseUint(string(raw), 10, 64)
	switch {
	case err != nil && len(raw) > 0:
		h.World.Fail("record: %s reads %q of %s, which nobody has set", h.Name, raw, l.Name())
	case token < known:
		h.World.Fail("record: %s reads that of token %d of %s, and that of token %d was set before", h.Name, token, l.Name(), known)
	case token > l.Token() && l.Check() == nil:
		h.World.Fail("record: %s holds %s with token %d, and reads the record of token %d", h.Name, l.Name(), l.Token(), token)
	}
}

// record is the greatest token whose record was set.
func (j *Judge) record(name string) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.records[name]
}

// recorded takes in that the record of a token was set.
func (j *Judge) recorded(name string, token uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records[name] = max(j.records[name], token)
}
