package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/cli"
)

// listenOptions are the flags of sockets, with etcd's meanings.
type listenOptions struct {
	reusePort, reuseAddress bool
	httpURLs                []string // for HTTP alone, which the other URLs then do not serve
}

func (o *listenOptions) register(f *pflag.FlagSet) {
	f.StringSliceVar(&o.httpURLs, "listen-client-http-urls", nil, "`URLs` to listen on for HTTP alone: then --listen-client-urls serves gRPC alone")
	f.BoolVar(&o.reusePort, "socket-reuse-port", false, "share ports with other processes that say so too (SO_REUSEPORT)")
	f.BoolVar(&o.reuseAddress, "socket-reuse-address", false, "take a port whose earlier connections are still timing out (SO_REUSEADDR), as is always done")
}

// secureURL reports whether a URL is one with TLS.
func secureURL(u string) bool {
	return strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "unixs://")
}

// alike refuses URLs with TLS beside others without it where HTTP has URLs of its own.
func (o *serveOptions) alike() error {
	urls := slices.Concat(o.listenClientURLs, o.sockets.httpURLs)
	if len(o.sockets.httpURLs) > 0 && slices.ContainsFunc(urls, secureURL) && slices.ContainsFunc(urls, func(u string) bool { return !secureURL(u) }) {
		return fmt.Errorf("%v: with --listen-client-http-urls either all of them https or none", urls)
	}
	return nil
}

// peersAlike refuses peer URLs that one member cannot have. It may listen at several, but the others dial one.
func (o *serveOptions) peersAlike() error {
	switch {
	case len(o.listenPeerURLs) == 0 || o.listenPeerURLs[0] == "":
		return errors.New("--listen-peer-urls: want a URL")
	case slices.ContainsFunc(o.listenPeerURLs, func(u string) bool { return secureURL(u) != secureURL(o.listenPeerURLs[0]) }):
		return fmt.Errorf("--listen-peer-urls %s: either all of them https or none", strings.Join(o.listenPeerURLs, ","))
	case len(o.advertisePeerURLs) != 1:
		return fmt.Errorf("--initial-advertise-peer-urls %s: a member has one URL for the others here, not several as in etcd: give the one that all of them reach", strings.Join(o.advertisePeerURLs, ","))
	}
	return nil
}

// apart parts the listeners of --listen-client-urls: those with TLS, if there are any, from those without.
func (o *serveOptions) apart(listeners []net.Listener, logger *slog.Logger) (clients, plain []net.Listener) {
	if !slices.ContainsFunc(o.listenClientURLs, secureURL) {
		return listeners, nil
	}
	for i, u := range o.listenClientURLs {
		if secureURL(u) {
			clients = append(clients, listeners[i])
			continue
		}
		plain = append(plain, listeners[i])
		logger.Warn("TLS is for the URLs with https alone: clients at this one are not encrypted, and need no certificate", "url", u)
	}
	return clients, plain
}

// listen opens the socket of a URL: of http://host:port, or of unix://path, as etcd writes paths. Their
// secure kinds are https and unixs.
func (o listenOptions) listen(raw string) (net.Listener, error) {
	scheme, path, _ := strings.Cut(raw, "://")
	if scheme == "unix" || scheme == "unixs" {
		return listenAtPath(raw, path)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no URL to listen on: want http://host:port or https://host:port", raw)
	}
	by := net.ListenConfig{Control: o.control}
	l, err := by.Listen(context.Background(), "tcp", u.Host)
	if err != nil {
		return nil, cli.Exit(cli.ExitFailure, fmt.Errorf("listen on %s: %w; is another server running there?", raw, err))
	}
	return l, nil
}

// control sets a socket's options before it is bound.
func (o listenOptions) control(_, _ string, c syscall.RawConn) (err error) {
	set := func(option int) func(uintptr) {
		return func(fd uintptr) {
			if e := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, 1); e != nil {
				err = os.NewSyscallError("setsockopt", e)
			}
		}
	}
	options := map[int]bool{unix.SO_REUSEPORT: o.reusePort, unix.SO_REUSEADDR: o.reuseAddress}
	for option, wanted := range options {
		if wanted && err == nil {
			if e := c.Control(set(option)); e != nil {
				return e
			}
		}
	}
	return err
}

// listenAtPath opens a socket in the file system for processes of this user. It takes the place of one that a
// process left which has ended.
func listenAtPath(raw, path string) (net.Listener, error) {
	if path == "" {
		return nil, fmt.Errorf("%q is no URL to listen on: want unix:///path/of/a/socket", raw)
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, cli.Exit(cli.ExitFailure, fmt.Errorf("listen on %s: another server is running there", raw))
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("listen on %s: there is something that is no socket", raw)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", raw, err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, cli.Exit(cli.ExitFailure, fmt.Errorf("listen on %s: %w", raw, err))
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on %s: %w", raw, err)
	}
	return l, nil
}
