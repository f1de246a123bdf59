// Package rival is what package broadcast is measured against: proposals through
// go.etcd.io/raft/v3, over the same log and the same sockets, with as large batches and
// each acknowledged when it is durable at a majority. It is a yardstick and no product:
// it keeps all in memory, trims nothing and cannot be restarted.
package rival

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Tick is a tenth of the least time in which raft finds that its leader is gone.
const Tick = 20 * time.Millisecond

// As in package broadcast.
const (
	batchBytes = 1 << 20
	batchCount = 1000
)

// errClosed says that the node was closed.
var errClosed = errors.New("rival: the node is closed")

// Node is a member.
type Node struct {
	id      uint64
	raft    *raft.RawNode
	storage *raft.MemoryStorage
	log     *wal.Log
	peers   *peer.Transport

	inbox    chan []*raftpb.Message
	proposed chan proposal
	stop     chan struct{}
	done     sync.WaitGroup

	seq     uint64
	waiting map[uint64]proposal // by seq

	mu     sync.Mutex
	leader uint64
}

type proposal struct {
	payload []byte
	done    chan error
}

// Start makes a member of peer's configuration (Self, ClusterID, Listener, Peers),
// with its log in dir.
func Start(cfg peer.Config, members []machine.NodeID, dir string) (*Node, error) {
	raft.SetLogger(&raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)})
	n := &Node{
		id: uint64(cfg.Self), storage: raft.NewMemoryStorage(), inbox: make(chan []*raftpb.Message, 1024), proposed: make(chan proposal, 1<<16),
		stop: make(chan struct{}), waiting: map[uint64]proposal{},
	}
	var err error
	if n.log, err = wal.Create(dir, nil, wal.Options{}); err != nil {
		return nil, err
	}
	n.raft, err = raft.NewRawNode(&raft.Config{
		ID: n.id, ElectionTick: 10, HeartbeatTick: 1, Storage: n.storage, MaxSizePerMsg: batchBytes, MaxInflightMsgs: 256, PreVote: true, CheckQuorum: true,
	})
	if err != nil {
		return nil, errors.Join(err, n.log.Close())
	}
	var peers []raft.Peer
	for _, id := range members {
		peers = append(peers, raft.Peer{ID: uint64(id)})
	}
	if err := n.raft.Bootstrap(peers); err != nil {
		return nil, errors.Join(err, n.log.Close())
	}
	cfg.Deliver = n.deliver
	if n.peers, err = peer.New(cfg); err != nil {
		return nil, errors.Join(err, n.log.Close())
	}
	n.done.Go(func() {
		if err := n.run(); err != nil {
			panic(fmt.Sprintf("rival: %v", err)) // a measurement without its disk is none
		}
	})
	return n, nil
}

func (n *Node) deliver(_ machine.NodeID, msgs [][]byte) {
	batch := make([]*raftpb.Message, 0, len(msgs))
	for _, b := range msgs {
		m := new(raftpb.Message)
		if proto.Unmarshal(b, m) == nil {
			batch = append(batch, m)
		}
	}
	select {
	case n.inbox <- batch:
	case <-n.stop:
	}
}

// Broadcast has a payload committed, and returns when it is applied here.
func (n *Node) Broadcast(ctx context.Context, payload []byte) error {
	p := proposal{payload, make(chan error, 1)}
	select {
	case n.proposed <- p:
	case <-n.stop:
		return errClosed
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stop:
		return errClosed
	}
}

// Leader is the member that leads, or 0.
func (n *Node) Leader() machine.NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return machine.NodeID(n.leader)
}

// Close ends the node.
func (n *Node) Close() error {
	close(n.stop)
	err := n.peers.Close()
	n.done.Wait()
	return errors.Join(err, n.log.Close())
}

