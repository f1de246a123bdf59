package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Raft trusts its messages. Some that no member sends make it panic: a commit index behind the
// end of the log, or an acknowledgment of a round that was never begun. Others put entries into
// the log that no member can apply, now or after a restart. Transport sees to it that messages
// come from members. But a member may be damaged, and its address may have been taken over. So
// no message is stepped before it was found sound, by itself (Sound) and beside what this
// member knows (misfits).

// errUnsound means that a message is one that no member of this version sends.
var errUnsound = errors.New("replica: a message that no member sends")

const (
	// farAhead is a term, or an index, that no cluster reaches: each election takes a
	// round trip, each entry some bytes. Beyond it counting would overflow.
	farAhead = 1 << 60
	// termsMissed bounds how far ahead of this member's a term may be. At an election
	// each second it is a century.
	termsMissed = 1 << 32
)

// plausible is what other members' messages are judged by.
type plausible struct {
	// least is how far raft's log reaches at least, of which last tells only from one Ready
	// to the next Step; begun is how many rounds raft has begun in this leadership.
	least, begun uint64
	complained   machine.Mono // of an unsound message, last
}

func unsound(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUnsound, fmt.Sprintf(format, args...))
}

// Sound returns nil if a message of raft's is one that a member sends to another, as far as
// can be told by itself, and else an error that matches errUnsound.
func Sound(m *raftpb.Message, from, to machine.NodeID) error {
	switch {
	case machine.NodeID(m.GetFrom()) != from || machine.NodeID(m.GetTo()) != to:
		return unsound("from %x to %x, in an envelope from %x to %x", m.GetFrom(), m.GetTo(), uint64(from), uint64(to))
	case m.GetTerm() == 0 || m.GetTerm() >= farAhead:
		return unsound("a term of %d", m.GetTerm())
	case max(m.GetIndex(), m.GetCommit(), m.GetLogTerm(), m.GetRejectHint()) >= farAhead:
		return unsound("an index of %d, of %d, of %d or a term of %d", m.GetIndex(), m.GetCommit(), m.GetRejectHint(), m.GetLogTerm())
	case len(m.GetResponses()) > 0:
		return unsound("with messages in it")
	case m.GetType() != raftpb.MsgApp && len(m.GetEntries()) > 0:
		return unsound("entries in a message of type %v", m.GetType())
	case m.GetType() != raftpb.MsgSnap && m.GetSnapshot() != nil:
		return unsound("a snapshot in a message of type %v", m.GetType())
	}
	switch m.GetType() {
	case raftpb.MsgApp:
		return soundEntries(m)
	case raftpb.MsgSnap:
		return soundSnapshot(m, to)
	case raftpb.MsgHeartbeatResp:
		if n := len(m.GetContext()); n != 0 && n != 8 {
			return unsound("an acknowledgment of a round with a context of %d bytes", n)
		}
		return nil
	case raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgHeartbeat, raftpb.MsgTimeoutNow:
		return nil
	}
	return unsound("of type %v", m.GetType()) // local to a member, or not used here
}

// soundEntries checks that entries follow each other, as a log has them, and that each can
// be applied.
func soundEntries(m *raftpb.Message) error {
	index, term := m.GetIndex(), m.GetLogTerm()
	for _, e := range m.GetEntries() {
		index++
		if e.GetIndex() != index || e.GetTerm() < term || e.GetTerm() > m.GetTerm() || e.GetTerm() == 0 {
			return unsound("entry %d of term %d where entry %d belongs, of a term from %d to %d", e.GetIndex(), e.GetTerm(), index, term, m.GetTerm())
		}
		term = e.GetTerm()
		if err := soundEntry(e); err != nil {
			return fmt.Errorf("%w: entry %d: %w", errUnsound, index, err)
		}
	}
	return nil
}

func soundEntry(e *raftpb.Entry) error {
	switch {
	case e.GetType() == raftpb.EntryNormal && len(e.GetData()) == 0:
		return nil // a new leader's first
	case e.GetType() == raftpb.EntryNormal:
		return soundBatch(e.GetData())
	case !changes(e):
		return errBadEntry
	}
	_, err := askedFor(e)
	return err
}

// soundBatch reports, without an allocation, whether decodeBatch takes an entry and all
// kinds of requests in it are known.
func soundBatch(p []byte) error {
	if !isBatch(p) {
		return errBadEntry
	}
	r := wire.Reader{Rest: p[1:]}
	for range 4 {
		r.Uvarint()
	}
	n := r.Uvarint()
	for ; n > 0 && !r.Bad; n-- {
		r.Uvarint()
		skipCaller(&r, p)
		if body := r.Bytes(); len(body) == 0 || !knownKind(body[0]) {
			return errBadEntry
		}
	}
	if !r.Done() {
		return errBadEntry
	}
	return nil
}

// askedFor returns the request of an entry that changes the membership; see membership.go.
func askedFor(e *raftpb.Entry) (*raftpb.ConfChange, error) {
	_, asked, err := askedChange(e)
	if err != nil {
		return nil, err
	}
	return asked, soundChange(asked)
}

