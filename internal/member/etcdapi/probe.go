package etcdapi

import (
	"context"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	apiversion "go.etcd.io/etcd/api/v3/version"

	"github.com/tenure-lease/tenure/internal/member/caller"
)

// clusterVersion is the version that etcd's members have in common.
const clusterVersion = "3.7.0"

// Versions are those of etcd whose API this is, as etcd's HTTP API tells them.
func (s *Server) Versions() apiversion.Versions { return Versions() }

// Versions are the same for all servers.
func Versions() apiversion.Versions {
	return apiversion.Versions{Server: version, Cluster: clusterVersion, Storage: storageVersion}
}

// HasLeader reports whether this member knows of a leader.
func (s *Server) HasLeader() bool {
	leader, _, _ := s.backend.Leader()
	return leader != 0
}

// Learner reports whether this member has no vote.
func (s *Server) Learner() bool {
	return slices.ContainsFunc(s.backend.Members(), func(m *pb.Member) bool { return m.ID == s.memberID && m.IsLearner })
}

// probePatience is how long a probe may take, beside two election timeouts.
const probePatience = 5 * time.Second

// Probe reads a key, linearizably or, if serializable, from whatever state there is. It needs no
// permission, because it tells nothing.
func (s *Server) Probe(ctx context.Context, serializable bool) error {
	ctx, cancel := context.WithTimeout(caller.Member(ctx), probePatience+2*s.config.ElectionTimeout)
	defer cancel()
	_, err := s.read(ctx, &pb.RangeRequest{Key: []byte{0}, KeysOnly: true, Limit: 1, Serializable: serializable})
	return toStatus(err)
}
