package etcdapi

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/backup"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// A Backend is one member of the cluster that the API serves. All its methods
// are called by many goroutines at a time.
//
// Errors are package kv's and auth's for what the state refuses, those of ctx, or etcd's
// gRPC errors (rpctypes.ErrGRPC…), which go to the client as they are.
type Backend interface {
	// Propose replicates a request (Put, DeleteRange, Txn, Compaction,
	// LeaseGrant, LeaseRevoke, Alarm, or a change of users), and returns its response when View includes
	// it. The caller of ctx (package caller) is judged where it is applied. In key order View may be older, until the next Barrier. It may keep the request's keys and values.
	Propose(ctx context.Context, request proto.Message) (response proto.Message, err error)
	// Barrier returns when View includes every write that was acknowledged,
	// by any member, before the call.
	Barrier(ctx context.Context) error
	// ReadView returns a state from which a *pb.RangeRequest, or a *pb.TxnRequest that
	// only reads, may be answered linearizably.
	ReadView(ctx context.Context, request proto.Message) (kv.View, error)
	// ViewFor returns the published state, if the caller of ctx may have a request answered from
	// it; ReadView judges its caller in the same way.
	ViewFor(ctx context.Context, request proto.Message) (kv.View, error)
	// Users are those of the published state, or of what the member knows while none may be seen.
	// Each call asks for them, so it must be cheap.
	Users() *auth.State
	// View is the published state, the zero View while there is none that may be seen.
	View() kv.View
	// Alarms are those in the published state.
	Alarms() *alarm.State
	// Shown is closed when View is a state for the first time.
	Shown() <-chan struct{}
	// Hold returns the published state, whose history stays until release is called, once. It
	// waits for no other member.
	Hold(ctx context.Context) (s backup.State, release func(), err error)
	// Reclaimed returns when nothing of the history that was compacted before the call takes room.
	Reclaimed(ctx context.Context) error
	// Watches follows the published states.
	Watches() *watch.Hub

	// KeepAlive begins to renew a lease, so that the renewals of one stream can
	// be under way together. To wait, once, returns its time to live in seconds;
	// 0 means that there is no such lease.
	KeepAlive(id int64) (wait func(context.Context) (ttl int64, err error))
	// TimeToLive returns the seconds that a lease has left and those that it was
	// granted for; -1 left means that there is no such lease.
	TimeToLive(ctx context.Context, id int64) (remaining, granted int64, err error)

	// ID is this member's, ClusterID the cluster's.
	ID() uint64
	ClusterID() uint64
	// Leader returns the member that leads as far as is known here, 0 if none,
	// the term, and for how long there has been no leader. Each response asks
	// for it, so it must be cheap.
	Leader() (id, term uint64, lostFor time.Duration)
	// Members lists the members of the cluster.
	Members() []*pb.Member
	// AddMember makes another member, a voter or a learner, and returns it, and all
	// members; the others return those that there are then. They return when the change
	// is in force here.
	AddMember(ctx context.Context, peerURLs []string, learner bool) (m *pb.Member, all []*pb.Member, err error)
	RemoveMember(ctx context.Context, id uint64) ([]*pb.Member, error)
	UpdateMember(ctx context.Context, id uint64, peerURLs []string) ([]*pb.Member, error)
	PromoteMember(ctx context.Context, id uint64) ([]*pb.Member, error)
	// MoveLeader passes leadership from this member to another one that votes, and waits until
	// that leads, or ctx ends.
	MoveLeader(ctx context.Context, to uint64) error
	// Status is what only Maintenance.Status asks for.
	Status() Status

	// ReadLeases is what this member knows of read leases.
	ReadLeases() (ReadLeaseStatus, error)
	// SetReadPolicy replicates the policy of read leases, one that package
	// quorumlease knows, and with static/key, unless it is empty, who holds which
	// keys; it returns when ReadLeases tells of it. ErrCells tells what is wrong
	// with these.
	SetReadPolicy(ctx context.Context, policy, cells string) error
}

// Status describes a member for Maintenance.Status.
type Status struct {
	CommittedIndex uint64   // of the replicated log
	AppliedIndex   uint64   // up to which View includes it
	Size           int64    // bytes allocated for the state
	SizeInUse      int64    // bytes of it that hold data
	IsLearner      bool     // the member has no vote
	Errors         []string // what an operator should know, beside a missing leader
}
