package replica

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tenure-lease/tenure/kv"
	"github.com/tenure-lease/tenure/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Applier is the replicated state and the rules by which committed entries
// change it. It is as pure as a Replica, but a driver may run it on another
// goroutine, so that a long entry never delays a heartbeat.
type Applier struct {
	id    machine.NodeID
	boot  uint64
	store *kv.Store
	// members are what members told of themselves, by ID.
	members []*pb.Member

	index, term uint64
	changes     []LeaseChange
	fates       []BatchFate
	results     []Result
}

// NewApplier returns the state of a fresh cluster, from Genesis on.
func NewApplier(id machine.NodeID, boot uint64) *Applier {
	return &Applier{id: id, boot: boot, store: kv.New(), index: 1, term: 1}
}

// Store gives the state itself. Only the Applier's goroutine may touch it; what
// it publishes are the Store's Views.
func (a *Applier) Store() *kv.Store { return a.store }

// Index is the index of the last entry applied.
func (a *Applier) Index() uint64 { return a.index }

// Term is the term of that entry.
func (a *Applier) Term() uint64 { return a.term }

// Members returns what the members told of themselves, by ID. The slice is
// never changed, only replaced.
func (a *Applier) Members() []*pb.Member { return a.members }

// Apply applies one committed entry. An error means that this version cannot
// make sense of the log; going on would make the members differ.
func (a *Applier) Apply(e *raftpb.Entry) error {
	if e.GetIndex() != a.index+1 {
		return fmt.Errorf("replica: entry %d follows %d", e.GetIndex(), a.index)
	}
	if e.GetType() != raftpb.EntryNormal {
		return fmt.Errorf("%w: entry %d changes the membership; a newer version wrote it", errBadEntry, e.GetIndex())
	}
	if len(e.GetData()) > 0 { // else a new leader's first entry
		b, err := decodeBatch(e.GetData())
		if err != nil {
			return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
		if err := a.batch(b, e.GetTerm()); err != nil {
			return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
	}
	a.index, a.term = e.GetIndex(), e.GetTerm()
	return nil
}

func (a *Applier) batch(b *batch, term uint64) error {
	own := b.From == a.id && b.Boot == a.boot
	refused := b.Term != term
	if own {
		a.fates = append(a.fates, BatchFate{Seq: b.Seq, Refused: refused})
	}
	if refused {
		return nil
	}
	for _, req := range b.Requests {
		kind, m, err := decodeRequest(req.Body)
		if err != nil {
			return err
		}
		resp, err := a.request(kind, m)
		if own && req.ID != 0 {
			a.results = append(a.results, Result{ID: req.ID, Response: resp, Err: err})
		}
	}
	return nil
}

// request applies one request. Its error is the client's, the same everywhere.
func (a *Applier) request(kind byte, m proto.Message) (proto.Message, error) {
	switch m := m.(type) {
	case *pb.PutRequest:
		return answer(a.store.Put(m))
	case *pb.DeleteRangeRequest:
		return answer(a.store.DeleteRange(m))
	case *pb.TxnRequest:
		return answer(a.store.Txn(m))
	case *pb.CompactionRequest:
		if err := a.store.Compact(m.Revision); err != nil {
			return nil, err
		}
		return &pb.CompactionResponse{Header: a.header()}, nil
	case *pb.LeaseGrantRequest:
		if err := a.store.Grant(m.ID, m.TTL); err != nil {
			return nil, err
		}
		a.changes = append(a.changes, LeaseChange{ID: m.ID, Kind: LeaseGranted, TTL: m.TTL})
		return &pb.LeaseGrantResponse{Header: a.header(), ID: m.ID, TTL: m.TTL}, nil
	case *pb.LeaseRevokeRequest:
		if err := a.revoke(m.ID); err != nil {
			return nil, err
		}
		return &pb.LeaseRevokeResponse{Header: a.header()}, nil
	case *pb.LeaseCheckpointRequest:
		for _, c := range m.Checkpoints {
			a.leaseEntry(kind, c)
		}
		return nil, nil
	case *pb.Member:
		a.announce(m)
		return m, nil
	}
	return nil, errors.New("replica: a request without a rule")
}

// answer keeps a nil response from becoming a non-nil message.
func answer[M proto.Message](m M, err error) (proto.Message, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (a *Applier) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{Revision: a.store.Revision()}
}

func (a *Applier) revoke(id int64) error {
	if err := a.store.Revoke(id); err != nil {
		return err
	}
	a.changes = append(a.changes, LeaseChange{ID: id, Kind: LeaseGone})
	return nil
}

// leaseEntry applies one line of an expiry or checkpoint. A lease that is gone
// by now was revoked meanwhile, which settles the matter.
func (a *Applier) leaseEntry(kind byte, c *pb.LeaseCheckpoint) {
	if kind == kindExpire {
		_ = a.revoke(c.ID)
		return
	}
	if a.store.Checkpoint(c.ID, c.Remaining_TTL) == nil {
		a.changes = append(a.changes, LeaseChange{ID: c.ID, Kind: LeaseCheckpointed, Checkpoint: c.Remaining_TTL})
	}
}

func (a *Applier) announce(m *pb.Member) {
	next := slices.DeleteFunc(slices.Clone(a.members), func(o *pb.Member) bool { return o.ID == m.ID })
	at, _ := slices.BinarySearchFunc(next, m.ID, func(o *pb.Member, id uint64) int {
		if o.ID < id {
			return -1
		}
		return 1
	})
	a.members = slices.Insert(next, at, m)
}

// Take returns what was applied since the last Take: the report for the Replica,
// and the results of this member's own requests, to be answered after the
// state that includes them was published.
func (a *Applier) Take() (Applied, []Result) {
	in := Applied{Index: a.index, Term: a.term, Leases: a.changes, Batches: a.fates}
	results := a.results
	a.changes, a.fates, a.results = nil, nil, nil
	return in, results
}

// leaseList is all leases, for a Replica that starts from this state.
func (a *Applier) leaseList() []LeaseChange {
	var list []LeaseChange
	for info := range a.store.View().Leases() {
		list = append(list, LeaseChange{ID: info.ID, Kind: LeaseGranted, TTL: info.TTL, Checkpoint: info.Remaining})
	}
	return list
}

// Restored reports the Applier's state to a Replica that starts from it.
func (a *Applier) Restored() Restored {
	return Restored{Index: a.index, Term: a.term, Leases: a.leaseList()}
}

// Snapshot is the state at an index, held still while it is written.
type Snapshot struct {
	Index, Term uint64
	members     []*pb.Member
	view        kv.View
	release     func()
}

// Snapshot holds the present state still. Release must be called in the end;
// it and WriteTo may be called by another goroutine.
func (a *Applier) Snapshot() Snapshot {
	view, release := a.store.Pin()
	return Snapshot{Index: a.index, Term: a.term, members: a.members, view: view, release: release}
}

// Release lets the store give up what the snapshot held.
func (s Snapshot) Release() { s.release() }

// snapshotMembers is a *pb.MemberListResponse: the members, with a length
// before it. The kv state follows.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	p, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.MemberListResponse{Members: s.members})
	if err != nil {
		return 0, err
	}
	head := []byte{byte(len(p) >> 24), byte(len(p) >> 16), byte(len(p) >> 8), byte(len(p))}
	n, err := w.Write(append(head, p...))
	if err != nil {
		return int64(n), err
	}
	m, err := s.view.WriteTo(w)
	return int64(n) + m, err
}

// maxMemberBytes bounds what a snapshot may claim for its list of members.
const maxMemberBytes = 16 << 20

// Restore replaces the state by that of a snapshot taken at index.
func (a *Applier) Restore(r io.Reader, index, term uint64) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("replica: read snapshot: %w", err)
	}
	n := int(head[0])<<24 | int(head[1])<<16 | int(head[2])<<8 | int(head[3])
	if n > maxMemberBytes {
		return fmt.Errorf("replica: read snapshot: a list of members of %d bytes", n)
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		return fmt.Errorf("replica: read snapshot: %w", err)
	}
	var list pb.MemberListResponse
	if err := proto.Unmarshal(p, &list); err != nil {
		return fmt.Errorf("replica: read snapshot: %w", err)
	}
	store, err := kv.Read(r)
	if err != nil {
		return fmt.Errorf("replica: read snapshot: %w", err)
	}
	store.Pause = a.store.Pause
	a.store, a.members, a.index, a.term = store, list.Members, index, term
	a.changes, a.fates, a.results = nil, nil, nil
	return nil
}
