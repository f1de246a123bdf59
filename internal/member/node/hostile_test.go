package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3/raftpb"
)

// stranger listens like a member, and claims anything about itself. It has asked a member, and knows
// all IDs and addresses.
type stranger struct {
	t       *testing.T
	in      introduction
	ln      net.Listener
	running sync.WaitGroup
	mu      sync.Mutex
	dialed  int
}

func newStranger(t *testing.T, c *cluster) *stranger {
	s := &stranger{t: t}
	addr := c.cfgs[0].Peers["m0"][len("http://"):]
	said, err := peer.Ask(c.ctx(), addr, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(said, &s.in); err != nil {
		t.Fatal(err)
	}
	if s.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.running.Go(func() {
		for {
			conn, err := s.ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.dialed++
			s.mu.Unlock()
			conn.Write(answerOf(9, "you were removed")) // to whatever it is
			conn.Close()
		}
	})
	t.Cleanup(func() { s.ln.Close(); s.running.Wait() })
	return s
}

// answerOf is an answer to a greeting, and a greeting is one, as package peer has them on
// the wire.
func answerOf(status byte, reason string) []byte {
	b := make([]byte, 20)
	copy(b, "TENUREPR")
	binary.LittleEndian.PutUint16(b[8:], 2)
	b[10] = status
	binary.LittleEndian.PutUint32(b[12:], uint32(len(reason)))
	sum := crc32.Update(crc32.Checksum(b[:16], crc32.MakeTable(crc32.Castagnoli)), crc32.MakeTable(crc32.Castagnoli), []byte(reason))
	binary.LittleEndian.PutUint32(b[16:], sum)
	return append(b, reason...)
}

func greetingOf(kind byte, cluster, from, to uint64) []byte {
	b := make([]byte, 64)
	copy(b, "TENUREPR")
	binary.LittleEndian.PutUint16(b[8:], 2)
	b[10] = kind
	for i, v := range []uint64{cluster, from, to, 5} {
		binary.LittleEndian.PutUint64(b[12+8*i:], v)
	}
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func frameOf(typ byte, body []byte) []byte {
	b := make([]byte, 12, 12+len(body))
	b[0], b[1] = 1, typ
	binary.LittleEndian.PutUint32(b[4:], uint32(len(body)))
	sum := crc32.Update(crc32.Checksum(b[:8], crc32.MakeTable(crc32.Castagnoli)), crc32.MakeTable(crc32.Castagnoli), body)
	binary.LittleEndian.PutUint32(b[8:], sum)
	return append(b, body...)
}

// say sends a member messages of raft's in another member's name.
func (s *stranger) say(to *Node, from uint64, kind byte, frames ...[]byte) {
	s.t.Helper()
	conn, err := net.Dial("tcp", to.cfg.Peers[to.cfg.Name][len("http://"):])
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	conn.Write(slices.Concat(append([][]byte{greetingOf(kind, s.in.Cluster, from, to.ID())}, frames...)...))
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	io.Copy(io.Discard, conn) // until it hangs up
}

func batchOf(t *testing.T, body any) []byte {
	p, err := replica.EncodeBody(body)
	if err != nil {
		t.Fatal(err)
	}
	return frameOf(1, append(binary.AppendUvarint(nil, uint64(len(p))), p...))
}

// A stranger reaches the peer port and knows everything that members tell any process. It claims to be
// a member, reports that all others were removed, and sends messages that would end a member or empty
// it. All members go on, and so do they after a restart.
func TestAStrangerAtThePeerPort(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.put(0, "k", "v")
	for i := range c.nodes {
		c.get(i, "k")
	}
	s := newStranger(t, c)
	at := "http://" + s.ln.Addr().String()
	for i, n := range c.nodes {
		other := c.nodes[(i+1)%3].ID()
		_, term, _ := n.Leader()
		from, to, huge := other, n.ID(), uint64(1<<50)
		heartbeat := &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: &from, To: &to, Term: new(term + 1), Commit: &huge}
		garbage := &raftpb.Message{Type: raftpb.MsgApp.Enum(), From: &from, To: &to, Term: new(term + 1), Index: new(uint64(1)), LogTerm: new(uint64(1)), Commit: new(uint64(2)),
			Entries: []*raftpb.Entry{{Index: new(uint64(2)), Term: new(term + 1), Type: raftpb.EntryNormal.Enum(), Data: []byte("garbage")}}}
		s.say(n, other, 1, batchOf(t, heartbeat), batchOf(t, garbage))

		snapshot := &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: &from, To: &to, Term: new(term + 1), Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
			Index: &huge, Term: new(term + 1), ConfState: n.applied().roster.ConfState()}}}
		header, err := replica.EncodeBody(snapshot)
		if err != nil {
			t.Fatal(err)
		}
		s.say(n, other, 2, frameOf(4, header), frameOf(5, emptySnapshot(t, huge, term+1, n)), frameOf(6, nil))

		// Everybody is elsewhere, and there are thousands more.
		list := introduction{Cluster: s.in.Cluster, Members: []founder{{ID: other, URL: at}}}
		for id := range uint64(300) {
			list.Members = append(list.Members, founder{ID: 1000 + id, URL: at})
		}
		said, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		s.say(n, 0, 3, frameOf(4, said))
		c.cfgs[i].Logger.Info("told", "member", i)
	}
	time.Sleep(3 * c.cfgs[0].ElectionTimeout) // in which it would be believed
	s.mu.Lock()
	if s.dialed > 0 {
		t.Errorf("members have dialed a stranger %d times", s.dialed)
	}
	s.mu.Unlock()
	for i, n := range c.nodes {
		n.contacts.mu.Lock()
		if len(n.contacts.heard) > 0 {
			t.Errorf("member %d believes a stranger's list: %v", i, n.contacts.heard)
		}
		n.contacts.mu.Unlock()
		if there, err := n.storage.log.Snapshots().List(); err != nil || len(there) > 0 {
			t.Errorf("member %d has kept a stranger's snapshot: %v, %v", i, there, err)
		}
		if _, err := os.Stat(filepath.Join(c.cfgs[i].DataDir, removedFile)); err == nil {
			t.Errorf("member %d was removed on a stranger's word", i)
		}
		c.put(i, fmt.Sprint("k", i), "after")
	}
	for i := range c.nodes {
		c.kill(i)
	}
	for i := range c.nodes {
		c.start(i)
	}
	for i := range c.nodes {
		if got := c.get(i, "k"); got != "v" {
			t.Errorf("member %d reads %q after a restart", i, got)
		}
	}
	c.newcomer(0, "m3", "127.0.0.1:0", true) // no list keeps it out
}

