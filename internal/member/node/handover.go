package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
)

// HandOver passes leadership on, if this member has it, and waits until another
// leads. It returns early when the context ends.
func (n *Node) HandOver(ctx context.Context) error {
	for len(n.voters()) > 1 && n.leadership.Load().leader == n.id {
		n.driver.Step(replica.HandOver{})
		if err := n.await(ctx, "hand leadership over"); err != nil {
			return err
		}
	}
	return nil
}

// MoveLeader passes leadership to one member, and waits until that leads. It fails with
// etcd's ErrGRPCNotLeader if this member does not lead, or if another member than the
// requested one comes to lead meanwhile. It fails with ErrGRPCBadLeaderTransferee if the
// requested member does not vote. Writes wait meanwhile; the caller's context bounds that.
func (n *Node) MoveLeader(ctx context.Context, to uint64) error {
	if n.leadership.Load().leader != n.id {
		return rpctypes.ErrGRPCNotLeader
	}
	if !slices.Contains(n.voters(), to) {
		return rpctypes.ErrGRPCBadLeaderTransferee
	}
	for {
		switch leader := n.leadership.Load().leader; leader {
		case machine.NodeID(to):
			return nil
		case n.id: // raft gives an attempt up after an election timeout
			n.driver.Step(replica.HandOver{To: machine.NodeID(to)})
		case 0:
		default:
			return rpctypes.ErrGRPCNotLeader
		}
		if err := n.await(ctx, fmt.Sprintf("move leadership to %x", to)); err != nil {
			return err
		}
	}
}

func (p *published) voters() []uint64 { return p.applied().roster.ConfState().GetVoters() }

// await waits for half a heartbeat.
func (n *Node) await(ctx context.Context, doing string) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("node: %s: %w", doing, context.Cause(ctx))
	case <-n.stop:
		return errStopped
	case <-time.After(n.cfg.HeartbeatInterval / 2):
		return nil
	}
}
