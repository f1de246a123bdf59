package memberworld

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/network"
)

// Spec describes a world.
type Spec struct {
	Members int // of the beginning; as many as two more join
	Spares  int
	Policy  string // of read leases, in strict order
	Storm   time.Duration
	Clients int
	// Compacts has the members forget old revisions, again and again.
	Compacts bool
	Suitors  int // clients that want the ID of a lease that is not renewed
	Lockers  int // hosts whose processes take leases by internal/holder/etcd
	// Users has users and rights in force. All clients are root, but for those whose rights come and go.
	Users bool
	// Forced has all members but one lost for good at the end, and that one begin another cluster.
	Forced bool
	// Behind has that member be cut off before, so that it lacks acknowledged writes for sure.
	Behind bool
	// Accountants are clients that move money between accounts, in transactions of several keys.
	Accountants int
	Faults      []world.Fault
	// Pinned has each client speak to one member only, one after the other.
	Pinned bool
	// Pace is how long clients think between requests, at most; 0: 400 ms.
	Pace time.Duration
	// Way is how long bytes are under way at most, and at least a tenth; 0: 3 ms.
	Way time.Duration
	// Far is how much longer ways between members are, at most: farther than clients.
	Far time.Duration
	// Lossy is one in how many sends is lost and sent again; 0: none.
	Lossy int
	// ReadTTL is how long promises to readers last; 0 draws it.
	ReadTTL time.Duration
	// Hurry has hosts start what ended at once.
	Hurry bool
	// Readers has clients read more, and write less.
	Readers bool
	// Wild worlds have clocks that nothing allows for. Effects of time are not judged.
	Wild bool
	// Upgraded has founders begin with an older version, most of them, which a Restart
	// replaces with the newest.
	Upgraded bool
	// SnapshotBytes is the MaxTailBytes of members; 0 draws one for each.
	SnapshotBytes int
	Script        func(*cluster) // runs beside the clients, and ends with the storm
}

func (s *Spec) flags(r *rand.Rand) flags {
	f := flags{
		readTTL:   []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, time.Second}[r.IntN(3)],
		tailBytes: []int{16 << 10, 64 << 10, 256 << 10}[r.IntN(3)],
		segment:   []int64{16 << 10, 64 << 10, 1 << 20}[r.IntN(3)],
		order:     s.Policy,
	}
	if s.ReadTTL > 0 {
		f.readTTL = s.ReadTTL
	}
	if s.SnapshotBytes > 0 {
		f.tailBytes = s.SnapshotBytes
	}
	return f
}

// downtime is how long a host takes to start its member again.
func (s *Spec) downtime(r *rand.Rand) time.Duration {
	if s.Hurry {
		return 20 * time.Millisecond
	}
	if r.IntN(4) == 0 {
		return time.Duration(r.Int64N(int64(8 * time.Second)))
	}
	return 50*time.Millisecond + time.Duration(r.Int64N(int64(time.Second)))
}

// cluster is a world in play.
type cluster struct {
	w     *world.World
	spec  Spec
	net   *network.Network
	hosts []*host // the members of the beginning first

	history   history
	ledger    ledger
	chronicle chronicle
	leases    leaseJudge
	watches   []*watcher
	terms     terms
	lockers   *lockers

	rights  rights
	inForce chan struct{} // closed when users are
	anew    atomic.Bool   // another cluster begins, with terms of its own

	quiet     chan struct{} // closed when clients are to end
	gone      chan struct{} // closed when all are
	work      sync.WaitGroup
	jobs      chan job     // of the operator
	busy      atomic.Int64 // jobs that are not done
	losing    sync.Mutex   // while the loss of data is decided
	strangers atomic.Int64
	calm      atomic.Bool // nothing is wrong any more
	moved     atomic.Bool // a member has moved, or is about to
	greedy    atomic.Bool // more memory was seen in use than is allowed

	settled []event // the log, when all was judged
}

// over reports whether hosts are to stay down.
func (c *cluster) over() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// resting reports whether clients are to end.
func (c *cluster) resting() bool {
	select {
	case <-c.quiet:
		return true
	default:
		return false
	}
}

// pause sleeps, less if all is over.
func (c *cluster) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.gone:
	}
}

// host finds one by name.
func (c *cluster) host(name string) *host {
	for _, h := range c.hosts {
		if h.name == name {
			return h
		}
	}
	panic("memberworld: no host " + name)
}

// client is a clientv3 client on a host of its own, of all members or of those named.
func (c *cluster) client(name string, of ...*host) *clientv3.Client {
	return c.clientAs(root, name, of...)
}

// clientAs is one that is a user, where there are users.
func (c *cluster) clientAs(user, name string, of ...*host) *clientv3.Client {
	if len(of) == 0 {
		of = c.hosts
	}
	p := c.w.Process(name)
	if p == nil {
		p = c.w.Start(name)
	}
	dial := c.net.Dialer(p)
	var endpoints []string
	for _, h := range of {
		endpoints = append(endpoints, fmt.Sprintf("%s:%d", h.name, clientPort))
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, addr) }),
	}
	if c.spec.Users {
		options = append(options, as(user)...)
	}
	cl, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(),
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		DialOptions: options,
	})
	if err != nil {
		panic(err) // a bad configuration
	}
	return cl
}

// within is a context of a request.
func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
