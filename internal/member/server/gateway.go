package server

import (
	"context"
	"math"
	"net"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/httpapi"
)

// insideBytes is the buffer of the connection from the gateway to the member.
const insideBytes = 256 << 10

// gateway makes the handler of HTTP, and the listener at which it calls the member itself. The calls
// go by a connection in memory, so that the gateway needs neither a port nor a certificate.
func (s *Server) gateway(cfg HTTP, told *httpapi.Config) (inside net.Listener, err error) {
	l := bufconn.Listen(insideBytes)
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }
	s.self, err = grpc.NewClient("passthrough:///gateway", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, err
	}
	if !cfg.NoGateway {
		told.Gateway = s.self
	}
	if s.handler, err = httpapi.New(*told); err != nil {
		s.self.Close()
		return nil, err
	}
	return l, nil
}

// Handler is what the ports for clients serve by HTTP, to serve it at others, too. The member's
// limits of connections and headers are not in it.
func (s *Server) Handler() http.Handler { return s.handler }

// bodiesBytes is the room for the bodies of all requests by JSON, if they are not larger.
const bodiesBytes = 64 << 20

// gatewayLimits follow from those of the API. A message may be twice as long in JSON: bytes take a
// third more, and names of fields the rest.
func (cfg Config) gatewayLimits(m *memory) (l httpapi.Limits) {
	api := cfg.api(m)
	if api.MaxRequestBytes > 0 {
		l.BodyBytes = 2 * (int64(api.MaxRequestBytes) + etcdapi.WireOverhead)
	}
	l.BodiesBytes = max(bodiesBytes, 2*l.BodyBytes)
	l.AnswersBytes = api.AnswerBytes
	return l
}