// soundChange checks a change of the membership as it is asked for: one that adds a member,
// or moves it, says where.
func soundChange(cc *raftpb.ConfChange) error {
	var m pb.Member
	if cc.GetNodeId() == 0 || cc.GetNodeId() >= raft.LocalApplyThread || proto.Unmarshal(cc.GetContext(), &m) != nil {
		return errBadEntry
	}
	switch cc.GetType() {
	case raftpb.ConfChangeRemoveNode:
		return nil
	case raftpb.ConfChangeAddNode:
		if len(cc.GetContext()) == 0 { // a promotion
			return nil
		}
	case raftpb.ConfChangeAddLearnerNode, raftpb.ConfChangeUpdateNode:
	default:
		return errBadEntry
	}
	if len(m.GetPeerURLs()) == 0 {
		return errBadEntry
	}
	return nil
}

// soundSnapshot checks what a snapshot says of itself.
func soundSnapshot(m *raftpb.Message, to machine.NodeID) error {
	md := m.GetSnapshot().GetMetadata()
	conf := md.GetConfState()
	switch all := slices.Concat(conf.GetVoters(), conf.GetLearners()); {
	case md.GetIndex() == 0 || md.GetIndex() >= farAhead || md.GetTerm() == 0 || md.GetTerm() > m.GetTerm():
		return unsound("a snapshot of entry %d of term %d, sent in term %d", md.GetIndex(), md.GetTerm(), m.GetTerm())
	case len(conf.GetVoters()) == 0 || len(conf.GetVotersOutgoing()) > 0 || len(conf.GetLearnersNext()) > 0 || conf.GetAutoLeave():
		return unsound("a snapshot of members %v", conf)
	case !slices.Contains(all, uint64(to)):
		return unsound("a snapshot of members %v, without this one", conf)
	default:
		slices.Sort(all)
		if all[0] == 0 || len(slices.Compact(all)) < len(conf.GetVoters())+len(conf.GetLearners()) {
			return unsound("a snapshot of members %v", conf)
		}
	}
	return nil
}

// checkFits returns nil if another member's message is one that raft can take as things are.
func (r *Replica) checkFits(m *raftpb.Message) error {
	st := r.raft.BasicStatus()
	term := st.HardState.GetTerm()
	if m.GetTerm() > term+termsMissed {
		return unsound("term %d, and this member is in term %d", m.GetTerm(), term)
	}
	switch m.GetType() {
	case raftpb.MsgHeartbeat:
		if m.GetCommit() > r.least {
			return fmt.Errorf("entries up to %d are said to be committed here, and this member's log ends at %d: if no other member is at fault, its disk has lost acknowledged entries; replace it: %w",
				m.GetCommit(), r.least, errUnsound)
		}
	case raftpb.MsgAppResp:
		if st.RaftState == raft.StateLeader && m.GetTerm() == term && !m.GetReject() && m.GetIndex() > r.last {
			return unsound("entry %d is acknowledged, and the log ends at %d", m.GetIndex(), r.last)
		}
	case raftpb.MsgHeartbeatResp:
		if c := m.GetContext(); st.RaftState == raft.StateLeader && m.GetTerm() == term && len(c) > 0 && binary.LittleEndian.Uint64(c) > r.begun {
			return unsound("round %d is acknowledged, and %d were begun", binary.LittleEndian.Uint64(c), r.begun)
		}
	case raftpb.MsgTimeoutNow:
		if st.Lead != raft.None && st.Lead != m.GetFrom() {
			return unsound("a hand-over by member %x, and %x leads", m.GetFrom(), st.Lead)
		}
	}
	return nil
}

// stepRaft steps another member's message, if it is sound.
func (r *Replica) stepRaft(from machine.NodeID, m *raftpb.Message) {
	err := Sound(m, from, r.cfg.ID)
	if err == nil {
		err = r.checkFits(m)
	}
	if err != nil {
		r.complain(from, err)
		return
	}
	if r.leading() && m.GetTerm() == r.term {
		r.levels.learn(from, m)
	}
	if r.full(m) {
		return // the leader sends it again
	}
	// The message may shorten the log, down to what is committed. How far is known with the
	// next Ready.
	switch commit := r.raft.BasicStatus().HardState.GetCommit(); {
	case m.GetType() == raftpb.MsgApp && m.GetIndex() >= commit:
		r.least = min(r.least, m.GetIndex()+uint64(len(m.GetEntries())))
	case m.GetType() == raftpb.MsgSnap && m.GetSnapshot().GetMetadata().GetIndex() > commit:
		r.least = min(r.least, m.GetSnapshot().GetMetadata().GetIndex())
	}
	// The error tells of messages from unknown members: data, ignored.
	_ = r.raft.Step(m)
}

// complain tells of an unsound message, once in an election timeout.
func (r *Replica) complain(from machine.NodeID, err error) {
	if r.complained == 0 || r.now.Sub(r.complained) > r.cfg.electionTimeout() {
		r.complained = r.now
		r.cfg.Logger.Errorf("refused a message of member %x: %v", uint64(from), err)
	}
}

// full reports whether a leader's message would only make a log longer that is already as
// long as it may be. A follower whose snapshots are slow would need ever more memory: its
// leader's bound is by the leader's own snapshots. Commits come with heartbeats, too, so a
// snapshot makes room without such a message.
func (r *Replica) full(m *raftpb.Message) bool {
	return m.GetType() == raftpb.MsgApp && len(m.GetEntries()) > 0 && m.GetIndex() >= r.tail.last() &&
		r.tail.sinceSnapshot() > r.cfg.MaxTailBytes+r.cfg.MaxTailBytes/4
}