func (n *Node) run() error {
	ticks := time.NewTicker(Tick)
	defer ticks.Stop()
	ticked := 0
	for {
		select {
		case <-n.stop:
			return nil
		case <-ticks.C:
			n.raft.Tick()
			if ticked++; ticked%50 == 0 {
				n.again()
			}
		case batch := <-n.inbox:
			for more := true; more; {
				for _, m := range batch {
					_ = n.raft.Step(m) // raft returns an error for an input that it refuses
				}
				select {
				case batch = <-n.inbox:
				default:
					more = false
				}
			}
		case p := <-n.proposed:
			n.propose(p)
		}
		for n.raft.HasReady() {
			if err := n.ready(); err != nil {
				return err
			}
		}
	}
}

// propose puts all that waits into one entry.
func (n *Node) propose(p proposal) {
	if n.raft.BasicStatus().Lead == 0 {
		n.seq++
		n.waiting[n.seq] = p // until again
		return
	}
	data := binary.AppendUvarint(nil, n.id)
	for count := 0; ; {
		n.seq++
		n.waiting[n.seq] = p
		data = appendProposal(data, n.seq, p)
		if count++; count == batchCount || len(data) >= batchBytes {
			break
		}
		select {
		case p = <-n.proposed:
			continue
		default:
		}
		break
	}
	_ = n.raft.Propose(data) // dropped ones are proposed again
}

func appendProposal(data []byte, seq uint64, p proposal) []byte {
	data = binary.AppendUvarint(data, seq)
	data = binary.AppendUvarint(data, uint64(len(p.payload)))
	return append(data, p.payload...)
}

// again proposes entries that were not committed for long, or were proposed under an earlier
// leader: they may have died with it.
func (n *Node) again() {
	if len(n.waiting) == 0 || n.raft.BasicStatus().Lead == 0 {
		return
	}
	data := binary.AppendUvarint(nil, n.id)
	for seq, p := range n.waiting {
		data = appendProposal(data, seq, p)
	}
	_ = n.raft.Propose(data)
}

// ready does what raft asks for. A leader sends while it writes, as etcd does.
func (n *Node) ready() error {
	rd := n.raft.Ready()
	leads := n.raft.BasicStatus().RaftState == raft.StateLeader
	if leads {
		n.send(rd.Messages)
	}
	var records []wal.Record
	if !raft.IsEmptyHardState(rd.HardState) {
		b, err := proto.Marshal(rd.HardState)
		if err != nil {
			return err
		}
		records = append(records, wal.Record{Kind: 1, Payload: b})
		if err := n.storage.SetHardState(rd.HardState); err != nil {
			return err
		}
	}
	for _, e := range rd.Entries {
		b, err := proto.Marshal(e)
		if err != nil {
			return err
		}
		records = append(records, wal.Record{Kind: 2, Payload: b})
	}
	if _, err := n.log.Append(records...); err != nil {
		return err
	}
	if rd.MustSync {
		if err := n.log.Sync(); err != nil {
			return err
		}
	}
	if err := n.storage.Append(rd.Entries); err != nil {
		return err
	}
	if !leads {
		n.send(rd.Messages)
	}
	for _, e := range rd.CommittedEntries {
		n.apply(e)
	}
	n.raft.Advance(rd)
	lead := n.raft.BasicStatus().Lead
	n.mu.Lock()
	changed := lead != n.leader
	n.leader = lead
	n.mu.Unlock()
	if changed {
		n.again()
	}
	return nil
}

func (n *Node) apply(e *raftpb.Entry) {
	if e.GetType() == raftpb.EntryConfChange {
		cc := new(raftpb.ConfChange)
		if proto.Unmarshal(e.GetData(), cc) == nil {
			n.raft.ApplyConfChange(cc)
		}
		return
	}
	b := e.GetData()
	from, k := binary.Uvarint(b)
	if k <= 0 || from != n.id {
		return
	}
	for b = b[k:]; len(b) > 0; {
		seq, k := binary.Uvarint(b)
		size, l := binary.Uvarint(b[k:])
		b = b[k+l+int(size):]
		if p, ok := n.waiting[seq]; ok {
			p.done <- nil
			delete(n.waiting, seq)
		}
	}
}

func (n *Node) send(msgs []*raftpb.Message) {
	for _, m := range msgs {
		if b, err := proto.Marshal(m); err == nil {
			n.peers.Send(machine.NodeID(m.GetTo()), b)
		}
	}
}
