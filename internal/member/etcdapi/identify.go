package etcdapi

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tenure-lease/tenure/internal/state/auth"
)

// identify returns the caller of a call, while users are in force: of its token or, without one,
// of its certificate; nobody if there is neither (AU-15). The error is that of a token that does
// not count, or of the question about it.
func (s *Server) identify(ctx context.Context) (auth.Caller, error) {
	shown := metadata.ValueFromIncomingContext(ctx, rpctypes.TokenFieldNameGRPC)
	if len(shown) == 0 {
		shown = metadata.ValueFromIncomingContext(ctx, rpctypes.TokenFieldNameSwagger)
	}
	switch {
	case len(shown) > 0 && s.config.Logins == nil:
		return auth.Caller{}, auth.ErrInvalidToken
	case len(shown) > 0:
		return s.config.Logins.Identify(ctx, shown[0])
	case s.config.CertificateUsers:
		return s.backend.Users().Named(commonName(ctx)), nil
	}
	return auth.Caller{}, nil
}

// gatewayHeader is a header of calls that come by way of a gateway from JSON. A certificate is the
// gateway's then, and not the client's.
const gatewayHeader = "grpcgateway-accept"

// commonName returns the common name of the certificate that a client has shown and that was
// verified, if it has one.
func commonName(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || len(metadata.ValueFromIncomingContext(ctx, gatewayHeader)) > 0 {
		return ""
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return ""
	}
	for _, chain := range info.State.VerifiedChains {
		if len(chain) > 0 {
			return chain[0].Subject.CommonName
		}
	}
	return ""
}
