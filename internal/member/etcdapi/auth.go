package etcdapi

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// authServer answers Unimplemented to everything: there are no users yet, and a
// client that brings a name and password should be told so.
type authServer struct {
	pb.UnimplementedAuthServer
}
