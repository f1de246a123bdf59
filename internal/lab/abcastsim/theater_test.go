package abcastsim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	. "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// theater is a stage of three members that the judges watch.
type theater struct {
	*Stage[abcast.Input, abcast.Outcome]
	t         *testing.T
	judge     *judge
	epochs    *epochs
	cfg       abcast.Config
	addresses addresses
	members   map[machine.NodeID]*abcast.Machine
	replicas  map[machine.NodeID]*replica
	lives     map[machine.NodeID]uint64
	owners    map[machine.NodeID]*owner
	slow      bool                      // owners have what their members lack when restore is called, and not at once
	lacks     map[machine.NodeID]uint64 // position that a slow owner has to get to
	gone      map[machine.NodeID]bool
	refused   map[machine.NodeID]error // the last
	repeated  map[machine.NodeID]uint64
	// established is the last epoch that a member calls that.
	established  map[machine.NodeID]uint64
	lastChange   abcast.Change // that was broadcast
	clients      map[byte]machine.ID
	forgotten    map[machine.NodeID]uint64 // the number of which that was said last
	impossible   map[machine.NodeID]error  // the last word about a message
	contradicted map[machine.NodeID][]abcast.Contradicted
	rewrites     func() bool // whether a log is rewritten now; nil: never
}

func config() abcast.Config {
	return abcast.Config{
		Consensus:  fastct.Config{Members: []machine.NodeID{1, 2, 3}, Retry: retry, Lambda: 10},
		BatchCount: 10, BatchBytes: 1000, PendingCount: 10, PendingBytes: 10_000, Pipeline: 1, Relay: 4 * retry, Clients: 100,
	}
}

// addresses are those of founders, by the member that has them in its configuration.
type addresses map[machine.NodeID]map[machine.NodeID]string

func newTheater(t *testing.T, cfg abcast.Config) *theater { return newTheaterOf(t, cfg, nil) }

func newTheaterOf(t *testing.T, cfg abcast.Config, addresses addresses) *theater {
	th := &theater{
		Stage: New[abcast.Input, abcast.Outcome](t), t: t, judge: newJudge(), addresses: addresses, epochs: newEpochs(cfg.Consensus.Members), cfg: cfg, members: map[machine.NodeID]*abcast.Machine{},
		replicas: map[machine.NodeID]*replica{}, lives: map[machine.NodeID]uint64{}, refused: map[machine.NodeID]error{}, repeated: map[machine.NodeID]uint64{},
		established: map[machine.NodeID]uint64{}, owners: map[machine.NodeID]*owner{}, lacks: map[machine.NodeID]uint64{}, gone: map[machine.NodeID]bool{},
		clients: map[byte]machine.ID{}, forgotten: map[machine.NodeID]uint64{}, impossible: map[machine.NodeID]error{}, contradicted: map[machine.NodeID][]abcast.Contradicted{},
	}
	th.Sent = th.epochs.showJudge
	th.Outcome = func(id machine.NodeID, out abcast.Outcome) {
		switch o := out.(type) {
		case abcast.Delivered:
			th.judge.onDelivery(th.replicas[id], o)
		case abcast.Lacks:
			th.lacks[id] = o.Position
		case abcast.Installed:
			th.judge.onInstall(th.replicas[id], o)
		case abcast.Refused:
			th.refused[id] = o.Err
		case abcast.Contradicted:
			th.contradicted[id] = append(th.contradicted[id], o)
		case abcast.Forgotten:
			th.forgotten[id] = o.Seq
		case abcast.Impossible:
			th.impossible[id] = o.Err
		case abcast.Repeated:
			th.judge.onRepeat(th.replicas[id].name, o)
			th.repeated[id] = o.Seq
		case abcast.Began:
			th.epochs.onEpoch(th.replicas[id].name, o.Group)
		case abcast.Established:
			if o.Group.First > 1 {
				th.established[id] = o.Group.First
			}
		}
	}
	for _, id := range cfg.Consensus.Members {
		th.start(id, nil)
	}
	return th
}

