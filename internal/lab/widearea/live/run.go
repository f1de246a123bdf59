package live

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/host/peer/peertest"
	"github.com/tenure-lease/tenure/internal/lab/widearea"
	"github.com/tenure-lease/tenure/internal/member/node"
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
	members []*node.Node // by site
	links   *peertest.Links
}

// Play plays it, which takes For and some seconds to begin and to end.
func (r Run) Play(ctx context.Context) (widearea.Outcome, error) {
	p := &run{Run: r, members: make([]*node.Node, len(widearea.Sites)), links: peertest.New()}
	Stretch(p.links)
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
	o := Clients{
		Seed: r.Seed, Workload: r.Workload, Size: r.Size, For: r.For,
		Operate: func(ctx context.Context, site, _ int, key string, read bool) (int64, error) {
			return operate(ctx, p.members[site], []byte(key), read)
		},
	}.Play(ctx, r.Policy)
	_, later, _ := p.members[widearea.Leader].Leader()
	o.Elections = int(later - term)
	return o, nil
}

// Stretch has the ways between members at the sites, in their order, take half of a
// round trip each.
func Stretch(links *peertest.Links) {
	for from := range widearea.Sites {
		for to := range widearea.Sites {
			links.Delay(from, to, widearea.RoundTrip(from, to)/2)
		}
	}
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
		at, err := r.links.Proxy(site, "127.0.0.1:0", l.Addr().String())
		if err != nil {
			return err
		}
		peers[name] = "http://" + at
	}
	ids := make([]uint64, len(widearea.Sites))
	for _, site := range leaderFirst() {
		n, err := node.Start(node.Config{
			Name: widearea.Sites[site], DataDir: filepath.Join(dir, widearea.Sites[site]), Peers: peers, ClusterToken: "widearea",
			PeerListener: listeners[site], ReadLease: r.Policy, ReadLeaseTTL: r.Length, ElectionTimeout: patience, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		listeners[site] = nil // Start closes it
		if err != nil {
			return err
		}
		r.members[site], ids[site] = n, n.ID()
		r.links.Know(ids)
		if site == widearea.Leader {
			time.Sleep(patience)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
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

// elect has the leader hand over to the member that is to lead.
func (r *run) elect(ctx context.Context) error {
	wanted := r.members[widearea.Leader].ID()
	for ctx.Err() == nil {
		id, _, _ := r.members[widearea.Leader].Leader()
		if id == wanted {
			return nil
		}
		if site := slices.IndexFunc(r.members, func(n *node.Node) bool { return n.ID() == id }); site >= 0 {
			// It may have lost the lead meanwhile; the next round sees the new leader.
			_ = r.members[site].MoveLeader(ctx, wanted)
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("%s does not come to lead: %w", widearea.Sites[widearea.Leader], ctx.Err())
}

func (r *run) stop() {
	for _, n := range r.members {
		if n != nil {
			n.Stop()
		}
	}
	r.links.Stop()
}

// value is as long as in virtual time.
var value = make([]byte, 8)

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
