package server

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// An introduction tells gRPC what is known of a connection that the port has greeted: the TLS
// handshake is done, so that calls find the client's certificate as if gRPC had made it.
type introduction struct{}

// ServerHandshake passes a connection on.
func (introduction) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	known, ok := c.(*guest)
	if !ok || known.tls == nil {
		return insecure.NewCredentials().ServerHandshake(c)
	}
	return c, credentials.TLSInfo{
		State:          *known.tls,
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// ClientHandshake is a part of the interface that a server does not use.
func (introduction) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("server: these credentials are a server's")
}

// Info is a part of the interface.
func (introduction) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone is a part of the interface.
func (i introduction) Clone() credentials.TransportCredentials { return i }

// OverrideServerName is a part of the interface.
func (introduction) OverrideServerName(string) error { return nil }
