package node

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Node is a running member.
type Node struct {
	cfg      Config
	id       machine.NodeID
	cluster  uint64
	founders []*pb.Member // those that began the cluster
	logger   *slog.Logger

	storage     *storage
	directories *directories
	admission   admission
	replica     *replica.Replica // stepped by driver only
	driver      *driver.Driver[replica.Input, replica.Outcome]
	applier     *applier
	peers       links // nil in a cluster of one that cannot grow
	hub         *watch.Hub
	contacts    contacts
	clocks      clocks

	calls
	published
	reads      reads
	leadership atomic.Pointer[leadership]
	// What follows, down to counts, is for Figures.
	leaderChanges, failed, slow atomic.Uint64
	slowReads, failedReads      atomic.Uint64
	restoring                   atomic.Bool
	heartbeats                  heartbeats
	counts                      kv.Counts
	snapshots                   snapshotting
	refusals                    refusals
	traces                      traces
	hashing                     atomic.Bool // for another member
	lifecycle
}

// calls are the callers that wait, each for an outcome of the replica.
type calls struct {
	ids      atomic.Uint64
	granting atomic.Int64 // leases that are being granted
	results  *waits[result]
	asks     *waits[askResult]
	keyReads *waits[keysResult]
	hashes   *waits[hash]
	barriers barriers
	// applications are waits for an index to be applied, released or not.
	applications barriers
}

// lifecycle is how the member starts and ends.
type lifecycle struct {
	running  chan struct{}   // closed when all parts are there
	stop     chan struct{}   // closed when callers are to go
	ctx      context.Context // ends then, too
	cancel   context.CancelFunc
	named    chan struct{} // closed when the cluster knows this member's name and URLs
	naming   sync.Once
	halting  sync.Once
	failing  sync.Once
	stopping sync.Once
	done     sync.WaitGroup
}

// published is what readers see of the applied states.
type published struct {
	state   atomic.Pointer[state]
	ahead   atomic.Pointer[[]*state] // the same state, and those that are not released
	order   atomic.Uint64            // how often reads began or ceased to go by keys
	shown   chan struct{}            // closed when state is of a store
	showing sync.Once
}

// state is what the applier has published: immutable, whole, and stored before
// anything that it contains is acknowledged.
type state struct {
	view        kv.View
	users       *auth.State  // nil while nothing may be seen
	alarms      *alarm.State // nil, too
	index, term uint64
	roster      replica.Roster
}

type leadership struct {
	leader machine.NodeID
	term   uint64
	at     time.Time // when it became so
}

// Start opens the data directory, or makes it, and starts the member. It returns
// before the member knows of a leader; see Ready.
func Start(cfg Config) (_ *Node, err error) {
	defer func() {
		if err != nil && cfg.PeerListener != nil {
			cfg.PeerListener.Close()
		}
	}()
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, id: memberID(cfg.Peers[cfg.Name], cfg.ClusterToken, ""), logger: cfg.Logger,
		calls:     calls{results: newWaits[result](), asks: newWaits[askResult](), keyReads: newWaits[keysResult](), hashes: newWaits[hash]()},
		published: published{shown: make(chan struct{})},
		lifecycle: lifecycle{running: make(chan struct{}), stop: make(chan struct{}), named: make(chan struct{})},
	}
	if n.founders, err = roster(cfg.Peers, cfg.ClusterToken); err != nil {
		return nil, err
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.leadership.Store(&leadership{at: time.Now()})
	n.reads.clock = cfg.mono
	n.clocks = clocks{n: n, now: cfg.Now, look: cfg.Look}

	if err := checkRemoved(cfg.DataDir, cfg.WAL.FS); err != nil {
		return nil, err
	}
	if err := finishAnew(cfg.DataDir, cfg.WAL); err != nil {
		return nil, fmt.Errorf("node: open data directory: %w", err)
	}
	if cfg.ForceNewCluster {
		if err := n.beginAnew(); err != nil {
			return nil, err
		}
	}
	if err := n.reachableFounders(); err != nil {
		return nil, err
	}
	id, flags := described(n.founders, n.id, cfg.ClusterToken), n.founders
	if cfg.Existing {
		if id, err = n.join(); err != nil {
			return nil, err
		}
	}
	var log replica.Log
	n.storage, log, err = openStorage(cfg.DataDir, id, cfg.WAL, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("node: open data directory: %w", err)
	}
	n.storage.synced = n.synced
	id = n.storage.identity
	n.id, n.cluster = machine.NodeID(id.Member), id.Cluster
	if len(id.Founders) > 0 {
		n.founders = id.founders(n.founders)
	}
	defer func() {
		if err != nil {
			n.storage.log.Close()
		}
	}()
	if n.directories, err = openDirectories(cfg.DataDir, n.storage.log.ID(), cfg.WAL.FS); err != nil {
		return nil, fmt.Errorf("node: open data directory: %w", err)
	}
	boot, earlier, err := n.storage.begin(cfg.ReadLeaseTTL, n.directories.get().Admitted)
	if err != nil {
		return nil, fmt.Errorf("node: write to data directory: %w", err)
	}
	if err := n.admit(boot); err != nil {
		return nil, err
	}
	if err := n.restart(log, boot, earlier); err != nil {
		return nil, err
	}
	if err := n.recognize(flags, replica.PeerURLs(log.Entries)); err != nil {
		return nil, err
	}
	if cfg.PeerListener != nil {
		if err := n.connect(); err != nil {
			return nil, err
		}
	}
	n.run()
	return n, nil
}

