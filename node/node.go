package node

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/driver"
	"github.com/tenure-lease/tenure/kv"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/peer"
	"github.com/tenure-lease/tenure/replica"
	"github.com/tenure-lease/tenure/watch"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Node is a running member.
type Node struct {
	cfg     Config
	id      machine.NodeID
	cluster uint64
	roster  []*pb.Member // as the flags have it
	logger  *slog.Logger

	storage *storage
	replica *replica.Replica // stepped by driver only
	driver  *driver.Driver
	applier *applier
	peers   *peer.Transport // nil in a cluster of one
	hub     *watch.Hub

	ids      atomic.Uint64
	pending  atomic.Int64 // bytes of requests that wait
	results  *waits[result]
	asks     *waits[askResult]
	barriers barriers

	state      atomic.Pointer[state]
	leadership atomic.Pointer[leadership]
	snapshots  snapshotting

	stop     chan struct{}
	stopping sync.Once
	done     sync.WaitGroup
}

// state is what the applier has published: immutable, whole, and stored before
// anything that it contains is acknowledged.
type state struct {
	view        kv.View
	index, term uint64
	members     []*pb.Member
}

type leadership struct {
	leader machine.NodeID
	term   uint64
	lostAt time.Time // when leader became 0; zero otherwise
}

// Start opens the data directory, or makes it, and starts the member. It returns
// before the member knows of a leader; see Ready.
func Start(cfg Config) (_ *Node, err error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = hostNow
	}
	n := &Node{
		cfg: cfg, id: memberID(cfg.Peers[cfg.Name], cfg.ClusterToken), logger: cfg.Logger,
		results: newWaits[result](), asks: newWaits[askResult](), stop: make(chan struct{}),
	}
	if n.roster, err = roster(cfg.Peers, cfg.ClusterToken); err != nil {
		return nil, err
	}
	ids := rosterIDs(n.roster)
	n.cluster = clusterID(ids, cfg.ClusterToken)
	n.leadership.Store(&leadership{lostAt: time.Now()})

	boot := bootID()
	voters := make([]uint64, len(ids))
	for i, id := range ids {
		voters[i] = uint64(id)
	}
	var log replica.Log
	n.storage, log, err = openStorage(cfg.DataDir, identity{Cluster: n.cluster, Member: uint64(n.id), Voters: voters}, cfg.WAL, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("node: open data directory: %w", err)
	}
	defer func() {
		if err != nil {
			n.storage.log.Close()
		}
	}()
	state := replica.NewApplier(n.id, boot)
	state.Store().Pause = runtime.Gosched
	if index := log.Snapshot.GetIndex(); index > state.Index() {
		if err := n.storage.load(state, index); err != nil {
			return nil, err
		}
	}
	start := state.Restored()
	n.replica, err = replica.New(replica.Config{
		ID: n.id, Boot: boot, Log: log, Applied: start.Index, Leases: start.Leases,
		Tick: cfg.HeartbeatInterval, ElectionTicks: int(cfg.ElectionTimeout / cfg.HeartbeatInterval),
		MaxTailBytes: cfg.MaxTailBytes, Logger: raftLogger{cfg.Logger},
	}, cfg.Now())
	if err != nil {
		return nil, err
	}
	n.applier = newApplier(n, state)
	n.hub = watch.NewHub(n.State().view, cfg.Watch)
	n.done.Add(2)
	go n.applier.run()
	go n.housekeeping()
	n.driver = driver.Start(driver.Config{
		Machine: n.replica, Now: cfg.Now, Send: n.send, Persist: n.storage.persist,
		Outcome: n.outcomes, Fail: n.fail,
	})
	close(n.applier.started)
	if len(cfg.Peers) > 1 {
		if err := n.connect(); err != nil {
			n.Stop()
			return nil, err
		}
	}
	n.done.Add(1)
	go n.announce()
	return n, nil
}

func hostNow() machine.Now {
	return machine.Now{Mono: clock.Now(), Wall: machine.Wall(time.Now().UnixNano())}
}

// bootID tells this life of the member from all others.
func bootID() uint64 {
	var p [8]byte
	crand.Read(p[:]) // never fails
	return binary.BigEndian.Uint64(p[:]) | 1
}

func (n *Node) fail(err error) {
	n.logger.Error("this member cannot go on", "err", err)
	n.cfg.Fail(err)
}

// Stop ends the member at once, as a crash would but for open files. See HandOver
// for going gently.
func (n *Node) Stop() {
	n.stopping.Do(func() {
		close(n.stop)
		if n.peers != nil {
			n.peers.Close()
		} else if n.cfg.PeerListener != nil {
			n.cfg.PeerListener.Close()
		}
		n.driver.Stop()
		n.done.Wait()
		n.hub.Close()
		n.snapshots.wait()
		if err := n.storage.log.Close(); err != nil {
			n.logger.Warn("close the log", "err", err)
		}
	})
}

// HandOver passes leadership on, if this member has it, and waits until another
// leads. It returns early when the context ends.
func (n *Node) HandOver(ctx context.Context) error {
	for len(n.roster) > 1 && n.leadership.Load().leader == n.id {
		n.driver.Step(replica.HandOver{})
		select {
		case <-ctx.Done():
			return fmt.Errorf("node: hand leadership over: %w", context.Cause(ctx))
		case <-n.stop:
			return errStopped
		case <-time.After(n.cfg.HeartbeatInterval / 2):
		}
	}
	return nil
}

// Ready waits until the member has caught up with what was committed when it
// was called, and so can serve.
func (n *Node) Ready(ctx context.Context) error {
	for {
		err := n.Barrier(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-n.stop:
			return errStopped
		case <-time.After(n.cfg.HeartbeatInterval):
		}
	}
}

// announce tells the cluster this member's name and client URLs, so that clients
// can ask any member for all of them.
func (n *Node) announce() {
	defer n.done.Done()
	me := &pb.Member{ID: uint64(n.id), Name: n.cfg.Name, PeerURLs: []string{n.cfg.Peers[n.cfg.Name]}, ClientURLs: n.cfg.ClientURLs}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-n.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for !announced(n.State().members, me) {
		if _, err := n.Propose(ctx, me); err == nil {
			return
		}
		select {
		case <-n.stop:
			return
		case <-time.After(n.cfg.ElectionTimeout):
		}
	}
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
			n.results.expire(now, result{err: n.timeout(now)})
			n.asks.expire(now, askResult{err: n.timeout(now)})
			n.barriers.expire(now.Add(-n.cfg.RequestTimeout), n.timeout(now))
		}
	}
}
