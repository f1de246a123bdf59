package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/state/auth"

	"github.com/tenure-lease/tenure/internal/load"
)

// kindEcho is this program as a server that knows nothing and answers at once: the
// remaining cost of a get when nothing has to be found out.
const kindEcho server.Kind = "echo"

// echoVariable is the environment variable that makes this program an echo.
const echoVariable = "TENURE_BENCH_ECHO"

// echoServer answers what a benchmark of gets asks for.
type echoServer struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	value []byte
}

// echoBackend is as much of a member as the interceptors look at.
type echoBackend struct{ etcdapi.Backend }

const echoID = 1

var noUsers = auth.New()

func (echoBackend) ID() uint64        { return echoID }
func (echoBackend) ClusterID() uint64 { return echoID }

func (echoBackend) Users() *auth.State { return noUsers }

func (echoBackend) Leader() (id, term uint64, lostFor time.Duration) { return echoID, 1, 0 }

func header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: echoID, MemberId: echoID, Revision: 1, RaftTerm: 1}
}

func (e *echoServer) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	kv := &mvccpb.KeyValue{Key: r.Key, Value: e.value, CreateRevision: 1, ModRevision: 1, Version: 1}
	return &pb.RangeResponse{Header: header(), Kvs: []*mvccpb.KeyValue{kv}, Count: 1}, nil
}

func (e *echoServer) Put(context.Context, *pb.PutRequest) (*pb.PutResponse, error) {
	return &pb.PutResponse{Header: header()}, nil
}

func (e *echoServer) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: header(), Leader: echoID}, nil
}

// echo serves with the arguments of a member, of which it heeds one.
func echo(args []string) error {
	fs := flag.NewFlagSet("echo", flag.ContinueOnError)
	listen := fs.String("listen-client-urls", "", "")
	for _, ignored := range []string{"name", "data-dir", "advertise-client-urls", "listen-peer-urls", "initial-advertise-peer-urls",
		"initial-cluster", "initial-cluster-state", "initial-cluster-token"} {
		fs.String(ignored, "", "")
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	at, err := url.Parse(*listen)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", at.Host)
	if err != nil {
		return err
	}
	floor := cli.HeapFloor(0) // as a member has it
	e := &echoServer{value: []byte(load.Value)}
	s := grpc.NewServer(etcdapi.New(echoBackend{}, etcdapi.Config{}).Options()...)
	pb.RegisterKVServer(s, e)
	pb.RegisterMaintenanceServer(s, e)
	fmt.Println("ready to serve client requests")
	err = s.Serve(l)
	runtime.KeepAlive(floor)
	return err
}
