package node

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// notedLinks lead nowhere, and record the calls.
type notedLinks struct {
	mu       sync.Mutex
	stats    map[machine.NodeID]peer.Stats
	sent     []sentMessage
	streamed []sentMessage
	streams  func(ctx context.Context) error // what a stream ends with
	peers    []notedPeers
	err      error // of SetPeers
	closed   int
}

type sentMessage struct {
	to      machine.NodeID
	message []byte
	rest    string // of a stream
}

type notedPeers struct {
	addrs   map[machine.NodeID]string
	removed []machine.NodeID
}

func (l *notedLinks) Send(to machine.NodeID, message []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, sentMessage{to: to, message: message})
	return true
}

func (l *notedLinks) SendStream(ctx context.Context, to machine.NodeID, header []byte, from io.Reader) error {
	body, err := io.ReadAll(from)
	l.mu.Lock()
	l.streamed = append(l.streamed, sentMessage{to, header, string(body)})
	l.mu.Unlock()
	return cmp.Or(err, l.streams(ctx))
}

func (l *notedLinks) SetPeers(addrs map[machine.NodeID]string, removed []machine.NodeID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers = append(l.peers, notedPeers{maps.Clone(addrs), slices.Clone(removed)})
	return l.err
}

func (l *notedLinks) Stats(of machine.NodeID) peer.Stats { return l.stats[of] }

func (l *notedLinks) Close() error { l.closed++; return nil }

// take returns the messages that were sent, and forgets them.
func (l *notedLinks) take() []sentMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := l.sent
	l.sent = nil
	return sent
}

// linked is member 1 of three, with links that record their calls, directories of its own, and a
// replica that only listens.
func linked(t *testing.T) (*Node, *listener, *notedLinks) {
	t.Helper()
	n, l := parted(t)
	links := &notedLinks{stats: map[machine.NodeID]peer.Stats{}}
	n.peers, n.storage = links, &storage{}
	n.cfg.WAL.FS, n.cfg.DataDir = waltest.NewDisk().FS(), "/data"
	n.cfg.ElectionTimeout = time.Second
	n.founders = []*pb.Member{{ID: 1, PeerURLs: []string{"http://127.0.0.1:1"}}, {ID: 2, PeerURLs: []string{"http://127.0.0.1:2"}}, {ID: 3, PeerURLs: []string{"http://127.0.0.1:3"}}}
	n.is(replica.FoundedBy(n.founders))
	var err error
	if n.directories, err = openDirectories("/data", 5, waltest.NewDisk().FS()); err != nil {
		t.Fatal(err)
	}
	n.admission.me, n.admission.boot = origin{5, 1 << 32}, 1<<32
	n.admission.confirmed = map[uint64][]uint64{}
	return n, l, links
}

// end stops a member that runs only its replica, and everything that waits for it.
func (n *Node) end() {
	n.halt()
	n.driver.Stop()
	n.done.Wait()
}

// is makes a member apply a roster.
func (n *Node) is(now replica.Roster) {
	n.ahead.Store(&[]*state{{}, {roster: now}})
	n.state.Store(&state{}) // older, of which a member itself goes by nothing
}

// refusalOf is the error that package peer returns for a status.
func refusalOf(t *testing.T, status byte) error {
	t.Helper()
	other := listen(t)
	var done sync.WaitGroup
	defer done.Wait()
	defer other.Close()
	done.Go(func() {
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer conn.Close()
				io.ReadFull(conn, make([]byte, 64))
				conn.Write(answerOf(status, "no"))
				io.Copy(io.Discard, conn)
			})
		}
	})
	refused := make(chan error, 1)
	tr, err := peer.New(peer.Config{
		Self: 1, ClusterID: 7, Listener: listen(t), Peers: map[machine.NodeID]string{2: other.Addr().String()},
		Logger:  slog.New(slog.DiscardHandler),
		Deliver: func(machine.NodeID, [][]byte) {},
		Refused: func(_ machine.NodeID, reason error) { refused <- reason },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	return <-refused
}
