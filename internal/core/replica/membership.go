package replica

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/wire"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// An entry that changes the membership is raft's own, a *raftpb.ConfChange of one
// member. Its Context is a batch with one request, whose body is the change as it was
// asked for: a *raftpb.ConfChange, too, with an encoded *pb.Member for Context, or
// without one to promote a learner.

// Roster names the members. It is never changed, only replaced.
type Roster struct {
	// Members are in the order of their IDs: as they were added, and what they told of
	// themselves since.
	Members []*pb.Member
	// Removed are the IDs of former members, ascending. No ID comes back, so no message of
	// a former member can be taken for that of another.
	Removed []uint64
	// Memberships are those that count for read leases.
	Memberships quorumlease.Memberships
}

// FoundedBy returns the roster of a fresh cluster, by IDs and peer URLs.
func FoundedBy(members []*pb.Member) Roster {
	members = slices.SortedFunc(slices.Values(members), inOrder)
	m := quorumlease.Membership{Index: 1}
	for _, member := range members {
		if member.IsLearner {
			m.Learners = append(m.Learners, machine.NodeID(member.ID))
		} else {
			m.Voters = append(m.Voters, machine.NodeID(member.ID))
		}
	}
	ro := Roster{Memberships: quorumlease.Memberships{m}}
	for _, member := range members { // a member without a name has not started
		ro.Members = append(ro.Members, &pb.Member{ID: member.ID, PeerURLs: member.PeerURLs, IsLearner: member.IsLearner})
	}
	return ro
}

func inOrder(a, b *pb.Member) int { return cmp.Compare(a.ID, b.ID) }

// Find returns a member by its ID, nil if there is none.
func (ro Roster) Find(id uint64) *pb.Member {
	if n, ok := ro.find(id); ok {
		return ro.Members[n]
	}
	return nil
}

func (ro Roster) find(id uint64) (int, bool) {
	return slices.BinarySearchFunc(ro.Members, id, func(m *pb.Member, id uint64) int { return cmp.Compare(m.ID, id) })
}

// WasRemoved reports whether an ID was a member's once.
func (ro Roster) WasRemoved(id uint64) bool {
	_, ok := slices.BinarySearch(ro.Removed, id)
	return ok
}

// ConfState returns the newest membership, as raft has it.
func (ro Roster) ConfState() *raftpb.ConfState { return confState(ro.Memberships.Newest()) }

func confState(m quorumlease.Membership) *raftpb.ConfState {
	conf := &raftpb.ConfState{}
	for _, id := range m.Voters {
		conf.Voters = append(conf.Voters, uint64(id))
	}
	for _, id := range m.Learners {
		conf.Learners = append(conf.Learners, uint64(id))
	}
	return conf
}

// after returns the roster after a change that an entry made. The leader that put it into the
// log has made sure that it makes sense.
func (ro Roster) after(index uint64, cc *raftpb.ConfChange) (Roster, error) {
	var m pb.Member
	if err := proto.Unmarshal(cc.GetContext(), &m); err != nil {
		return ro, fmt.Errorf("%w: a member: %v", errBadEntry, err)
	}
	id := cc.GetNodeId()
	at, known := ro.find(id)
	members := slices.Clone(ro.Members)
	switch {
	case cc.GetType() == raftpb.ConfChangeRemoveNode:
		if known {
			members = slices.Delete(members, at, at+1)
		}
		if at, gone := slices.BinarySearch(ro.Removed, id); !gone {
			ro.Removed = slices.Insert(slices.Clone(ro.Removed), at, id)
		}
	case !known:
		members = slices.Insert(members, at, &pb.Member{ID: id, PeerURLs: m.PeerURLs, IsLearner: cc.GetType() == raftpb.ConfChangeAddLearnerNode})
	default:
		now := proto.CloneOf(members[at])
		if cc.GetType() == raftpb.ConfChangeUpdateNode {
			now.PeerURLs = m.PeerURLs
		} else {
			now.IsLearner = false
		}
		members[at] = now
	}
	ro.Members, ro.Memberships = members, ro.Memberships.With(next(ro.Memberships.Newest(), index, cc))
	return ro, nil
}

// told returns the roster after a member told its name and its client URLs.
func (ro Roster) told(m *pb.Member) Roster {
	at, known := ro.find(m.ID)
	if !known {
		return ro // it was removed meanwhile
	}
	now := proto.CloneOf(ro.Members[at])
	now.Name, now.ClientURLs = m.Name, m.ClientURLs
	ro.Members = slices.Clone(ro.Members)
	ro.Members[at] = now
	return ro
}

