package integration

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	lockpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
)

// GRPCAPI has etcd's services as their generated clients.
type GRPCAPI struct {
	Cluster     pb.ClusterClient
	KV          pb.KVClient
	Lease       pb.LeaseClient
	Watch       pb.WatchClient
	Maintenance pb.MaintenanceClient
	Auth        pb.AuthClient
	Lock        lockpb.LockClient
	Election    epb.ElectionClient
}

// ToGRPC goes below a client's own methods.
func ToGRPC(c *clientv3.Client) GRPCAPI {
	conn := c.ActiveConnection()
	return GRPCAPI{
		Cluster:     pb.NewClusterClient(conn),
		KV:          pb.NewKVClient(conn),
		Lease:       pb.NewLeaseClient(conn),
		Watch:       pb.NewWatchClient(conn),
		Maintenance: pb.NewMaintenanceClient(conn),
		Auth:        pb.NewAuthClient(conn),
		Lock:        lockpb.NewLockClient(conn),
		Election:    epb.NewElectionClient(conn),
	}
}
