package live

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/node"
	"github.com/tenure-lease/tenure/sim/widearea"
)

// Run is a run of a workload under a policy.
type Run struct {
	Seed     uint64 // of what clients ask for
	Policy   string
	Length   time.Duration     // of read leases; 0: as shipped
	Workload widearea.Workload // of single keys
	Size     widearea.Size     // its requests do not matter
	For      time.Duration     // of which a part does not count: see widearea.Settling
	Dir      string            // for the members' data; gone afterwards
}

// run is a Run under way.
type run struct {
	Run
	members []*node.Node
	links   links
	begun   time.Time

	mu            sync.Mutex
	newest        []int64 // of each key: the latest revision that an operation which ended has seen
	stale, failed int
	reads, writes [len(widearea.Sites)][]time.Duration
}

// Play plays it, which takes For and some seconds to begin and to end.
func (r Run) Play(ctx context.Context) (widearea.Outcome, error) {
	p := &run{Run: r, newest: make([]int64, r.Size.Keys)}
	dir, err := os.MkdirTemp(r.Dir, "widearea")
	if err != nil {
		return widearea.Outcome{}, err
	}
	defer os.RemoveAll(dir)
	defer p.stop()
	if err := p.start(ctx, dir); err != nil {
		return widearea.Outcome{}, fmt.Errorf("policy %q in real time: %w", r.Policy, err)
	}
	_, term, _ := p.members[widearea.Leader].Leader()
	p.begun = time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.For)
	defer cancel()
	var clients sync.WaitGroup
	for site, load := range r.Workload.Loads(r.Seed, r.Size.Keys) {
		for i := range r.Size.Clients {
			clients.Go(func() { p.client(ctx, site, load, rand.NewPCG(r.Seed, uint64(100+site*r.Size.Clients+i))) })
		}
	}
	clients.Wait()
	o := widearea.NewOutcome(r.Policy, r.Workload, time.Since(p.begun), p.reads, p.writes)
	o.Stale, o.Failed = p.stale, p.failed
	_, later, _ := p.members[widearea.Leader].Leader()
	o.Elections = int(later - term)
	return o, nil
}

// patience is the election timeout: longer than the product's, for a machine that has
// much else to do must not take the lead from where the paper has it.
const patience = 2 * time.Second

// start starts the members, the one that is to lead some time before the others, so
// that it asks for votes first.
func (r *run) start(ctx context.Context, dir string) error {
	listeners, peers := make([]net.Listener, len(widearea.Sites)), map[string]string{}
	defer func() {
		for _, l := range listeners {
			if l != nil {
				l.Close()
			}
		}
	}()
	for site, name := range widearea.Sites {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		listeners[site] = l
		at, err := r.links.proxy(site, l.Addr().String())
		if err != nil {
			return err
		}
		peers[name] = "http://" + at
	}
	for _, site := range leaderFirst() {
		n, err := node.Start(node.Config{
			Name: widearea.Sites[site], DataDir: filepath.Join(dir, widearea.Sites[site]), Peers: peers, ClusterToken: "widearea",
			PeerListener: listeners[site], ReadLease: r.Policy, ReadLeaseTTL: r.Length, ElectionTimeout: patience, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		listeners[site] = nil // Start closes it
		if err != nil {
			return err
		}
		r.members = append(r.members, n)
		r.links.know(n.ID(), site)
		if site == widearea.Leader {
			time.Sleep(patience)
		}
	}
	slices.SortFunc(r.members, func(a, b *node.Node) int { return cmp.Compare(r.links.sites[a.ID()], r.links.sites[b.ID()]) })
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, n := range r.members {
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	if err := r.elect(ctx); err != nil {
		return err
	}
	if r.Policy == "static/key" {
		return r.members[widearea.Leader].SetReadCells(ctx, widearea.StaticCells(r.Size.Keys, func(site int) string { return widearea.Sites[site] }))
	}
	return nil
}

// leaderFirst are the sites.
func leaderFirst() []int {
	list := []int{widearea.Leader}
	for site := range widearea.Sites {
		if site != widearea.Leader {
			list = append(list, site)
		}
	}
	return list
}

// elect has whoever leads hand over until the right one does.
func (r *run) elect(ctx context.Context) error {
	for ctx.Err() == nil {
		id, _, _ := r.members[widearea.Leader].Leader()
		switch site, known := r.links.sites[id]; {
		case known && site == widearea.Leader:
			return nil
		case known:
			if err := r.members[site].HandOver(ctx); err != nil {
				return err
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("%s does not come to lead: %w", widearea.Sites[widearea.Leader], ctx.Err())
}

func (r *run) stop() {
	for _, n := range r.members {
		n.Stop()
	}
	r.links.stop()
}

// value is as long as in virtual time.
var value = make([]byte, 8)

// client does one operation after the other at the member of its site.
func (r *run) client(ctx context.Context, site int, load widearea.Load, source rand.Source) {
	n := r.members[site]
	for ctx.Err() == nil {
		keys, read := load.Next(source)
		key, sent := keys[0], time.Now()
		r.mu.Lock()
		seen := r.newest[key]
		r.mu.Unlock()
		rev, err := operate(ctx, n, []byte(widearea.KeyName(key)), read)
		took := time.Since(sent)
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		r.ended(key, read, seen, rev, err)
		if err == nil && sent.Sub(r.begun) >= widearea.Settling(r.For) {
			list := &r.writes[site]
			if read {
				list = &r.reads[site]
			}
			*list = append(*list, took)
		}
		r.mu.Unlock()
	}
}

// operate reads a key or writes it, and returns the revision that it has then.
func operate(ctx context.Context, n *node.Node, key []byte, read bool) (rev int64, err error) {
	if !read {
		resp, err := n.Propose(ctx, &pb.PutRequest{Key: key, Value: value})
		if err != nil {
			return 0, err
		}
		return resp.(*pb.PutResponse).Header.Revision, nil
	}
	request := &pb.RangeRequest{Key: key}
	view, err := n.ReadView(ctx, request)
	if err != nil {
		return 0, err
	}
	resp, err := view.Range(request)
	if err != nil || len(resp.Kvs) == 0 {
		return 0, err
	}
	return resp.Kvs[0].ModRevision, nil
}

// ended judges an operation as it ends: it may not miss what one on its key has seen
// that ended before it began.
func (r *run) ended(key int, read bool, seen, rev int64, err error) {
	switch {
	case err != nil:
		r.failed++
		return
	case read && rev < seen, !read && rev <= seen:
		r.stale++
	}
	r.newest[key] = max(r.newest[key], rev)
}