// emptySnapshot is a snapshot of an empty store.
func emptySnapshot(t *testing.T, index, term uint64, n *Node) []byte {
	t.Helper()
	log, err := wal.Create(t.TempDir(), nil, wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	conf := n.applied().roster.ConfState()
	meta, err := json.Marshal(snapshotMeta{Voters: conf.GetVoters(), Learners: conf.GetLearners()})
	if err != nil {
		t.Fatal(err)
	}
	state := replica.NewApplier(machine.NodeID(n.ID()), 1).Snapshot()
	defer state.Release()
	err = log.Snapshots().Save(wal.SnapshotInfo{Index: index, Term: term, Meta: meta}, func(w io.Writer) error { _, err := state.WriteTo(w); return err })
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := log.Snapshots().Export(index)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A member does not count as removed because a single member says so: another process may have that
// member's address by now. The word of learners does not count. Most of the other voters have to say
// so.
func TestRemovedByMostOnly(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.put(0, "k", "v")
	n := c.nodes[0]
	ended := make(chan error, 1)
	n.cfg.Fail = func(err error) { ended <- err }
	liar := func(addr string) string {
		ln := listenAgain(t, addr)
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					io.ReadFull(conn, make([]byte, 64))
					conn.Write(answerOf(9, "removed"))
					io.Copy(io.Discard, conn)
				}()
			}
		}()
		t.Cleanup(func() { ln.Close() })
		return "http://" + ln.Addr().String()
	}
	falls := func(i int) {
		addr := c.cfgs[i].Peers[c.cfgs[i].Name][len("http://"):]
		c.kill(i)
		liar(addr)
	}
	says := func(id machine.NodeID) {
		c.eventually("a member says that it was removed", func() bool {
			return errors.Is(n.peers.Stats(id).LastError, peer.ErrRemoved)
		})
	}
	learner, _, err := n.AddMember(c.ctx(), []string{liar("127.0.0.1:0")}, true)
	if err != nil {
		t.Fatal(err)
	}
	says(machine.NodeID(learner.ID))
	note := filepath.Join(c.cfgs[0].DataDir, removedFile)
	falls(1)
	says(c.nodeID(1))
	select {
	case err := <-ended:
		t.Errorf("it ended on the word of one of two voters, and a learner: %v", err)
	case <-time.After(5 * n.cfg.ElectionTimeout):
	}
	if _, err := os.Stat(note); err == nil {
		t.Error("it has noted that it was removed, on the word of one of two")
	}
	falls(2)
	select {
	case err := <-ended:
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("all others say that it was removed, and it goes on")
	}
}

