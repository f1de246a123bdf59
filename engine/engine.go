// Package engine opens a tenure.Leaser by URL.
//
//	etcd://host[:2379][,host2[:2379]…]                            a Tenure server or an etcd, plain text
//	etcd://user[:password]@host,…[?passwordfile=FILE]             the same, as a user of it
//	etcds://[user[:password]@]host[:2379],…                       the same over TLS
//	       [?cacert=FILE][&cert=FILE&key=FILE][&servername=NAME]
//	file:///directory                                             storage that is shared, or this machine's
//	file:///dir1,/dir2,/dir3                                      several: a minority may fail
//	redis://[user:password@]host[:6379],…[/db][?prefix=NAME]      one Redis server, or several independent ones
//	rediss://…                                                    the same over TLS, with etcds' options
//	flease:///path/peer.sock                                      through the peer on this machine, see `tenure peer`
//	flease://a:7000@a:7000,b:7000,c:7000[?…]                      this process is the peer at a:7000 of three
//	flease://a:7000@/path/members[?…]                             the same, with the members in a file
//
// Without cacert the system's certificate authorities are trusted. With cert and key the client
// shows a certificate of its own. passwordfile has the password of the user in one line; a server
// with users lets nobody else in. In a path, a comma is written %2c.
//
// The options of a flease URL are the same for all peers, but for listen and state:
//
//	t_max, epsilon      the longest lease, and by how much clocks differ; by default 30s and 250ms
//	round               the longest round trip
//	cell                how many peers coordinate a resource; by default 3
//	cluster             a name
//	listen              an address to listen at that the others do not know
//	state               a directory that spares a restart the quarantine
//	clock=kernel        fall silent when the kernel does not vouch for its clock
//	cacert, cert, key   as above; they go together
//
// Each engine has a package of its own, for programs that link only that engine. This package links
// all of them. It is a switch, and nothing registers itself.
package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/address"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/holder/redis"
)

// ErrURL is an engine URL that makes no sense. The error that wraps it says what to change.
var ErrURL = address.ErrURL

// Schemes are the URL schemes that Open knows.
var Schemes = []string{"etcd", "etcds", "file", "flease", "redis", "rediss"}

// Open connects to the engine at the URL. The error says which part of the URL to
// change, or that nothing answers there. It wraps ErrURL only in the first case.
func Open(ctx context.Context, url string) (tenure.Leaser, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		instance := "etcd://" + strings.TrimPrefix(url, "//")
		switch {
		case strings.HasPrefix(url, ".") || strings.HasPrefix(url, "~"):
			instance = "file:///DIR, with the whole path"
		case strings.HasPrefix(url, "/") && !strings.HasPrefix(url, "//"):
			instance = "file://" + url
		}
		return nil, fmt.Errorf("%w %q has no scheme: write for instance %s", ErrURL, url, instance)
	}
	switch scheme {
	case "etcd", "etcds":
		cfg, err := etcd.ReadURL(url)
		if err != nil {
			return nil, err
		}
		return opened(etcd.Open(ctx, cfg))
	case "file":
		cfg, err := file.ReadURL(url)
		if err != nil {
			return nil, err
		}
		return opened(file.Open(ctx, cfg))
	case "redis", "rediss":
		cfg, err := redis.ReadURL(url)
		if err != nil {
			return nil, err
		}
		return opened(redis.Open(ctx, cfg))
	case "flease":
		return openFlease(ctx, url)
	case "http", "https":
		return nil, fmt.Errorf("%w %q names a protocol, not an engine: write etcd%s://%s", ErrURL, url, strings.TrimPrefix(scheme, "http"), rest)
	}
	return nil, fmt.Errorf("%w %q: no engine is called %q; there are %s", ErrURL, url, scheme, strings.Join(Schemes, ", "))
}

func openFlease(ctx context.Context, url string) (tenure.Leaser, error) {
	path, socket, err := flease.SocketOfURL(url)
	if err != nil {
		return nil, err
	}
	if socket {
		return opened(flease.Dial(ctx, path))
	}
	cfg, err := flease.ReadURL(url)
	if err != nil {
		return nil, err
	}
	l, err := flease.Open(ctx, cfg)
	if errors.Is(err, flease.ErrConfig) {
		err = fmt.Errorf("%w %q: %w", ErrURL, url, err)
	}
	return opened(l, err)
}

// opened returns no Leaser at all with an error: a nil *etcd.Leaser is no nil Leaser.
func opened[L tenure.Leaser](l L, err error) (tenure.Leaser, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}
