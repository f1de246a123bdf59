package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// DialTimeout is how long each member has to answer Dial.
const DialTimeout = 5 * time.Second

// Dialer makes a client of one member, by its address.
type Dialer func(ctx context.Context, endpoint string) (*clientv3.Client, error)

// Cluster is a running cluster, which others may use as well.
type Cluster struct {
	Version string // that the leader tells
	dial    Dialer
	members []member
	leader  int
	http    *http.Client
}

type member struct {
	id       uint64
	endpoint string
	metrics  string // URL
}

// Dial finds all members of a cluster and its leader. Members of which no address is given are asked
// at the client URLs that the cluster knows of them. The transport, nil by default, is for metrics.
func Dial(ctx context.Context, endpoints []string, dial Dialer, transport http.RoundTripper) (*Cluster, error) {
	c := &Cluster{dial: dial, leader: -1, http: &http.Client{Timeout: DialTimeout, Transport: transport}}
	var known []memberURLs
	leaders := map[uint64]uint64{} // as each member says
	versions := map[uint64]string{}
	take := func(endpoint string) error {
		id, leader, version, list, err := c.ask(ctx, endpoint)
		if err != nil {
			return err
		}
		for _, m := range c.members {
			if m.id == id {
				return nil // by another of its addresses
			}
		}
		c.members = append(c.members, member{id, endpoint, metricsAt(endpoint, transport != nil)})
		leaders[id], versions[id], known = leader, version, list
		return nil
	}
	for _, e := range endpoints {
		if err := take(e); err != nil {
			return nil, fmt.Errorf("no answer from %s: %w", e, err)
		}
	}
	for _, m := range known {
		if _, ok := leaders[m.id]; !ok && !m.learner {
			if err := firstOf(m.urls, take); err != nil {
				return nil, fmt.Errorf("member %s is not to be reached at %s: give an address of each member: %w", m.name, strings.Join(m.urls, ", "), err)
			}
		}
	}
	for i, m := range c.members {
		if leaders[m.id] == m.id {
			c.leader, c.Version = i, versions[m.id]
		}
	}
	if c.leader < 0 {
		return nil, errors.New("no member leads: a majority of the members must be up and reach each other")
	}
	return c, nil
}

// firstOf returns nil as soon as one of some addresses answers, or why the last did not.
func firstOf(addresses []string, take func(string) error) error {
	err := errors.New("it has no client URL")
	for _, a := range addresses {
		if err = take(a); err == nil {
			return nil
		}
	}
	return err
}

type memberURLs struct {
	id      uint64
	name    string
	urls    []string
	learner bool
}

// ask asks a member for itself, the leader, its version and all members.
func (c *Cluster) ask(ctx context.Context, endpoint string) (id, leader uint64, version string, list []memberURLs, err error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	client, err := c.dial(ctx, endpoint)
	if err != nil {
		return 0, 0, "", nil, err
	}
	defer client.Close()
	status, err := client.Status(ctx, endpoint)
	if err != nil {
		return 0, 0, "", nil, err
	}
	members, err := client.MemberList(ctx)
	if err != nil {
		return 0, 0, "", nil, err
	}
	for _, m := range members.Members {
		list = append(list, memberURLs{m.ID, m.Name, m.ClientURLs, m.IsLearner})
	}
	return status.Header.MemberId, status.Leader, status.Version, list, nil
}

// Size, Leader, Connect and CPU are those of a Target.
func (c *Cluster) Size() int   { return len(c.members) }
func (c *Cluster) Leader() int { return c.leader }

func (c *Cluster) Connect(member int) (*clientv3.Client, error) {
	return c.dial(context.Background(), c.members[member].endpoint)
}

func (c *Cluster) CPU(ctx context.Context) (sum time.Duration) {
	for _, m := range c.members {
		spent, err := c.spent(ctx, m.metrics)
		if err != nil {
			return 0
		}
		sum += spent
	}
	return sum
}
