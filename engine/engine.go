// Package engine opens a tenure.Leaser by URL.
//
//	etcd://host[:2379][,host2[:2379]…]                            a Tenure server or an etcd, plain text
//	etcds://host[:2379],…[?cacert=FILE][&cert=FILE&key=FILE]      the same over TLS
//	                                  [&servername=NAME]
//
// Without cacert the system's certificate authorities are trusted. cert and key
// are what the client shows of itself.
//
// There is one package per engine, for who wants to link only that; this one
// links them all. It is a switch, and nothing registers itself.
package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/etcd"
)

// Schemes are the URL schemes that Open knows.
var Schemes = []string{"etcd", "etcds"}

// Open connects to the engine at the URL. The error says which part of the URL to
// change, or that nothing answers there.
func Open(ctx context.Context, url string) (tenure.Leaser, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return nil, fmt.Errorf("engine URL %q has no scheme: write for instance etcd://%s", url, strings.TrimPrefix(url, "//"))
	}
	switch scheme {
	case "etcd", "etcds":
		cfg, err := Etcd(url)
		if err != nil {
			return nil, err
		}
		l, err := etcd.Open(ctx, cfg)
		if err != nil {
			return nil, err // not l: a nil *etcd.Leaser is no nil Leaser
		}
		return l, nil
	case "http", "https":
		return nil, fmt.Errorf("engine URL %q names a protocol, not an engine: write etcd%s://%s", url, strings.TrimPrefix(scheme, "http"), rest)
	}
	return nil, fmt.Errorf("engine URL %q: no engine is called %q; there are %s", url, scheme, strings.Join(Schemes, ", "))
}
