package etcdapi

import (
	"context"
	"math"
	"runtime"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/tenure-lease/tenure/api/readleasepb"
)

// A Server answers etcd's gRPC API from a Backend.
type Server struct {
	backend    Backend
	config     Config
	clusterID  uint64
	memberID   uint64
	leaderless leaderless
	lines      lines
	answers    *answers
	scans      *semaphore.Weighted // turns of long reads
	backups    *semaphore.Weighted // turns of snapshots
	raising    sync.Mutex          // of an alarm
	health     *health.Server
	traffic    traffic
	requests   requests
	slow       slow
	streaming  context.Context // ends with EndStreams
	endStreams context.CancelCauseFunc
}

// New returns a Server over a Backend that is ready to be used.
func New(b Backend, c Config) *Server {
	s := &Server{
		backend:   b,
		config:    c.withDefaults(),
		clusterID: b.ClusterID(),
		memberID:  b.ID(),
		health:    health.NewServer(),
	}
	s.leaderless.server, s.lines.server = s, s
	s.slow.from, s.slow.logger = s.config.WarnCall, s.config.Logger
	s.answers = newAnswers(&s.config)
	s.scans = semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2)))
	s.backups = semaphore.NewWeighted(1)
	s.streaming, s.endStreams = context.WithCancelCause(context.Background())
	return s
}

// Options are what the grpc.Server must be made with that Register is given:
// the limits of the Config, the codec that watches need, and the interceptors.
func (s *Server) Options() []grpc.ServerOption {
	c := &s.config
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{&s.traffic}),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxRecvMsgSize(c.MaxRequestBytes + WireOverhead),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(c.MaxConcurrentStreams), // 0 is no bound there, too
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: c.KeepAliveMinTime}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: c.KeepAliveInterval, Timeout: c.KeepAliveTimeout}),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
	}
}

// streamWorkers is how many goroutines wait for calls. A goroutine that is new for each
// call grows its stack each time, which costs a tenth of a put's time. Calls beyond that
// number, and streams that hold a worker for long, still get their own.
const streamWorkers = 256

// Register adds all services to g: etcd's, ours for read leases, gRPC's health, and
// reflection.
func (s *Server) Register(g *grpc.Server) {
	pb.RegisterKVServer(g, &kvServer{Server: s})
	pb.RegisterWatchServer(g, &watchServer{Server: s})
	pb.RegisterLeaseServer(g, &leaseServer{Server: s})
	pb.RegisterClusterServer(g, &clusterServer{Server: s})
	pb.RegisterMaintenanceServer(g, &maintenanceServer{Server: s})
	pb.RegisterAuthServer(g, &authServer{Server: s})
	v3lockpb.RegisterLockServer(g, &lockServer{Server: s})
	v3electionpb.RegisterElectionServer(g, &electionServer{Server: s})
	readleasepb.RegisterReadLeaseServer(g, &readLeaseServer{Server: s})
	grpc_health_v1.RegisterHealthServer(g, &healthServer{s.health, s.backend.Shown()})
	reflection.Register(g)
}

// Shutdown tells clients that ask for the server's health that it stops serving.
// Call it before the grpc.Server is stopped.
func (s *Server) Shutdown() { s.health.Shutdown() }

// EndStreams ends watches and other streams, which have no end of their own, with
// the error on which etcd's clients go on at another member. Then, and only then,
// grpc.Server.GracefulStop comes to an end by itself; to cut it short loses calls
// that clients sent before they learned that the server leaves.
func (s *Server) EndStreams() { s.endStreams(rpctypes.ErrGRPCStopped) }

// fill completes the header of a response, which has its revision.
func (s *Server) fill(h *pb.ResponseHeader) {
	_, term, _ := s.backend.Leader()
	h.ClusterId, h.MemberId, h.RaftTerm = s.clusterID, s.memberID, term
}

// header is for a response that tells of the present revision, 0 if that is not known.
func (s *Server) header() *pb.ResponseHeader {
	return s.headerAt(s.backend.View().Revision())
}

func (s *Server) headerAt(revision int64) *pb.ResponseHeader {
	h := &pb.ResponseHeader{Revision: revision}
	s.fill(h)
	return h
}