// next returns the membership after a change.
func next(m quorumlease.Membership, index uint64, cc *raftpb.ConfChange) quorumlease.Membership {
	id := machine.NodeID(cc.GetNodeId())
	is := func(o machine.NodeID) bool { return o == id }
	out := quorumlease.Membership{Index: index, Voters: slices.Clone(m.Voters), Learners: slices.Clone(m.Learners)}
	if cc.GetType() == raftpb.ConfChangeUpdateNode {
		return out
	}
	out.Voters, out.Learners = slices.DeleteFunc(out.Voters, is), slices.DeleteFunc(out.Learners, is)
	switch cc.GetType() {
	case raftpb.ConfChangeAddNode:
		out.Voters = append(out.Voters, id)
	case raftpb.ConfChangeAddLearnerNode:
		out.Learners = append(out.Learners, id)
	}
	slices.Sort(out.Voters)
	slices.Sort(out.Learners)
	return out
}

// changes reports whether an entry changes the membership.
func changes(e *raftpb.Entry) bool { return e.GetType() == raftpb.EntryConfChange }

// changeOf reads an entry that changes the membership.
func changeOf(e *raftpb.Entry) (*raftpb.ConfChange, error) {
	cc := new(raftpb.ConfChange)
	if err := proto.Unmarshal(e.GetData(), cc); err != nil {
		return nil, fmt.Errorf("%w: %v", errBadEntry, err)
	}
	return cc, nil
}

// askedChange reads the change that an entry makes as it was asked for, and the batch that it came with.
func askedChange(e *raftpb.Entry) (*batch, *raftpb.ConfChange, error) {
	cc, err := changeOf(e)
	if err != nil {
		return nil, nil, err
	}
	b, err := decodeBatch(cc.GetContext())
	if err != nil {
		return nil, nil, err
	}
	if len(b.Requests) != 1 || b.Term != e.GetTerm() {
		return nil, nil, errBadEntry
	}
	_, m, err := decodeRequest(b.Requests[0].Body)
	if err != nil {
		return nil, nil, err
	}
	asked, ok := m.(*raftpb.ConfChange)
	if !ok || asked.GetType() != cc.GetType() || asked.GetNodeId() != cc.GetNodeId() {
		return nil, nil, errBadEntry
	}
	return b, asked, nil
}

// PeerURLs returns the URLs that changes of the membership among entries give to members, as far
// as they can be read. Of two members that have had one URL it names the later. Entries need
// not be committed.
func PeerURLs(entries []*raftpb.Entry) map[string]uint64 {
	urls := map[string]uint64{}
	for _, e := range entries {
		if !changes(e) {
			continue
		}
		_, asked, err := askedChange(e)
		if err != nil {
			continue // the Applier says so
		}
		var m pb.Member
		if proto.Unmarshal(asked.GetContext(), &m) != nil {
			continue
		}
		for _, url := range m.PeerURLs {
			urls[url] = asked.GetNodeId()
		}
	}
	return urls
}

// encode returns what a snapshot says of the roster beside the members.
func (ro Roster) encode() []byte {
	var w wire.Writer
	w.Count(len(ro.Removed))
	writeNumbers(&w, ro.Removed...)
	w.Count(len(ro.Memberships))
	for _, m := range ro.Memberships {
		w.Uvarint(m.Index)
		writeMembers(&w, m.Voters)
		writeMembers(&w, m.Learners)
	}
	return w
}

// decodeRoster reads what encode wrote.
func decodeRoster(members []*pb.Member, p []byte) (Roster, error) {
	ro, r := Roster{Members: members}, reader{wire.Reader{Rest: p}}
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		ro.Removed = append(ro.Removed, r.Uvarint())
	}
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		ro.Memberships = append(ro.Memberships, quorumlease.Membership{Index: r.Uvarint(), Voters: r.members(), Learners: r.members()})
	}
	if !r.Done() {
		return ro, fmt.Errorf("%w: it does not name the members", errBadMessage)
	}
	return ro, nil
}

// AddMember asks for another member, that votes or learns, with an ID that was nobody's
// before. Propose what these four return; they fail with etcd's errors, as Rejected.
func AddMember(id uint64, peerURLs []string, learner bool) *raftpb.ConfChange {
	kind := raftpb.ConfChangeAddNode
	if learner {
		kind = raftpb.ConfChangeAddLearnerNode
	}
	return &raftpb.ConfChange{Type: kind.Enum(), NodeId: &id, Context: encodeMember(peerURLs)}
}

// PromoteMember asks for a learner's vote.
func PromoteMember(id uint64) *raftpb.ConfChange {
	return &raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: &id}
}

// RemoveMember asks for a member to be one no more.
func RemoveMember(id uint64) *raftpb.ConfChange {
	return &raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: &id}
}

// UpdateMember asks for a member to be found at other URLs.
func UpdateMember(id uint64, peerURLs []string) *raftpb.ConfChange {
	return &raftpb.ConfChange{Type: raftpb.ConfChangeUpdateNode.Enum(), NodeId: &id, Context: encodeMember(peerURLs)}
}

// encodeMember never returns nothing, which would be another request.
func encodeMember(peerURLs []string) []byte {
	p, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.Member{ID: 1, PeerURLs: peerURLs})
	if err != nil {
		panic(err) // a message of our own making
	}
	return p
}
