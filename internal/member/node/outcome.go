package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3/raftpb"
)

// handle takes what the replica reports, on the stepping goroutine.
func (n *Node) handle(list []replica.Outcome) {
	for _, out := range list {
		switch out := out.(type) {
		case replica.Restore:
			n.storage.arrivals.take(out.Index, out.Term)
			n.applier.put(out)
		case replica.Committed, replica.Released, replica.WantSnapshot:
			n.applier.put(out)
		case replica.ReadLease:
			n.reads.lease.Store(&readLease{out, n.clocks.turn})
		case *replica.KeyLease:
			n.reads.keys.Store(&keyLease{out, n.clocks.turn})
		case replica.ReadReady:
			n.barriers.confirmed(n, out)
		case replica.KeysReady:
			n.keyReads.answer(out.ID, keysResult{ready: out})
		case *replica.Plan:
			// Not here: heartbeats would wait for it.
			n.done.Go(func() { n.driver.Step(out.Make()) })
		case replica.AnswerLease:
			n.asks.answer(out.ID, askResult{answer: out})
		case replica.Dropped:
			err := rpctypes.ErrGRPCNoLeader
			switch {
			case out.Ambiguous:
				err = rpctypes.ErrGRPCTimeoutDueToLeaderFail
			case n.leadership.Load().leader != 0: // it had no room for them
				err = rpctypes.ErrGRPCRequestTooManyRequests
			}
			for _, id := range out.IDs {
				n.results.answer(id, result{err: err})
			}
		case replica.LeaderChanged:
			n.leaderChanged(out)
		case replica.Rejected:
			n.results.answer(out.ID, result{err: out.Err})
		case replica.Removed:
			n.removed()
		case replica.SendSnapshot:
			n.snapshots.send(n, out)
		default:
			panic(fmt.Sprintf("node: unknown outcome %T", out))
		}
	}
}

func (n *Node) leaderChanged(out replica.LeaderChanged) {
	l := &leadership{leader: out.Leader, term: out.Term, at: time.Now()}
	if old := n.leadership.Load(); out.Leader == 0 && old.leader == 0 {
		l.at = old.at
	}
	if out.Leader != 0 && out.Leader != n.leadership.Load().leader {
		n.leaderChanges.Add(1)
	}
	n.leadership.Store(l)
	n.logger.Info("leader", "is", fmt.Sprintf("%x", uint64(out.Leader)), "term", out.Term, "me", out.Leader == n.id)
}

// connect joins the other members.
func (n *Node) connect() error {
	addrs := n.addresses(n.applied().roster)
	first := maps.Clone(n.contacts.heard) // by the one that it asked
	if first == nil {
		first = map[machine.NodeID]string{}
	}
	maps.Copy(first, addrs)
	n.contacts.members = addrs
	tr, err := peer.New(n.transport(first))
	if err != nil {
		return err
	}
	n.peers = tr
	return nil
}

// links are the connections to the others: a peer.Transport.
type links interface {
	Send(to machine.NodeID, message []byte) bool
	SendStream(ctx context.Context, to machine.NodeID, header []byte, from io.Reader) error
	SetPeers(addrs map[machine.NodeID]string, removed []machine.NodeID) error
	Stats(of machine.NodeID) peer.Stats
	Close() error
}

// transport is how this member is connected to others, which are at these addresses at first.
func (n *Node) transport(first map[machine.NodeID]string) peer.Config {
	return peer.Config{
		Self: n.id, ClusterID: n.cluster, Listener: n.cfg.PeerListener, Peers: first, TLS: n.cfg.PeerTLS, Dial: n.cfg.Dial,
		Logger: n.logger, Answer: n.answerIntroduction,
		Deliver:  n.deliver,
		Stream:   n.receive,
		Greeting: func(id machine.NodeID) []byte { return n.greeting(id, greeting{Ask: true}) },
		Down: func(id machine.NodeID, _ error) {
			<-n.running
			n.driver.Step(replica.Down{Node: id})
		},
		Unreachable: func(id machine.NodeID) {
			<-n.running
			n.driver.Step(replica.Unreachable{Node: id})
		},
		Refused: n.refused,
	}
}

// deliver steps another member's messages, and waits while there are too many.
func (n *Node) deliver(from machine.NodeID, msgs [][]byte) {
	<-n.running
	envelopes := make([]machine.Envelope, 0, len(msgs))
	for _, p := range msgs {
		if len(p) > 0 && p[0] == wireGreeting {
			n.greeted(from, p[1:])
			continue
		}
		if !n.listensTo(from) {
			continue
		}
		if n.hashMessage(from, p) {
			continue
		}
		body, err := replica.DecodeBody(p)
		if err != nil {
			n.logger.Warn("a message that makes no sense", "from", fmt.Sprintf("%x", uint64(from)), "err", err)
			continue
		}
		if m, ok := body.(*raftpb.Message); ok && m.GetType() == raftpb.MsgSnap {
			continue // without the snapshot itself; see receive
		}
		envelopes = append(envelopes, machine.Envelope{From: from, To: n.id, Body: body})
	}
	n.driver.Offer(envelopes...)
}

// send hands envelopes to the transport.
func (n *Node) send(envs []machine.Envelope) {
	if n.peers == nil || !n.admission.open.Load() {
		return
	}
	for _, env := range envs {
		n.watchHeartbeats(env)
		p, err := replica.EncodeBody(env.Body)
		if err != nil {
			panic(err) // a body of our own making
		}
		n.peers.Send(env.To, p)
	}
}

// raftLogger passes raft's own messages on. The node already logs the events that matter to
// an operator, so raft's information counts as debugging.
type raftLogger struct{ l *slog.Logger }

func (r raftLogger) Debug(v ...any)              {}
func (r raftLogger) Debugf(f string, v ...any)   {}
func (r raftLogger) Info(v ...any)               { r.l.Debug(fmt.Sprint(v...)) }
func (r raftLogger) Infof(f string, v ...any)    { r.l.Debug(fmt.Sprintf(f, v...)) }
func (r raftLogger) Warning(v ...any)            { r.l.Debug(fmt.Sprint(v...)) }
func (r raftLogger) Warningf(f string, v ...any) { r.l.Debug(fmt.Sprintf(f, v...)) }
func (r raftLogger) Error(v ...any)              { r.l.Error(fmt.Sprint(v...)) }
func (r raftLogger) Errorf(f string, v ...any)   { r.l.Error(fmt.Sprintf(f, v...)) }
func (r raftLogger) Fatal(v ...any)              { panic(fmt.Sprint(v...)) }
func (r raftLogger) Fatalf(f string, v ...any)   { panic(fmt.Sprintf(f, v...)) }
func (r raftLogger) Panic(v ...any)              { panic(fmt.Sprint(v...)) }
func (r raftLogger) Panicf(f string, v ...any)   { panic(fmt.Sprintf(f, v...)) }
