package replica

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
	"github.com/tenure-lease/tenure/internal/wire"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Applier is the replicated state and the rules by which committed entries
// change it. It is as pure as a Replica, but a driver may run it on another
// goroutine, so that a long entry never delays a heartbeat.
type Applier struct {
	id      machine.NodeID
	boot    uint64
	store   *kv.Store
	users   *auth.State
	alarms  *alarm.State
	roster  Roster
	setting readSetting
	// released is up to where the owner has said that the state may be seen.
	released    uint64
	older       bool
	index, term uint64
	changes     []leaseChange
	fates       []batchFate
	results     []Result
	tokens      []Token
	observer    Observer // nil: none
}

// NewApplier returns the state of a fresh cluster, from Genesis on.
func NewApplier(id machine.NodeID, boot uint64) *Applier {
	return &Applier{id: id, boot: boot, store: kv.New(), users: auth.New(), alarms: alarm.New(), index: 1, term: 1, released: 1}
}

// Store gives the state itself. Only the Applier's goroutine may touch it; what
// it publishes are the Store's Views.
func (a *Applier) Store() *kv.Store { return a.store }

// Older makes the applier one of a version from before levels: see [Config].
func (a *Applier) Older() { a.older = true }

// Index returns the index of the last entry applied.
func (a *Applier) Index() uint64 { return a.index }

// Term returns the term of that entry.
func (a *Applier) Term() uint64 { return a.term }

// Found sets the members that begin a fresh cluster. All members must name the same.
func (a *Applier) Found(by Roster) { a.roster = by }

// Roster returns the members.
func (a *Applier) Roster() Roster { return a.roster }

// ReadPolicy returns the policy of read leases, empty until one was set.
func (a *Applier) ReadPolicy() quorumlease.Policy { return a.setting.policy }

// Released tells that everything up to an index is released; a snapshot tells it on.
func (a *Applier) Released(index uint64) {
	a.released = max(a.released, index)
	a.roster.Memberships = a.roster.Memberships.Released(min(a.released, a.index))
}

// Apply applies one committed entry. An error means that this version cannot
// make sense of the log; going on would make the members differ.
func (a *Applier) Apply(e *raftpb.Entry) error {
	if e.GetIndex() != a.index+1 {
		return fmt.Errorf("replica: entry %d follows %d", e.GetIndex(), a.index)
	}
	switch {
	case changes(e):
		if err := a.change(e); err != nil {
			return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
	case e.GetType() != raftpb.EntryNormal:
		return fmt.Errorf("%w: entry %d is of a kind that a newer version wrote", errBadEntry, e.GetIndex())
	case a.older && isBatch(e.GetData()) && (isKept(e.GetData()) || hasCallers(e.GetData())):
		return fmt.Errorf("%w: entry %d is kept", errBadEntry, e.GetIndex())
	case len(e.GetData()) > 0: // else a new leader's first entry
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
		a.fates = append(a.fates, batchFate{Seq: b.Seq, Refused: refused})
	}
	if refused {
		return nil
	}
	for _, req := range b.Requests {
		kind, m, err := decodeRequest(req.Body)
		if err != nil {
			return err
		}
		if a.older && (kind == kindUsers || kind == kindAlarm) {
			return fmt.Errorf("%w: it changes users or alarms", errBadEntry)
		}
		resp, err := a.judged(req.Caller, kind, m)
		if a.observer != nil {
			a.observer(operation(kind, m), err)
		}
		if own && req.ID != 0 {
			a.results = append(a.results, Result{ID: req.ID, Index: a.index + 1, Response: resp, Err: err})
		}
	}
	return nil
}

// change applies a change of the membership, which its leader has found to make sense.
func (a *Applier) change(e *raftpb.Entry) error {
	b, asked, err := askedChange(e)
	if err != nil {
		return err
	}
	if a.roster, err = a.roster.after(e.GetIndex(), asked); err != nil {
		return err
	}
	if b.From == a.id && b.Boot == a.boot {
		a.fates = append(a.fates, batchFate{Seq: b.Seq})
		list := &pb.MemberListResponse{Header: a.header(), Members: a.roster.Members}
		a.results = append(a.results, Result{ID: b.Requests[0].ID, Index: e.GetIndex(), Response: list})
	}
	return nil
}

// judged applies one request if its caller may ask for it.
func (a *Applier) judged(c auth.Caller, kind byte, m proto.Message) (proto.Message, error) {
	if err := a.alarmed(kind, m); err != nil {
		return nil, err
	}
	if err := a.permits(c, kind, m); err != nil {
		return nil, err
	}
	if kind == kindUsers {
		return a.changeUsers(c, m.(*pb.InternalRaftRequest))
	}
	return a.request(kind, m)
}

// request applies one request. Its error is the client's, the same everywhere.
func (a *Applier) request(kind byte, m proto.Message) (proto.Message, error) {
	if kind == kindRead {
		return nil, nil
	}
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
		a.changes = append(a.changes, leaseChange{ID: m.ID, Kind: leaseGranted, TTL: m.TTL})
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
		a.roster = a.roster.told(m)
		return m, nil
	case *wrapperspb.StringValue, *wrapperspb.BytesValue:
		setting, err := a.setting.with(m)
		if err != nil {
			return nil, err
		}
		a.setting = setting
		return m, nil
	case *pb.AlarmRequest:
		return answer(a.changeAlarms(m))
	}
	return nil, errors.New("replica: a request without a rule")
}

// answer keeps a nil response from becoming a message.
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
	a.changes = append(a.changes, leaseChange{ID: id, Kind: leaseGone})
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
		a.changes = append(a.changes, leaseChange{ID: c.ID, Kind: leaseCheckpointed, Checkpoint: c.Remaining_TTL})
	}
}

