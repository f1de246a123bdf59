package memberworld

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/machine"
)

// strangers are the ways of a process that is no member, reaches the port for members, and
// knows all that any process may learn there.
var strangers = []string{"asks", "babbles", "poses as a member", "is made up"}

// asksTooMuch is the way of a client that means harm.
const asksTooMuch = "asks too much"

// stranger is a process with a listener, whose address members can be told.
type stranger struct {
	c      *cluster
	r      *rand.Rand
	p      *world.Process
	target string
	knows  known
}

// known is the part that a member tells any process.
type known struct {
	Cluster  uint64     `json:"cluster_id"`
	Founders []knownOne `json:"founders"`
	Members  []knownOne `json:"members"`
}

type knownOne struct {
	ID  uint64 `json:"id"`
	URL string `json:"peer_url"`
}

// intrude has a stranger speak to a host's port for members for a while.
func (c *cluster) intrude(h *host, how string) {
	n := c.strangers.Add(1)
	s := stranger{
		c: c, r: c.w.Rand(fmt.Sprintf("stranger %d", n)),
		p: c.w.Start(fmt.Sprintf("evil%d", n)), target: h.addr(),
	}
	defer func() {
		s.p.End()
		c.net.Exit(s.p)
	}()
	if said, err := s.ask(nil); err == nil {
		_ = json.Unmarshal(said, &s.knows)
	}
	c.w.Trace.Add("a stranger %s at %s, and knows %+v", how, h.name, s.knows)
	switch how {
	case "asks":
		s.spreadLies()
	case "babbles":
		s.babble()
	case asksTooMuch:
		s.target = fmt.Sprintf("%s:%d", h.name, clientPort)
		s.babble()
		s.askTooMuch(h)
	case "poses as a member":
		if len(s.knows.Members) > 0 {
			s.speak(s.knows.Members[s.r.IntN(len(s.knows.Members))].ID)
		}
	case "is made up":
		s.speak(s.r.Uint64() >> 1)
	}
}

func (s *stranger) ask(say []byte) ([]byte, error) {
	ctx, cancel := within(2 * time.Second)
	defer cancel()
	return peer.Ask(ctx, s.target, nil, s.c.net.Dialer(s.p), say)
}

// url is where the stranger is.
func (s *stranger) url() string { return fmt.Sprintf("http://%s:%d", s.p.Name(), peerPort) }

// lie is a question with members that there are not, and others in the stranger's place.
func (s *stranger) lie() []byte {
	lie := known{Cluster: s.knows.Cluster, Founders: s.knows.Founders}
	for range 50 {
		lie.Members = append(lie.Members, knownOne{s.r.Uint64() >> 1, s.url()})
	}
	for _, m := range s.knows.Members {
		lie.Members = append(lie.Members, knownOne{m.ID, s.url()})
	}
	said, err := json.Marshal(lie)
	if err != nil {
		panic(err)
	}
	return said
}

// spreadLies asks, talks of members, and tells those that dial it that they were removed.
func (s *stranger) spreadLies() {
	t := s.listen(s.r.Uint64() >> 1)
	if t == nil {
		return
	}
	defer t.Close()
	for range 20 {
		_, _ = s.ask(s.lie())
		s.c.pause(50 * time.Millisecond)
	}
	s.c.pause(3 * time.Second) // for members that believe it, to dial
}

// listen is the real transport in a stranger's hands. It takes all members for removed.
func (s *stranger) listen(self uint64) *peer.Transport {
	l, err := s.c.net.Listen(s.p, peerPort)
	if err != nil {
		return nil
	}
	peers, removed := map[machine.NodeID]string{}, []machine.NodeID{}
	for _, m := range s.knows.Members {
		if m.ID == self {
			continue
		}
		if addr := m.URL[len("http://"):]; addr == s.target {
			peers[machine.NodeID(m.ID)] = addr
		} else {
			removed = append(removed, machine.NodeID(m.ID))
		}
	}
	t, err := peer.New(peer.Config{
		Self: machine.NodeID(self), ClusterID: s.knows.Cluster, Listener: l, Peers: peers, Dial: s.c.net.Dialer(s.p),
		Deliver: func(machine.NodeID, [][]byte) {},
		Answer:  func([]byte) []byte { return s.lie() },
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil
	}
	if err := t.SetPeers(peers, removed); err != nil {
		s.c.w.Trace.Add("stranger: %v", err)
	}
	return t
}

// babble opens connections, and says nothing, or what makes no sense.
func (s *stranger) babble() {
	dial := s.c.net.Dialer(s.p)
	for range 100 {
		ctx, cancel := within(time.Second)
		conn, err := dial(ctx, s.target)
		cancel()
		if err != nil {
			continue
		}
		if s.r.IntN(2) == 0 {
			b := make([]byte, s.r.IntN(200))
			for i := range b {
				b[i] = byte(s.r.Uint32())
			}
			if s.r.IntN(2) == 0 {
				b = append([]byte("TENUREPR"), b...)
			}
			_, _ = conn.Write(b)
		}
	}
	s.c.pause(3 * time.Second) // and holds them
}

// speak sends messages that only the leader may send, in words that no leader would use.
func (s *stranger) speak(self uint64) {
	t := s.listen(self)
	if t == nil {
		return
	}
	defer t.Close()
	term := uint64(1)
	for known := range s.c.terms.all() {
		term = max(term, known)
	}
	for range 20 {
		for _, m := range s.knows.Members {
			if m.URL != "http://"+s.target {
				continue
			}
			to := machine.NodeID(m.ID)
			for _, msg := range s.words(self, m.ID, term) {
				if body, err := replica.EncodeBody(msg); err == nil {
					t.Send(to, body)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			if header, err := replica.EncodeBody(s.snapshot(self, m.ID, term)); err == nil {
				_ = t.SendStream(ctx, to, header, io.LimitReader(bytes.NewReader(make([]byte, 4096)), 4096))
			}
			cancel()
		}
		s.c.pause(100 * time.Millisecond)
	}
}

func (s *stranger) words(from, to, term uint64) []*raftpb.Message {
	far := uint64(1) << 40
	heartbeat, app, vote := raftpb.MsgHeartbeat, raftpb.MsgApp, raftpb.MsgVote
	later := term + 5
	return []*raftpb.Message{
		{Type: &heartbeat, From: &from, To: &to, Term: &term, Commit: &far},
		{Type: &heartbeat, From: &from, To: &to, Term: &later, Commit: &far},
		{Type: &vote, From: &from, To: &to, Term: &later, Index: &far, LogTerm: &later},
		{Type: &app, From: &from, To: &to, Term: &later, Index: proto.Uint64(1), LogTerm: proto.Uint64(1), Commit: proto.Uint64(2),
			Entries: []*raftpb.Entry{{Term: &later, Index: proto.Uint64(2), Data: []byte("no entry at all")}}},
	}
}

func (s *stranger) snapshot(from, to, term uint64) *raftpb.Message {
	snap := raftpb.MsgSnap
	far := uint64(1) << 50
	return &raftpb.Message{Type: &snap, From: &from, To: &to, Term: &term, Snapshot: &raftpb.Snapshot{
		Metadata: &raftpb.SnapshotMetadata{Index: &far, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{from}}},
	}}
}
