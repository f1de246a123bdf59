package replica

import (
	"encoding/binary"

	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/wire"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Touch is what an entry may change, and what its outcome depends on, as far as
// the entry itself tells (R20, R25 of the quorum leases' rules). It is known when
// the entry is appended, long before it is applied, and never too small. A
// transaction touches the keys that either branch would change. A request that
// this version cannot read is a barrier, and so is one that changes more than keys
// (a compaction, a member, a policy): a barrier touches everything. A batch that
// apply will refuse, for it was meant for another term, touches nothing.
//
// The keys of a lease that ends are not in the entry: see touchLog.
type Touch struct {
	Keys Access
	// Leases tells which leases begin or end, and whose existence decides. A lease
	// is a key of eight bytes there. Checkpoints change neither.
	Leases Access

	all      bool // it is a barrier
	resolved bool // by a state, or for want of one: other members may see more or less
	attached []attachment
	ended    []int64
	ids      []byte // what Leases refers to
}

// Access is what is changed, and what else decides about the outcome. An entry
// depends on earlier ones that change keys of either set: a put of a key also
// needs its version, its lease and whether it exists. Revisions are left out: those
// in headers, and whether one that is asked for lies in the future, depend on all
// entries before (R27). The sets are not normalised; their bytes are those of the
// entry.
type Access struct {
	Writes, Reads keyspan.Set
}

// attachment is a put that may attach a key to a lease. Lease 0 stands for puts
// that cannot be read: of any key, to any lease.
type attachment struct {
	index uint64
	lease int64
	key   []byte
}

// maxNesting is how deep transactions may nest before they are a barrier. A
// server lets fewer through than a transaction may have operations, 128.
const maxNesting = 130

// scan makes t the touch of e, and overwrites what t held before. It reads the
// encoded entry without decoding it, and skips values: it allocates nothing once t
// has been used for an entry as large.
func (t *Touch) scan(e *raftpb.Entry) {
	t.Keys.reset()
	t.Leases.reset()
	t.all, t.attached, t.ended, t.ids = false, t.attached[:0], t.ended[:0], t.ids[:0]
	switch {
	case e.GetType() != raftpb.EntryNormal:
		t.all = true
	case len(e.GetData()) == 0: // a new leader's first entry
	case !t.batch(e.GetData(), e.GetTerm()):
		t.all = true
		t.attached = append(t.attached[:0], attachment{})
	}
	if t.all {
		t.barrier()
	}
}

// scanRequest makes t the touch of a request's body, as that of an entry with nothing else
// in it, and reports whether this version would have written it.
func (t *Touch) scanRequest(body []byte) bool {
	t.scan(emptyEntry)
	return t.request(body)
}

var emptyEntry = new(raftpb.Entry)

func (a *Access) reset() { a.Writes, a.Reads = a.Writes[:0], a.Reads[:0] }

// barrier makes t touch everything. Its attachments to leases stay known.
func (t *Touch) barrier() {
	for _, a := range [...]*Access{&t.Keys, &t.Leases} {
		a.reset()
		a.Writes = append(a.Writes, keyspan.All())
	}
	t.ended = t.ended[:0]
}

// The methods below scan a part of the entry and return false if it is nothing
// that this version would have written.

func (t *Touch) batch(p []byte, term uint64) bool {
	if !isBatch(p) {
		return false
	}
	r := reader{wire.Reader{Rest: p[1:]}}
	meant := r.Uvarint()
	r.Uvarint() // from
	r.Uvarint() // boot
	r.Uvarint() // seq
	n := r.Uvarint()
	for ; n > 0 && !r.Bad; n-- {
		r.Uvarint() // ID
		skipCaller(&r.Reader, p)
		body := r.Bytes()
		if meant == term && !t.request(body) {
			return false
		}
	}
	return !r.Bad && len(r.Rest) == 0
}

func (t *Touch) request(body []byte) bool {
	if len(body) == 0 {
		return false
	}
	switch kind, p := body[0], body[1:]; kind {
	case kindPut:
		return t.put(p)
	case kindDeleteRange:
		return appendSpan(&t.Keys.Writes, p, 1, 2)
	case kindTxn, kindRead:
		return t.txn(p, 0)
	case kindGrant:
		id, ok := number(p, 2)
		t.lease(&t.Leases.Writes, id)
		return ok
	case kindRevoke:
		id, ok := number(p, 1)
		t.end(id)
		return ok
	case kindExpire:
		return t.expire(p)
	case kindCheckpoint, kindReadPolicy, kindReadCells: // see keyOrder for the latter
	default: // no keys of its own; of a newer version's kinds apply makes nothing
		t.all = true
	}
	return true
}

// put scans a put. As everywhere on the wire, the last of a field counts.
func (t *Touch) put(p []byte) bool {
	var key []byte
	lease := int64(0)
	for len(p) > 0 {
		f, n := nextField(p)
		switch {
		case n < 0:
			return false
		case f.num == 1 && f.typ == protowire.BytesType:
			key = f.bytes
		case f.num == 3 && f.typ == protowire.VarintType:
			lease = int64(f.number)
		case f.num == 1 || f.num == 3:
			return false
		}
		p = p[n:]
	}
	t.Keys.Writes = append(t.Keys.Writes, keyspan.Span{Key: key})
	if lease != 0 {
		t.attached = append(t.attached, attachment{lease: lease, key: key})
		t.lease(&t.Leases.Reads, lease)
	}
	return true
}

// txn scans comparisons and the operations of both branches.
func (t *Touch) txn(p []byte, depth int) bool {
	if depth > maxNesting {
		return false
	}
	for len(p) > 0 {
		f, n := nextField(p)
		if n < 0 {
			return false
		}
		p = p[n:]
		if f.num > 3 {
			continue
		}
		ok := f.typ == protowire.BytesType
		if f.num == 1 {
			ok = ok && appendSpan(&t.Keys.Reads, f.bytes, 3, 64)
		} else {
			ok = ok && t.op(f.bytes, depth)
		}
		if !ok {
			return false
		}
	}
	return true
}

// op scans an operation. Two of them would be merged into one.
func (t *Touch) op(p []byte, depth int) bool {
	ops := 0
	for len(p) > 0 {
		f, n := nextField(p)
		if n < 0 {
			return false
		}
		p = p[n:]
		if f.num > 4 {
			continue
		}
		ops++
		ok := ops == 1 && f.typ == protowire.BytesType
		switch f.num {
		case 1:
			ok = ok && appendSpan(&t.Keys.Reads, f.bytes, 1, 2)
		case 2:
			ok = ok && t.put(f.bytes)
		case 3:
			ok = ok && appendSpan(&t.Keys.Writes, f.bytes, 1, 2)
		case 4:
			ok = ok && t.txn(f.bytes, depth+1)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (t *Touch) expire(p []byte) bool {
	for len(p) > 0 {
		f, n := nextField(p)
		if n < 0 {
			return false
		}
		p = p[n:]
		if f.num != 1 {
			continue
		}
		id, ok := number(f.bytes, 1)
		if !ok || f.typ != protowire.BytesType {
			return false
		}
		t.end(id)
	}
	return true
}

func (t *Touch) end(lease int64) {
	t.ended = append(t.ended, lease)
	t.lease(&t.Leases.Writes, lease)
}

// lease adds a lease to a set.
func (t *Touch) lease(set *keyspan.Set, id int64) {
	at := len(t.ids)
	t.ids = binary.BigEndian.AppendUint64(t.ids, uint64(id))
	*set = append(*set, keyspan.Span{Key: t.ids[at:len(t.ids):len(t.ids)]})
}

// AppendReads adds the keys that a *pb.RangeRequest, or a transaction that only reads,
// depends on: a local read must find them unheld (R7, R26). The spans alias the
// request.
func AppendReads(set keyspan.Set, m proto.Message) keyspan.Set {
	switch m := m.(type) {
	case *pb.RangeRequest:
		return append(set, keyspan.Span{Key: m.GetKey(), End: m.GetRangeEnd()})
	case *pb.TxnRequest:
		for _, c := range m.GetCompare() {
			set = append(set, keyspan.Span{Key: c.GetKey(), End: c.GetRangeEnd()})
		}
		for _, branch := range [...][]*pb.RequestOp{m.GetSuccess(), m.GetFailure()} {
			for _, op := range branch {
				switch op := op.GetRequest().(type) {
				case *pb.RequestOp_RequestRange:
					set = AppendReads(set, op.RequestRange)
				case *pb.RequestOp_RequestTxn:
					set = AppendReads(set, op.RequestTxn)
				}
			}
		}
	}
	return set
}