// Take returns what was applied since the last Take: the report for the Replica,
// and the results of this member's own requests, to be answered after the
// state that includes them was published.
func (a *Applier) Take() (Applied, []Result) {
	in := Applied{
		Index: a.index, Term: a.term, Leases: a.changes, Batches: a.fates, ReadPolicy: a.setting.policy, ReadCells: a.setting.cells,
		LeaseKeys: a.store.View().LeaseKeys, Roster: a.roster, UsersUsed: a.users.Used(), AlarmsUsed: a.alarms.Used(),
	}
	results := a.results
	a.changes, a.fates, a.results = nil, nil, nil
	return in, results
}

// leaseList is all leases, for a Replica that starts from this state.
func (a *Applier) leaseList() []leaseChange {
	var list []leaseChange
	for info := range a.store.View().Leases() {
		list = append(list, leaseChange{ID: info.ID, Kind: leaseGranted, TTL: info.TTL, Checkpoint: info.Remaining})
	}
	return list
}

// Restored reports the Applier's state to a Replica that starts from it.
func (a *Applier) Restored() Restored {
	return Restored{
		Index: a.index, Term: a.term, Released: min(a.released, a.index), Leases: a.leaseList(),
		ReadPolicy: a.setting.policy, ReadCells: a.setting.cells, LeaseKeys: a.store.View().LeaseKeys, Roster: a.roster,
		UsersUsed: a.users.Used(), AlarmsUsed: a.alarms.Used(),
	}
}

// Snapshot is the state at an index, held still while it is written.
type Snapshot struct {
	Index, Term uint64
	roster      Roster
	setting     readSetting
	released    uint64
	users       *auth.State
	alarms      *alarm.State
	view        kv.View
	release     func()
}

// Snapshot holds the present state still. Release must be called in the end;
// it and WriteTo may be called by another goroutine.
func (a *Applier) Snapshot() Snapshot {
	view, release := a.store.Pin()
	return Snapshot{
		Index: a.index, Term: a.term, roster: a.roster, setting: a.setting, released: min(a.released, a.index),
		users: a.users, alarms: a.alarms, view: view, release: release,
	}
}

// Release lets the store give up what the snapshot held.
func (s Snapshot) Release() { s.release() }

// ConfState returns the members, for the metadata of the snapshot.
func (s Snapshot) ConfState() *raftpb.ConfState { return s.roster.ConfState() }

// WriteTo writes the snapshot. It begins with five sections, each behind its length. They
// are the members, as a *pb.MemberListResponse; the policy of read leases; the holders of
// the keys; the index up to which the state is released; and the voters, the learners and
// the removed members. Then follow the users and the alarms, if there ever were any, and the kv state.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	members, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.MemberListResponse{Members: s.roster.Members})
	if err != nil {
		return 0, err
	}
	var head, released wire.Writer
	released.Uvarint(s.released)
	for _, p := range [][]byte{members, []byte(s.setting.policy), s.setting.encodeCells(), released, s.roster.encode()} {
		head = binary.BigEndian.AppendUint32(head, uint32(len(p)))
		head.Put(p)
	}
	if s.users.Used() {
		head.Put(encodeUsers(s.users))
	}
	if s.alarms.Used() {
		head.Put(encodeAlarms(s.alarms))
	}
	n, err := w.Write(head)
	if err != nil {
		return int64(n), err
	}
	m, err := s.view.WriteTo(w)
	return int64(n) + m, err
}

// maxSectionBytes bounds what a snapshot may claim for what is before the kv state.
const maxSectionBytes = 16 << 20

// readSection reads a length and as many bytes.
func readSection(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("replica: read snapshot: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxSectionBytes {
		return nil, fmt.Errorf("replica: read snapshot: a section of %d bytes", n)
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		return nil, fmt.Errorf("replica: read snapshot: %w", err)
	}
	return p, nil
}

// Restore replaces the state by that of a snapshot taken at index.
func (a *Applier) Restore(r io.Reader, index, term uint64) error {
	var sections [5][]byte
	for i := range sections {
		var err error
		if sections[i], err = readSection(r); err != nil {
			return err
		}
	}
	var list pb.MemberListResponse
	if err := proto.Unmarshal(sections[0], &list); err != nil {
		return fmt.Errorf("replica: read snapshot: %w", err)
	}
	setting, err := decodeSetting(string(sections[1]), sections[2])
	if err != nil {
		return fmt.Errorf("replica: read snapshot: %w", err)
	}
	in := wire.Reader{Rest: sections[3]}
	released := in.Uvarint()
	if !in.Done() {
		return errors.New("replica: read snapshot: it does not say up to where it is released")
	}
	roster, err := decodeRoster(list.Members, sections[4])
	if err != nil {
		return fmt.Errorf("replica: read snapshot: %w", err)
	}
	rest := bufio.NewReaderSize(r, 64<<10)
	users, err := readUsers(rest)
	if err != nil {
		return fmt.Errorf("replica: read snapshot: %w", err)
	}
	alarms, err := readAlarms(rest)
	if err != nil {
		return fmt.Errorf("replica: read snapshot: %w", err)
	}
	store, err := kv.Read(rest)
	if err != nil {
		return fmt.Errorf("replica: read snapshot: %w", err)
	}
	store.Pause = a.store.Pause
	store.Counts = a.store.Counts
	a.store, a.roster, a.setting, a.alarms, a.index, a.term = store, roster, setting, alarms, index, term
	a.users = users
	a.released = released
	a.changes, a.fates, a.results = nil, nil, nil
	return nil
}
