package httpapi

import (
	"context"
	"fmt"
	"net/http"

	gw "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcdgw "go.etcd.io/etcd/api/v3/etcdserverpb/gw"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	electiongw "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb/gw"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	lockgw "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb/gw"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
)

// newGateway serves etcd's gRPC API in JSON, by calls over a connection to the member itself. The
// calls pass everything that others do: limits, permissions, metrics.
func newGateway(conn grpc.ClientConnInterface, limits Limits, origins []string) (http.Handler, error) {
	mux := gw.NewServeMux(
		gw.WithMarshalerOption(gw.MIMEWildcard, &gw.HTTPBodyMarshaler{Marshaler: &gw.JSONPb{
			MarshalOptions:   protojson.MarshalOptions{UseProtoNames: true},
			UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: true},
		}}),
		gw.WithMetadata(token), gw.WithMetadata(traced),
	)
	ctx := context.Background() // it is of no use to the handlers
	for _, err := range []error{
		etcdgw.RegisterKVHandlerClient(ctx, mux, pb.NewKVClient(conn)),
		etcdgw.RegisterWatchHandlerClient(ctx, mux, pb.NewWatchClient(conn)),
		etcdgw.RegisterLeaseHandlerClient(ctx, mux, pb.NewLeaseClient(conn)),
		etcdgw.RegisterClusterHandlerClient(ctx, mux, pb.NewClusterClient(conn)),
		etcdgw.RegisterMaintenanceHandlerClient(ctx, mux, pb.NewMaintenanceClient(conn)),
		etcdgw.RegisterAuthHandlerClient(ctx, mux, pb.NewAuthClient(conn)),
		lockgw.RegisterLockHandlerClient(ctx, mux, v3lockpb.NewLockClient(conn)),
		electiongw.RegisterElectionHandlerClient(ctx, mux, v3electionpb.NewElectionClient(conn)),
	} {
		if err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	g := limited(mux, limits)
	return g.sockets(origins, g), nil
}

// token passes the token of a request on, as clients of gRPC pass theirs.
func token(_ context.Context, r *http.Request) metadata.MD {
	if t := r.Header.Get("Authorization"); t != "" {
		return metadata.Pairs(rpctypes.TokenFieldNameGRPC, t)
	}
	return nil
}
