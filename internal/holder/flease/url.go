package flease

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/address"
	"github.com/tenure-lease/tenure/internal/holder/certs"
)

// urlOptions are the options in the URL of a peer.
var urlOptions = []string{
	"cluster", "t_max", "epsilon", "round", "cell", "listen", "state", "clock", "cacert", "cert", "key", "servername",
}

// SocketOfURL reports whether the URL means the peer on this machine, and the path at which it
// listens.
func SocketOfURL(whole string) (path string, ok bool, err error) {
	rest, ok := strings.CutPrefix(whole, "flease://")
	if !ok || !strings.HasPrefix(rest, "/") {
		return "", false, nil
	}
	if strings.ContainsAny(rest, "?#") {
		return "", true, fmt.Errorf("%w %q: the URL of a socket has no options: the peer that listens there has them; write a ? in a path as %%3f", address.ErrURL, whole)
	}
	if path, err = url.PathUnescape(rest); err != nil {
		err = fmt.Errorf("%w %q: %w", address.ErrURL, whole, err)
	}
	return path, true, err
}

// ReadURL reads the URL of a peer.
func ReadURL(whole string) (cfg Config, err error) {
	rest, ok := strings.CutPrefix(whole, "flease://")
	if !ok {
		return cfg, fmt.Errorf("%w %q: this is not a flease URL", address.ErrURL, whole)
	}
	if cfg, err = ReadPeer(rest); err != nil {
		return cfg, fmt.Errorf("%w %q: %w", address.ErrURL, whole, err)
	}
	return cfg, nil
}

// ReadPeer reads the part of a peer's URL behind the scheme. Its errors name the part to change,
// for callers that have no URL from their users.
func ReadPeer(part string) (cfg Config, err error) {
	rest, query, _ := strings.Cut(part, "?")
	self, members, ok := strings.Cut(rest, "@")
	if !ok {
		return cfg, errors.New("which of them is this process? write flease://a:7000@a:7000,b:7000,c:7000, or flease://self@… if that can be told from the addresses; flease:///path is for the peer on this machine")
	}
	var list Members
	if strings.HasPrefix(members, "/") {
		path, err := url.PathUnescape(members)
		if err != nil {
			return cfg, err
		}
		cfg.Membership = FromFile(path)
		if list, err = cfg.Membership(context.Background(), Members{}); err != nil {
			return cfg, err
		}
	} else {
		if list, err = ParseMembers(strings.TrimSuffix(members, "/")); err != nil {
			return cfg, err
		}
		cfg.Membership = Fixed(list)
	}
	if cfg.Self = self; self == "self" {
		if cfg.Self, err = ownAddress(list); err != nil {
			return cfg, err
		}
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return cfg, err
	}
	return cfg, cfg.readOptions(options)
}

// readOptions sets what the options of a URL say.
func (c *Config) readOptions(options url.Values) error {
	for name := range options {
		if !slices.Contains(urlOptions, name) {
			return fmt.Errorf("option %q is unknown; there are %s", name, strings.Join(urlOptions, ", "))
		}
	}
	for name, to := range map[string]*time.Duration{"t_max": &c.TMax, "epsilon": &c.Epsilon, "round": &c.RoundTimeout} {
		text := options.Get(name)
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s=%s is no duration: write for instance %s=500ms", name, text, name)
		}
		*to = d
	}
	if text := options.Get("cell"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("cell=%s: write how many peers coordinate each resource, such as cell=3", text)
		}
		c.Replicas = n
	}
	switch options.Get("clock") {
	case "", "trust":
	case "kernel":
		c.CheckClock = true
	default:
		return fmt.Errorf("clock=%s: write kernel to have the kernel asked how wrong its clock may be, or trust", options.Get("clock"))
	}
	c.Cluster, c.Listen, c.State = options.Get("cluster"), options.Get("listen"), options.Get("state")
	secure := url.Values{}
	for _, name := range []string{"cacert", "cert", "key", "servername"} {
		if options.Has(name) {
			secure[name] = options[name]
		}
	}
	if len(secure) == 0 {
		return nil
	}
	return c.authenticate(secure)
}

// authenticate has peers show and demand certificates of one authority.
func (c *Config) authenticate(options url.Values) error {
	for _, name := range []string{"cacert", "cert", "key"} {
		if options.Get(name) == "" {
			return fmt.Errorf("%s is missing: peers authenticate each other, so give cacert, cert and key together", name)
		}
	}
	secure, err := certs.Read(options)
	if err != nil {
		return err
	}
	secure.ClientCAs, secure.ClientAuth = secure.RootCAs, tls.RequireAndVerifyClientCert
	c.TLS = secure
	return nil
}

// ownAddress returns the one member whose address is one of this machine's.
func ownAddress(list Members) (string, error) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	var mine []string
	for _, addr := range list.Addrs {
		host, _, _ := net.SplitHostPort(addr) // members are host:port
		ips, _ := net.LookupIP(host)          // none for an unknown host, which is another machine then
		if slices.ContainsFunc(ips, func(ip net.IP) bool {
			return slices.ContainsFunc(own, func(a net.Addr) bool {
				n, ok := a.(*net.IPNet)
				return ok && n.IP.Equal(ip)
			})
		}) {
			mine = append(mine, addr)
		}
	}
	if len(mine) != 1 {
		slices.Sort(mine)
		return "", fmt.Errorf("%d of the addresses are this machine's (%s), so which peer this is cannot be told: write flease://ADDRESS@… with its address", len(mine), strings.Join(mine, ", "))
	}
	return mine[0], nil
}
