package diff

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// Generate makes n random steps, the same for the same seed.
func Generate(seed uint64, n int) []Step {
	g := &generator{
		Rand:    rand.New(rand.NewPCG(seed, 0)),
		members: rand.New(rand.NewPCG(seed, 1)),
	}
	for len(g.steps) < n {
		g.next()
	}
	return g.steps
}

type generator struct {
	*rand.Rand
	members *rand.Rand // of its own, so that the calls do not depend on it
	steps   []Step
	chosen  int64 // leases granted with an ID chosen by the server, if all are
	brief   int64 // leases granted for a moment
}

// maxMembers is how many a step may choose from.
const maxMembers = 3

// percent is true so often.
func (g *generator) percent(n int) bool { return g.IntN(100) < n }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (g *generator) next() {
	switch w := g.IntN(100); {
	case w < 22:
		g.add(methodPut, g.put())
	case w < 40:
		g.add(methodRange, g.rangeRequest())
	case w < 43:
		g.add(methodRangeStream, g.rangeRequest())
	case w < 51:
		g.add(methodDeleteRange, g.deleteRange())
	case w < 69:
		g.add(methodTxn, g.txn(0))
	case w < 71:
		g.add(methodCompact, &pb.CompactionRequest{Revision: g.compactRevision(), Physical: g.percent(20)})
	case w < 77:
		g.grant()
	case w < 80:
		g.add(methodRevoke, &pb.LeaseRevokeRequest{ID: g.lease()})
	case w < 83:
		g.add(methodTimeToLive, &pb.LeaseTimeToLiveRequest{ID: g.lease(), Keys: g.percent(70)})
	case w < 84:
		g.add(methodLeases, &pb.LeaseLeasesRequest{})
	case w < 86:
		g.add(methodKeepAlive, &pb.LeaseKeepAliveRequest{ID: g.lease()})
	case w < 97:
		g.add(methodWatch, g.watch())
	default:
		g.add(methodPut, g.hugePut())
	}
}

func (g *generator) add(method string, req proto.Message) {
	g.steps = append(g.steps, Step{Method: method, Req: req, Member: g.members.IntN(maxMembers)})
}

func (g *generator) key() []byte {
	if g.percent(2) {
		return nil
	}
	return []byte{byte('a' + g.IntN(10))}
}

// end is a range's other end: none, from-key, a key of any order, a prefix.
func (g *generator) end(key []byte) []byte {
	switch w := g.IntN(100); {
	case w < 40:
		return nil
	case w < 55:
		return []byte{0}
	case w < 65 && len(key) > 0:
		return append(bytes.Clone(key[:len(key)-1]), key[len(key)-1]+1)
	case w < 70:
		return bytes.Clone(key)
	default:
		return []byte{byte('a' + g.IntN(12))}
	}
}

// revision is near the store's own: mostly in the past, at times in the future,
// negative, or so far back that it was compacted.
func (g *generator) revision() int64 {
	switch w := g.IntN(100); {
	case w < 75:
		return symbolRevision - int64(g.IntN(20))
	case w < 85:
		return symbolRevision - int64(g.IntN(200))
	case w < 95:
		return symbolRevision + 1 + int64(g.IntN(5))
	default:
		return pick[int64](g, -1, 1, 2, 1<<62)
	}
}

func (g *generator) compactRevision() int64 {
	if g.percent(70) {
		return symbolRevision - int64(g.IntN(10))
	}
	return g.revision()
}

func (g *generator) lease() int64 {
	switch w := g.IntN(100); {
	case w < 60 || g.chosen == 0:
		return 1 + g.Int64N(8)
	case w < 95:
		return symbolLease + g.Int64N(g.chosen)
	default:
		return pick[int64](g, 0, -5, 424242)
	}
}

func (g *generator) grant() {
	ttl := 10_000 + g.Int64N(1000)
	switch w := g.IntN(100); {
	case w < 55:
		g.add(methodGrant, &pb.LeaseGrantRequest{ID: 1 + g.Int64N(8), TTL: ttl})
	case w < 75:
		g.add(methodGrant, &pb.LeaseGrantRequest{TTL: ttl})
		g.chosen++
	case w < 85:
		g.add(methodGrant, &pb.LeaseGrantRequest{
			ID: pick[int64](g, 1, -5, -6, 4242), TTL: pick[int64](g, 9_000_000_000, 9_000_000_001, 1<<62),
		})
	default: // would expire soon: given back at once
		g.brief++
		id := 1000 + g.brief
		g.add(methodGrant, &pb.LeaseGrantRequest{ID: id, TTL: pick[int64](g, 0, -1, 1, 2, 3, -1<<63)})
		g.add(methodTimeToLive, &pb.LeaseTimeToLiveRequest{ID: id})
		g.add(methodRevoke, &pb.LeaseRevokeRequest{ID: id})
	}
}

func (g *generator) value() []byte {
	switch w := g.IntN(100); {
	case w < 5:
		return nil
	case w < 7:
		return bytes.Repeat([]byte{'x'}, 20_000)
	default:
		return fmt.Appendf(nil, "v%d", g.IntN(30))
	}
}

// hugePut is near etcd's limit of 1.5 MiB a request or over gRPC's, which etcd
// sets 512 KiB higher.
func (g *generator) hugePut() *pb.PutRequest {
	size := 100_000
	if g.percent(30) {
		size = pick(g, 1_572_000, 1_572_858, 1_572_864, 1_600_000, 2_200_000)
	}
	return &pb.PutRequest{Key: []byte("big"), Value: make([]byte, size)}
}
