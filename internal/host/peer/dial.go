package peer

import (
	"context"
	"net"
)

// DialFunc connects to an address (host:port). It returns when the connection stands,
// or with an error once the context ends.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// dialTCP is what a nil DialFunc stands for.
func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

func (dial DialFunc) orTCP() DialFunc {
	if dial == nil {
		return dialTCP
	}
	return dial
}
