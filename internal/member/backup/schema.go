package backup

import (
	"encoding/binary"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// The buckets of etcd's database, and the names in them.
var (
	keyBucket     = []byte("key")
	metaBucket    = []byte("meta")
	leaseBucket   = []byte("lease")
	clusterBucket = []byte("cluster")
	memberBucket  = []byte("members")
	removedBucket = []byte("members_removed")
	authBucket    = []byte("auth")
	userBucket    = []byte("authUsers")
	roleBucket    = []byte("authRoles")

	// buckets are all that etcd opens a database with.
	buckets = [][]byte{
		keyBucket, metaBucket, leaseBucket, []byte("alarm"), clusterBucket, memberBucket, removedBucket,
		authBucket, userBucket, roleBucket,
	}

	scheduledCompact = []byte("scheduledCompactRev")
	finishedCompact  = []byte("finishedCompactRev")
	consistentIndex  = []byte("consistent_index")
	termName         = []byte("term")
	confStateName    = []byte("confState")
	storageVersion   = []byte("storageVersion")
	clusterVersion   = []byte("clusterVersion")
	authEnabled      = []byte("authEnabled")
	authRevision     = []byte("authRevision")
)

// etcdVersion is that of etcd's data format and cluster.
const etcdVersion = "3.7.0"

// A revision in etcd's database is a number of the change and one of the key within it, with a
// mark behind them for a deletion.
type revision struct {
	main, sub int64
	deletion  bool
}

const (
	revisionBytes = 8 + 1 + 8
	deletionMark  = 't'
)

var errRevision = errors.New("a key of the bucket of keys is no revision")

func (r revision) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, revisionBytes+1), uint64(r.main))
	b = append(b, '_')
	b = binary.BigEndian.AppendUint64(b, uint64(r.sub))
	if r.deletion {
		b = append(b, deletionMark)
	}
	return b
}

func decodeRevision(b []byte) (r revision, err error) {
	switch {
	case len(b) == revisionBytes+1 && b[revisionBytes] == deletionMark:
		r.deletion = true
	case len(b) != revisionBytes:
		return r, errRevision
	}
	r.main, r.sub = int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[9:]))
	if b[8] != '_' || r.main < 0 || r.sub < 0 {
		return r, errRevision
	}
	return r, nil
}

// The fields of etcd's message for a lease.
const (
	leaseID        = 1
	leaseTTL       = 2
	leaseRemaining = 3
)

func leaseKey(id int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

// encodeLease writes a lease as etcd does. The rest of its time is in seconds there, and in milliseconds here.
func encodeLease(l kv.LeaseInfo) (b []byte) {
	for field, n := range []int64{leaseID: l.ID, leaseTTL: l.TTL, leaseRemaining: (l.Remaining + 999) / 1000} {
		if n != 0 {
			b = protowire.AppendTag(b, protowire.Number(field), protowire.VarintType)
			b = protowire.AppendVarint(b, uint64(n))
		}
	}
	return b
}

var errLease = errors.New("a value of the bucket of leases is no lease")

func decodeLease(b []byte) (l kv.LeaseInfo, err error) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return l, errLease
		}
		b = b[n:]
		if kind != protowire.VarintType {
			if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
				return l, errLease
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return l, errLease
		}
		b = b[n:]
		switch field {
		case leaseID:
			l.ID = int64(v)
		case leaseTTL:
			l.TTL = int64(v)
		case leaseRemaining:
			l.Remaining = int64(v) * 1000
		}
	}
	return l, nil
}