// restart makes replica and applier from what is on disk.
func (n *Node) restart(log replica.Log, boot uint64, earlier time.Duration) (err error) {
	state := replica.NewApplier(n.id, boot)
	state.Found(replica.FoundedBy(n.founders))
	state.Store().Pause, state.Store().Counts = runtime.Gosched, &n.counts
	if n.cfg.Older {
		state.Older()
	}
	if index := log.Snapshot.GetIndex(); index > state.Index() {
		if err := n.storage.load(state, index, nil); err != nil {
			return err
		}
	}
	n.replica, err = replica.New(n.stepping(log, state.Restored(), boot, earlier), n.cfg.Now())
	n.applier = newApplier(n, state, log.Released)
	return err
}

// stepping is what the replica is made from.
func (n *Node) stepping(log replica.Log, start replica.Restored, boot uint64, earlier time.Duration) replica.Config {
	return replica.Config{
		ID: n.id, Boot: boot, Log: log, Restored: start,
		Tick: n.cfg.HeartbeatInterval, ElectionTicks: int(n.cfg.ElectionTimeout / n.cfg.HeartbeatInterval),
		ReadLeases: replica.ReadLeases{
			Policy: quorumlease.Policy(n.cfg.ReadLease), TTL: n.cfg.ReadLeaseTTL, EarlierTTL: earlier,
		},
		MaxTailBytes: n.cfg.MaxTailBytes, MaxLearners: n.cfg.MaxLearners, LooseReconfig: n.cfg.LooseReconfig, Older: n.cfg.Older, Logger: raftLogger{n.logger},
	}
}

// run starts the goroutines. Nothing fails from here on, and messages of other members have
// waited until here.
func (n *Node) run() {
	n.hub = watch.NewHub(n.State().view, n.cfg.Watch)
	n.driver = driver.Start(driver.Config[replica.Input, replica.Outcome]{
		Machine: watched{n.replica, &n.clocks}, Now: n.clocks.read, Send: n.send, Persist: n.storage.persist,
		Outcome: n.handle, Fail: n.fail,
	})
	n.done.Add(3)
	go n.applier.run()
	go n.housekeeping()
	go n.announce()
	if n.cfg.CorruptCheck > 0 {
		n.done.Add(1)
		go n.watchCorruption()
	}
	close(n.running)
}

func hostNow() machine.Now {
	return machine.Now{Mono: clock.Now(), Wall: machine.Wall(time.Now().UnixNano())}
}

// fail ends the member's work. Nothing is stepped, applied or acknowledged any more, and
// waiting callers learn that the member stopped.
func (n *Node) fail(err error) {
	n.failing.Do(func() {
		<-n.running // the first write may fail before Start is through
		n.logger.Error("this member cannot go on", "err", err)
		n.halt()
		go n.cfg.Fail(err)
	})
}

// halt lets callers go and ends the stepping.
func (n *Node) halt() {
	n.halting.Do(func() {
		close(n.stop)
		n.cancel()
	})
	n.driver.Halt()
}

// Stop ends the member at once, as a crash would but for open files. Callers get
// ErrGRPCStopped. See HandOver for going gently.
func (n *Node) Stop() {
	n.stopping.Do(func() {
		n.halt()
		if n.peers != nil {
			n.peers.Close()
		} else if n.cfg.PeerListener != nil {
			n.cfg.PeerListener.Close()
		}
		n.driver.Stop()
		n.reads.withdraw() // others no longer wait for this life once the next begins (R15)
		n.done.Wait()
		n.hub.Close()
		n.snapshots.wait()
		if err := n.storage.log.Close(); err != nil {
			n.logger.Warn("close the log", "err", err)
		}
	})
}

// Ready waits until the member has caught up with what was committed when it
// was called, and the cluster knows its name and its URLs. So it can serve, and clients that
// ask another member find it.
func (n *Node) Ready(ctx context.Context) error {
	for {
		err := n.Barrier(ctx)
		if err == nil {
			return n.isNamed(ctx)
		}
		if ctx.Err() != nil {
			return err
		}
		select {
		case <-n.stop:
			return errStopped
		case <-time.After(n.cfg.HeartbeatInterval):
		}
	}
}

// isNamed waits until the cluster knows this member's name.
func (n *Node) isNamed(ctx context.Context) error {
	select {
	case <-n.named:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stop:
		return errStopped
	}
}

// announce tells the cluster this member's name and client URLs, so that clients
// can ask any member for all of them.
func (n *Node) announce() {
	defer n.done.Done()
	me := &pb.Member{ID: uint64(n.id), Name: n.cfg.Name, PeerURLs: []string{n.cfg.Peers[n.cfg.Name]}, ClientURLs: n.cfg.ClientURLs}
	for !announced(n.applied().roster.Members, me) {
		if _, err := n.Propose(context.Background(), me); err == nil {
			break
		}
		select {
		case <-n.stop:
			return
		case <-time.After(n.cfg.ElectionTimeout):
		}
	}
	n.naming.Do(func() { close(n.named) })
}

// housekeeping lets go of callers whose time is up.
func (n *Node) housekeeping() {
	defer n.done.Done()
	tick := time.NewTicker(n.cfg.HeartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case now := <-tick.C:
			before := now.Add(-n.cfg.RequestTimeout)
			n.results.expire(before, func(since time.Time) result {
				n.failed.Add(1)
				return result{err: n.timeout(since)}
			})
			n.asks.expire(before, func(since time.Time) askResult { return askResult{err: n.timeout(since)} })
			n.barriers.expire(before, n.readTimeout)
			n.keyReads.expire(before, func(since time.Time) keysResult { return keysResult{err: n.readTimeout(since)} })
			n.applications.overdue(now.Add(-n.cfg.ElectionTimeout))
			n.barriers.overdue(now.Add(-n.cfg.ElectionTimeout))
			n.reads.look(n)
			if n.peers != nil {
				n.admission.look(n, now)
				n.refusals.look(n, now)
				n.lookAround(now)
			}
		}
	}
}