func (c *cluster) nodeID(i int) machine.NodeID {
	return memberID(c.cfgs[i].Peers[c.cfgs[i].Name], c.cfgs[i].ClusterToken, "")
}

// An answer from an address of the log counts only for members that the log does not know, and is
// bounded.
func TestHearsayIsBoundedAndBesideTheLog(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.leader()
	n := c.nodes[0]
	one := c.nodes[1].ID()
	list := []founder{{ID: one, URL: "http://10.9.9.9:1"}, {ID: n.ID(), URL: "http://10.9.9.9:1"}, {ID: 0, URL: "http://10.9.9.9:1"}}
	for id := range uint64(1000) {
		list = append(list, founder{ID: 1<<40 + id, URL: fmt.Sprintf("http://10.9.%d.%d:1", id/250, id%250)})
	}
	for at := 0; at < len(list); at += heardMax {
		n.meet(list[at:min(len(list), at+heardMax)])
	}
	n.contacts.mu.Lock()
	heard := len(n.contacts.heard)
	_, moved := n.contacts.heard[machine.NodeID(one)]
	_, self := n.contacts.heard[n.id]
	n.contacts.mu.Unlock()
	if heard > heardMax {
		t.Errorf("%d members are known by hearsay, %d are the limit", heard, heardMax)
	}
	if moved || self {
		t.Error("hearsay moves a member that the log knows")
	}
	if got := len(n.reachable(list, 0)); got > heardMax {
		t.Errorf("an answer names %d members, %d are the limit", got, heardMax)
	}
	c.put(0, "k", "v")
}

// The leader joined while a member was away. The member asks the members that it knows where the
// others are, for it ignores members that it does not know.
func TestALeaderThatJoinedMeanwhile(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.leader()
	c.put(2, "k", "before")
	c.kill(2)
	// As a learner first: of four voters two were not heard of, and such a change is refused.
	i, m := c.newcomer(0, "m3", "127.0.0.1:0", true)
	c.eventually("its vote", func() bool {
		_, err := c.nodes[0].PromoteMember(c.ctx(), m.ID)
		return err == nil || errors.Is(err, rpctypes.ErrGRPCMemberNotLearner)
	})
	c.eventually("the one that joined leads", func() bool {
		lead := c.leader()
		if lead != i { // to it, for the others may go on handing over to each other
			c.nodes[lead].driver.Step(replica.HandOver{To: machine.NodeID(c.nodes[i].ID())})
		}
		return lead == i
	})
	c.put(i, "k", "after")
	c.start(2)
	if got := c.get(2, "k"); got != "after" {
		t.Errorf("it reads %q", got)
	}
	c.eventually("the log takes the place of hearsay", func() bool {
		n := c.nodes[2]
		n.contacts.mu.Lock()
		defer n.contacts.mu.Unlock()
		return len(n.contacts.heard) == 0
	})
}

