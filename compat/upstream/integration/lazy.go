package integration

import (
	"os"
	"strconv"
	"sync"
)

// MembersVariable is the environment variable with the size of a LazyCluster, 1
// when unset.
const MembersVariable = "TENURE_UPSTREAM_MEMBERS"

// LazyCluster is a cluster that starts when first asked for.
type LazyCluster struct {
	once    sync.Once
	cluster *Cluster
}

// NewLazyCluster promises a cluster.
func NewLazyCluster() *LazyCluster { return &LazyCluster{} }

// EndpointsGRPC are the members' addresses.
func (l *LazyCluster) EndpointsGRPC() []string {
	l.once.Do(func() {
		members, _ := strconv.Atoi(os.Getenv(MembersVariable))
		l.cluster = NewCluster(nil, &ClusterConfig{Size: max(members, 1)})
	})
	return l.cluster.Endpoints()
}

// Terminate ends the cluster, if it ever started.
func (l *LazyCluster) Terminate() {
	if l.cluster != nil {
		l.cluster.Terminate(nil)
	}
}
