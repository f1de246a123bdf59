package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Config is what a Replica is made from.
type Config struct {
	ID machine.NodeID
	// Boot differs each time a member starts. It tells this boot's requests
	// from those of an earlier one that are still on their way.
	Boot uint64

	// Tick is the heartbeat interval. Everything that counts in ticks follows
	// from it. etcd calls it --heartbeat-interval.
	Tick time.Duration
	// ElectionTicks without a heartbeat make a follower campaign; it waits up
	// to twice as long, at random.
	ElectionTicks int

	// Log is the state found on disk at the start.
	Log Log
	// Restored is the Applier's state: the snapshot's.
	Restored Restored

	// MaxEntryBytes bounds a batch of more than one request. Default 1 MiB.
	MaxEntryBytes int
	// MaxTailBytes bounds the entries in memory since the last snapshot: a
	// snapshot is wanted at half of it, and proposals are dropped beyond it. A follower
	// takes a quarter more, and one message. Default 128 MiB.
	MaxTailBytes int

	// MaxLearners bounds the learners that a change may make. Default 1.
	MaxLearners int
	// LooseReconfig has this leader permit changes that leave no majority of voters that were heard of
	// just now, as etcd does with --strict-reconfig-check=false.
	LooseReconfig bool

	// ReadLeases are the settings of read leases.
	ReadLeases ReadLeases
	// Promises, if set, takes the place of the promises that holders ask for. Nothing that
	// serves sets it: package pushlease has the paper's, to compare with.
	Promises func(quorumlease.Config, machine.Mono) Promises
	// Older makes this member one of a version from before levels (level.go), to test a cluster
	// that is being upgraded: it tells of none, keeps nothing, and ends at an entry that is
	// kept. Its Applier has to be told, too: [Applier.Older].
	Older bool

	// Logger receives raft's own messages; nil discards them.
	Logger raft.Logger
}

// Log is a log as it was found on disk. Snapshot holds the index, term and
// members from which Entries go on; a fresh cluster starts from [Genesis].
type Log struct {
	HardState *raftpb.HardState
	Snapshot  *raftpb.SnapshotMetadata
	Entries   []*raftpb.Entry
	Released  uint64 // as the last Record had it
}

// Genesis is the log that every member of a fresh cluster starts from.
func Genesis(voters []machine.NodeID) Log {
	conf := &raftpb.ConfState{}
	for _, v := range voters {
		conf.Voters = append(conf.Voters, uint64(v))
	}
	one := uint64(1)
	return Log{
		HardState: &raftpb.HardState{Term: &one, Commit: &one},
		Snapshot:  &raftpb.SnapshotMetadata{Index: &one, Term: &one, ConfState: conf},
	}
}

func (c *Config) validate() error {
	switch {
	case c.ID == 0:
		return errors.New("replica: ID is zero")
	case c.Tick <= 0:
		return fmt.Errorf("replica: Tick %v is not positive", c.Tick)
	case c.ElectionTicks < 3:
		return fmt.Errorf("replica: ElectionTicks %d is less than 3: one lost heartbeat would start an election", c.ElectionTicks)
	case c.Log.Snapshot.GetIndex() == 0:
		return errors.New("replica: Log has no snapshot to start from; use Genesis for a fresh cluster")
	case c.Restored.Index < c.Log.Snapshot.GetIndex():
		return fmt.Errorf("replica: applied index %d is before the snapshot at %d", c.Restored.Index, c.Log.Snapshot.GetIndex())
	}
	if c.MaxEntryBytes == 0 {
		c.MaxEntryBytes = 1 << 20
	}
	if c.MaxTailBytes == 0 {
		c.MaxTailBytes = 128 << 20
	}
	if c.MaxLearners == 0 {
		c.MaxLearners = 1
	}
	if len(c.Restored.Roster.Memberships) == 0 { // a fresh cluster whose members have no URLs
		conf := c.Log.Snapshot.GetConfState()
		c.Restored.Roster.Memberships = quorumlease.Memberships{{
			Index: c.Log.Snapshot.GetIndex(), Voters: nodeIDs(conf.GetVoters()), Learners: nodeIDs(conf.GetLearners()),
		}}
	}
	c.Log = settledChanges(c.Log)
	c.ReadLeases.setDefaults()
	if _, err := quorumlease.ParsePolicy(string(c.ReadLeases.Policy)); err != nil && c.ReadLeases.Policy != "" {
		return err
	}
	if c.ReadLeases.PlanEvery < 0 {
		return fmt.Errorf("replica: PlanEvery %v is negative", c.ReadLeases.PlanEvery)
	}
	if _, err := placement.NewPlanner(c.planner(quorumlease.Cost, []machine.NodeID{c.ID}, nil), nil); err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	if err := (quorumlease.Config{Self: c.ID, Boot: c.Boot, TTL: c.ReadLeases.TTL}).Check(); err != nil {
		return err
	}
	return nil
}

// patience returns how long a request without an answer is kept: longer than any
// client waits.
func (c *Config) patience() time.Duration { return 8 * c.electionTimeout() }

func (c *Config) electionTimeout() time.Duration { return time.Duration(c.ElectionTicks) * c.Tick }