// A snapshot is not kept if raft refuses it, if its file differs from its message, or if this member
// is not among its members.
func TestSnapshotsThatRaftRefuses(t *testing.T) {
	c := newCluster(t, 3, nimble)
	for range 20 {
		c.put(0, "k", "v")
	}
	lead := c.leader()
	n, from := c.nodes[(lead+1)%3], machine.NodeID(c.nodes[lead].ID())
	_, term, _ := n.Leader()
	files := func() []string {
		list, err := filepath.Glob(filepath.Join(n.cfg.DataDir, "snap", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	send := func(index, said, snapTerm uint64, conf *raftpb.ConfState) error {
		msg := &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(uint64(from)), To: new(n.ID()), Term: new(term), Snapshot: &raftpb.Snapshot{
			Metadata: &raftpb.SnapshotMetadata{Index: &said, Term: &snapTerm, ConfState: conf}}}
		header, err := replica.EncodeBody(msg)
		if err != nil {
			t.Fatal(err)
		}
		return n.receive(from, header, bytes.NewReader(emptySnapshot(t, index, term, n)))
	}
	conf := n.applied().roster.ConfState()
	if err := send(2, 2, term, conf); err != nil { // it has that long since
		t.Errorf("a snapshot that is not needed: %v", err)
	}
	for name, try := range map[string]func() error{
		"another term than its message":     func() error { return send(1<<50, 1<<50, term-1, conf) },
		"other members than its message":    func() error { return send(1<<50, 1<<50, term, &raftpb.ConfState{Voters: []uint64{n.ID()}}) },
		"another index than its message":    func() error { return send(1<<50, 1<<49, term, conf) },
		"members of which this one is none": func() error { return send(1<<50, 1<<50, term, &raftpb.ConfState{Voters: []uint64{uint64(from)}}) },
	} {
		if err := try(); err == nil {
			t.Errorf("a snapshot of %s is taken", name)
		}
	}
	if left := files(); len(left) > 0 {
		t.Errorf("what raft has refused is kept: %v", left)
	}
	c.put(0, "k", "after")
}

// Members accept no URL that others could not dial, wherever it comes from.
func TestMemberURLs(t *testing.T) {
	c := newCluster(t, 1, nimble)
	c.put(0, "k", "v")
	for _, url := range []string{
		"", "nowhere", "127.0.0.1:2380", "http://127.0.0.1", "http://127.0.0.1:", "http://127.0.0.1:0", "http://127.0.0.1:65536", "http://127.0.0.1:x",
		"http://:2380", "http://127.0.0.1:2380/", "http://127.0.0.1:2380/path", "http://127.0.0.1:2380?a=b", "http://127.0.0.1:2380#a", "http://u:p@127.0.0.1:2380",
		"https://127.0.0.1:2380", "ftp://127.0.0.1:2380", "unix://127.0.0.1:2380", "http://0.0.0.0:2380", "http://[::]:2380",
	} {
		if _, _, err := c.nodes[0].AddMember(c.ctx(), []string{url}, true); !errors.Is(err, rpctypes.ErrGRPCMemberBadURLs) {
			t.Errorf("a member is added at %q: %v", url, err)
		}
		if _, err := c.nodes[0].UpdateMember(c.ctx(), c.nodes[0].ID(), []string{url}); !errors.Is(err, rpctypes.ErrGRPCMemberBadURLs) {
			t.Errorf("a member is moved to %q: %v", url, err)
		}
	}
	for _, urls := range [][]string{nil, {"http://127.0.0.1:1", "http://127.0.0.1:2"}} {
		if _, _, err := c.nodes[0].AddMember(c.ctx(), urls, true); !errors.Is(err, rpctypes.ErrGRPCMemberBadURLs) {
			t.Errorf("a member is added at %q: %v", urls, err)
		}
	}
}

// Members start even if the log has a URL that cannot be dialed. An earlier version accepted such
// URLs.
func TestAMemberThatIsNowhereHoldsNobodyUp(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.leader()
	id := c.nodes[2].ID()
	c.kill(2)
	if err := patiently(leaderless, func(ctx context.Context) error {
		_, err := c.nodes[0].reshape(ctx, replica.UpdateMember(id, []string{"http://127.0.0.1"}))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		c.kill(i)
		c.start(i)
	}
	c.put(0, "k", "v")
	at := c.cfgs[2].Peers["m2"]
	c.move(0, id, at)
	c.start(2)
	if got := c.get(2, "k"); got != "v" {
		t.Errorf("it reads %q once it is somewhere again", got)
	}
}

// Flags describe the first start. Later, founders start with a longer list, and at the URLs to which
// `member update` has moved them.
func TestFoundersWhoseFlagsHaveChanged(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.put(0, "k", "v")
	c.leader()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	moved := "http://" + l.Addr().String()
	c.move(0, c.nodes[2].ID(), moved)
	for i := range c.nodes {
		c.kill(i)
	}
	for i := range c.cfgs {
		c.cfgs[i].Peers = map[string]string{"m0": c.cfgs[i].Peers["m0"], "m1": c.cfgs[i].Peers["m1"], "m2": moved, "m3": "http://127.0.0.1:1"}
	}
	c.cfgs[2].PeerListener = l
	for i := range c.nodes {
		c.start(i)
	}
	for i := range c.nodes {
		c.put(i, "k", fmt.Sprint(i))
	}
	c.cfgs[2].PeerListener = nil
	for i := range c.nodes {
		if got := c.get(i, "k"); got != "2" {
			t.Errorf("member %d reads %q", i, got)
		}
	}
}

// A member was away while another moved, and the only one that could tell it is down. Its flags have
// the other's new URL, and the two are a majority.
func TestFlagsFindWhoMovedMeanwhile(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.put(0, "k", "v")
	for i := range c.nodes { // each knows the names of the others
		c.get(i, "k")
	}
	c.kill(2)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := "http://" + l.Addr().String()
	c.move(0, c.nodes[1].ID(), to)
	c.kill(1)
	c.cfgs[1].Peers, c.cfgs[1].PeerListener = maps.Clone(c.cfgs[1].Peers), l
	c.cfgs[1].Peers["m1"] = to
	c.start(1)
	c.put(1, "k", "w")
	c.kill(0)
	c.cfgs[2].Peers, c.cfgs[2].Existing = maps.Clone(c.cfgs[1].Peers), true
	c.start(2)
	if got := c.get(2, "k"); got != "w" {
		t.Errorf("it reads %q", got)
	}
}

// A member that is added after others have moved finds them at their new URLs, although it is given
// the URLs of the first day. Without them it has no majority to confirm it.
func TestANewcomerFindsWhoHasMoved(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.put(0, "k", "v")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	from, to := c.cfgs[1].Peers["m1"], "http://"+l.Addr().String()
	c.move(0, c.nodes[1].ID(), to)
	c.kill(1)
	c.cfgs[1].Peers, c.cfgs[1].PeerListener = maps.Clone(c.cfgs[1].Peers), l
	c.cfgs[1].Peers["m1"] = to
	c.start(1)
	c.get(1, "k")
	c.cfgs[1].Peers["m1"] = from // as the flags of the newcomer have it
	gone := c.nodes[2].ID()
	c.kill(2)
	c.remove(0, gone)
	i, _ := c.newcomer(0, "m3", "127.0.0.1:0", false)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.nodes[i].Ready(ctx); err != nil {
		t.Fatalf("the newcomer does not meet the member that has moved: %v", err)
	}
	if got := c.get(i, "k"); got != "v" {
		t.Errorf("the newcomer reads %q", got)
	}
}

// After all members have moved, one after another, they start with flags that have none of the first
// URLs, although no snapshot has the moves yet.
func TestAllHaveMoved(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.put(0, "k", "v")
	c.leader()
	flags := map[string]string{}
	var listeners []net.Listener
	for i, n := range c.nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		flags[c.cfgs[i].Name] = "http://" + l.Addr().String()
		c.move(i, n.ID(), flags[c.cfgs[i].Name])
		c.kill(i)
		c.cfgs[i].Peers, c.cfgs[i].PeerListener = maps.Clone(c.cfgs[i].Peers), l
		c.cfgs[i].Peers[c.cfgs[i].Name] = flags[c.cfgs[i].Name]
		c.start(i)
		c.put(i, "k", fmt.Sprint(i))
	}
	for i := range c.nodes {
		c.kill(i)
	}
	for i := range c.cfgs {
		l, err := net.Listen("tcp", listeners[i].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.cfgs[i].Peers, c.cfgs[i].PeerListener = flags, l
		c.start(i)
	}
	for i := range c.nodes {
		if got := c.get(i, "k"); got != "2" {
			t.Errorf("member %d reads %q", i, got)
		}
	}
}

// Flags of another member or of another cluster are an error.
func TestDirectoryOfAnother(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.leader()
	c.kill(1)
	for name, tt := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"another member": {func(cfg *Config) { cfg.Name = "m2" }, "belongs to member"},
		"another cluster": {func(cfg *Config) {
			cfg.Peers = map[string]string{"m1": "http://127.0.0.1:1", "m9": "http://127.0.0.1:2"}
		}, "belongs to cluster"},
	} {
		cfg := c.cfgs[1]
		tt.change(&cfg)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg.PeerListener = l
		n, err := Start(cfg)
		if err == nil {
			n.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("flags of %s: %v, want that the directory %s", name, err, tt.want)
		}
	}
	c.start(1)
}

// Nobody can dial 0.0.0.0.
func TestFoundersAtNoAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"http://0.0.0.0:2380", "http://127.0.0.1"} {
		n, err := Start(Config{
			Name: "a", DataDir: t.TempDir(), PeerListener: l, Logger: slog.New(slog.DiscardHandler),
			Peers: map[string]string{"a": own, "b": "http://127.0.0.1:1"},
		})
		if err == nil {
			n.Stop()
			t.Errorf("it has started at %s", own)
		} else if !strings.Contains(err.Error(), own) {
			t.Errorf("at %s: %v", own, err)
		}
	}
}
