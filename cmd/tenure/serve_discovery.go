package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/cli"
)

// discovery is where the first members are found instead of in --initial-cluster: in records of DNS, as etcd has them.
type discovery struct {
	domain, service string
	dns             directory
}

// directory is what of net.Resolver knows such records.
type directory interface {
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, addrs []*net.SRV, err error)
}

// discoveryPatience is for all records together.
const discoveryPatience = 30 * time.Second

func (d *discovery) register(f *pflag.FlagSet) {
	d.dns = net.DefaultResolver
	f.StringVar(&d.domain, "discovery-srv", "", "`domain` whose SRV records _etcd-server-ssl._tcp and _etcd-server._tcp name the first members, instead of --initial-cluster")
	f.StringVar(&d.service, "discovery-srv-name", "", "`suffix` of the service in these records: _etcd-server-ssl-SUFFIX._tcp")
}

// find returns the members by name. Records have no names, and the others' do not matter: a member's ID follows from its
// URL, which has to be the same for all. So self, the URL of this member, is one of the records', letter by letter.
func (d *discovery) find(ctx context.Context, name, self string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryPatience)
	defer cancel()
	members := map[string]string{}
	var failures []error
	for scheme, service := range map[string]string{"https": "etcd-server-ssl", "http": "etcd-server"} {
		if d.service != "" {
			service += "-" + d.service
		}
		_, records, err := d.dns.LookupSRV(ctx, service, "tcp", d.domain)
		if err != nil {
			failures = append(failures, err)
		}
		for _, r := range records {
			found := scheme + "://" + net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port)))
			if found == self {
				members[name] = self
			} else {
				members["at "+found] = found
			}
		}
	}
	switch {
	case members[name] == "" && slices.ContainsFunc(failures, unanswered):
		return nil, cli.Exit(cli.ExitUnavailable, fmt.Errorf("--discovery-srv %s: DNS does not answer: %w", d.domain, errors.Join(failures...)))
	case len(members) == 0:
		return nil, fmt.Errorf("--discovery-srv %s names no members: %w", d.domain, errors.Join(failures...))
	case members[name] == "":
		return nil, fmt.Errorf("--discovery-srv %s names the members %s: --initial-advertise-peer-urls %s should be one of them, as it is written there",
			d.domain, strings.Join(slices.Sorted(maps.Values(members)), ", "), self)
	}
	return members, nil
}

// unanswered reports whether a question to DNS had no answer, which may come later: a host that boots may have no network yet.
func unanswered(err error) bool {
	var failed *net.DNSError
	return errors.As(err, &failed) && !failed.IsNotFound
}