func (th *theater) start(id machine.NodeID, records []any) {
	th.t.Helper()
	th.lives[id]++
	cfg := th.cfg
	cfg.Consensus.ID, cfg.Life, cfg.Join = id, th.lives[id], !slices.Contains(cfg.Consensus.Members, id)
	cfg.Addresses = th.addresses[id]
	m, err := abcast.New(cfg, records)
	if err != nil {
		th.t.Fatal(err)
	}
	if th.owners[id] == nil {
		th.owners[id] = &owner{}
	}
	r := &replica{name: fmt.Sprintf("member %d", id), owner: th.owners[id]}
	th.judge.onBegin(r, m.Base())
	th.members[id], th.replicas[id], th.lacks[id] = m, r, 0
	messages, _ := m.Messages(r.position, 1000)
	for _, d := range messages {
		th.judge.onDelivery(r, d)
	}
	rewriting := sim.Rewriting[abcast.Input, abcast.Outcome]{Records: m.Records, When: func() bool { return th.rewrites != nil && th.rewrites() }}
	rewriting.Receiver = &prompt{Machine: m, gets: func(l abcast.Lacks) abcast.Restored {
		if th.slow {
			return abcast.Restored{}
		}
		return th.restored(id, l.Position)
	}}
	th.Start(id, rewriting)
}

// restored has a member's owner get the state up to a position from another, if one has it.
func (th *theater) restored(id machine.NodeID, position uint64) abcast.Restored {
	for of, r := range th.replicas {
		if has := max(r.position, r.owner.has); of != id && !th.gone[of] && has >= position {
			th.owners[id].has = max(th.owners[id].has, position)
		}
	}
	return abcast.Restored{Position: th.owners[id].has}
}

// restore lets a slow owner get the state that its member lacks.
func (th *theater) restore(id machine.NodeID) {
	if th.lacks[id] > 0 {
		th.Step(id, th.restored(id, th.lacks[id]))
	}
}

func (th *theater) restart(id machine.NodeID) {
	th.t.Helper()
	th.Crash(id)
	th.start(id, th.Durable(id))
}

// client is the ID of a client with a number, made at its first member.
func (th *theater) client(number byte, at machine.NodeID) machine.ID {
	id, ok := th.clients[number]
	if !ok {
		id = abcast.NewClient(th.members[at].Position(), uint64(number))
		th.clients[number] = id
	}
	return id
}

// broadcast lets a numbered client broadcast its message of a number at members.
func (th *theater) broadcast(client byte, seq uint64, at ...machine.NodeID) {
	for _, id := range at {
		m := abcast.Message{Client: th.client(client, id), Seq: seq, Payload: fmt.Appendf(nil, "%d.%d", client, seq)}
		th.judge.onBroadcast(m)
		th.Step(id, abcast.Broadcast{Message: m})
	}
}

// trim lets members' owners have the state up to a position on disk.
func (th *theater) trim(position uint64, ids ...machine.NodeID) {
	for _, id := range ids {
		th.owners[id].has = max(th.owners[id].has, position)
		th.Step(id, abcast.Trim{Position: position})
	}
}

// delivered wants members to have delivered n messages.
func (th *theater) delivered(n uint64, ids ...machine.NodeID) {
	th.t.Helper()
	for _, id := range ids {
		if got := th.replicas[id].position; got != n {
			th.t.Errorf("member %d has delivered %d messages, want %d", id, got, n)
		}
	}
}

// batch is what an instance decides that orders one message of a client.
func (th *theater) batch(client byte, seq uint64, at machine.NodeID) []byte {
	m := abcast.Message{Client: th.client(client, at), Seq: seq, Payload: fmt.Appendf(nil, "%d.%d", client, seq)}
	th.judge.onBroadcast(m)
	b := binary.AppendUvarint(m.Client[:], m.Seq)
	return append(binary.AppendUvarint(b, uint64(2*len(m.Payload))), m.Payload...)
}
