package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// hosts knows the addresses of hosts: a net.Resolver.
type hosts interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	// placePatience is how long names may take to be resolved, and lookupPause the time between tries: etcd's.
	placePatience = 30 * time.Second
	lookupPause   = time.Second
)

// onePlace returns nil if two peer URLs lead to one place. They may differ in letters if their hosts have an address in common.
// As in etcd localhost is no host that is resolved, and a name that is not known yet is tried again.
func onePlace(ctx context.Context, dns hosts, a, b string) error {
	u, err := url.Parse(a)
	v, err2 := url.Parse(b)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if u.Scheme != v.Scheme || u.Port() != v.Port() {
		return errors.New("schemes and ports differ")
	}
	if strings.EqualFold(u.Hostname(), v.Hostname()) {
		return nil
	}
	if u.Hostname() == "localhost" || v.Hostname() == "localhost" {
		return errors.New("localhost is another host at each")
	}
	ctx, cancel := context.WithTimeout(ctx, placePatience)
	defer cancel()
	here, err := addressesOf(ctx, dns, u.Hostname())
	if err != nil {
		return err
	}
	there, err := addressesOf(ctx, dns, v.Hostname())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(here, func(at netip.Addr) bool { return slices.Contains(there, at) }) {
		return fmt.Errorf("%s is at %v and %s at %v", u.Hostname(), here, v.Hostname(), there)
	}
	return nil
}

// addressesOf looks a host up, again and again until ctx ends.
func addressesOf(ctx context.Context, dns hosts, host string) ([]netip.Addr, error) {
	if at, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{at.Unmap()}, nil
	}
	for {
		found, err := dns.LookupNetIP(ctx, "ip", host)
		if err == nil && len(found) > 0 {
			for i := range found {
				found[i] = found[i].Unmap()
			}
			return found, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s has no address: %w", host, errors.Join(err, ctx.Err()))
		case <-time.After(lookupPause):
		}
	}
}
