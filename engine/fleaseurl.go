package engine

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

	"github.com/tenure-lease/tenure/engine/flease"
	"github.com/tenure-lease/tenure/internal/holder/certs"
)

// fleaseOptions are the options of a flease URL of a peer.
var fleaseOptions = []string{
	"cluster", "t_max", "epsilon", "round", "cell", "listen", "state", "clock", "cacert", "cert", "key", "servername",
}

// FleaseSocket reports whether the URL means the peer on this machine, and the path at
// which it listens.
func FleaseSocket(whole string) (path string, ok bool, err error) {
	rest, ok := strings.CutPrefix(whole, "flease://")
	if !ok || !strings.HasPrefix(rest, "/") {
		return "", false, nil
	}
	if strings.ContainsAny(rest, "?#") {
		return "", true, fmt.Errorf("%w %q has no options: the peer that listens there has them; write a ? in a path as %%3f", ErrURL, whole)
	}
	if path, err = url.PathUnescape(rest); err != nil {
		return "", true, fmt.Errorf("%w %q: %w", ErrURL, whole, err)
	}
	return path, true, nil
}

// Flease reads a flease URL of a peer. It is for those who need more than a Leaser.
func Flease(whole string) (flease.Config, error) {
	cfg, err := fleaseConfig(whole)
	if err != nil {
		return cfg, fmt.Errorf("%w %q: %w", ErrURL, whole, err)
	}
	return cfg, nil
}

func fleaseConfig(whole string) (cfg flease.Config, err error) {
	rest, ok := strings.CutPrefix(whole, "flease://")
	if !ok {
		return cfg, errors.New("this is not a flease URL")
	}
	rest, query, _ := strings.Cut(rest, "?")
	self, members, ok := strings.Cut(rest, "@")
	if !ok {
		return cfg, errors.New("which of them is this process? write flease://a:7000@a:7000,b:7000,c:7000, or flease://self@… if that can be told from the addresses; flease:///path is for the peer on this machine")
	}
	var list flease.Members
	if strings.HasPrefix(members, "/") {
		path, err := url.PathUnescape(members)
		if err != nil {
			return cfg, err
		}
		cfg.Membership = flease.FromFile(path)
		if list, err = cfg.Membership(context.Background(), flease.Members{}); err != nil {
			return cfg, err
		}
	} else {
		if list, err = flease.ParseMembers(strings.TrimSuffix(members, "/")); err != nil {
			return cfg, err
		}
		cfg.Membership = flease.Fixed(list)
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
	return cfg, fleaseQuery(&cfg, options)
}

// fleaseQuery reads the options.
func fleaseQuery(cfg *flease.Config, options url.Values) error {
	for name := range options {
		if !slices.Contains(fleaseOptions, name) {
			return fmt.Errorf("option %q is unknown; there are %s", name, strings.Join(fleaseOptions, ", "))
		}
	}
	for name, to := range map[string]*time.Duration{"t_max": &cfg.TMax, "epsilon": &cfg.Epsilon, "round": &cfg.RoundTimeout} {
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
		cfg.Replicas = n
	}
	switch options.Get("clock") {
	case "", "trust":
	case "kernel":
		cfg.CheckClock = true
	default:
		return fmt.Errorf("clock=%s: write kernel to have the kernel asked how wrong its clock may be, or trust", options.Get("clock"))
	}
	cfg.Cluster, cfg.Listen, cfg.State = options.Get("cluster"), options.Get("listen"), options.Get("state")
	secure := url.Values{}
	for _, name := range []string{"cacert", "cert", "key", "servername"} {
		if options.Has(name) {
			secure[name] = options[name]
		}
	}
	if len(secure) == 0 {
		return nil
	}
	return fleaseTLS(cfg, secure)
}

// fleaseTLS has peers show and demand certificates of one authority.
func fleaseTLS(cfg *flease.Config, options url.Values) error {
	for _, name := range []string{"cacert", "cert", "key"} {
		if options.Get(name) == "" {
			return fmt.Errorf("%s is missing: peers authenticate each other, so give cacert, cert and key together", name)
		}
	}
	c, err := certs.Read(options)
	if err != nil {
		return err
	}
	c.ClientCAs, c.ClientAuth = c.RootCAs, tls.RequireAndVerifyClientCert
	cfg.TLS = c
	return nil
}

// ownAddress finds the one member whose address is one of this machine's.
func ownAddress(list flease.Members) (string, error) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	var mine []string
	for _, addr := range list.Addrs {
		host, _, _ := net.SplitHostPort(addr) // members are host:port
		ips, _ := net.LookupIP(host)          // none of one that is away: it is another's
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
