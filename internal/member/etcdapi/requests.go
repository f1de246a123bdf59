package etcdapi

import (
	"sync"
	"sync/atomic"
)

// ClientRequests is how many calls came from clients of one version of the API.
type ClientRequests struct {
	Stream  bool   // streams, rather than calls with one answer
	Version string // as the client says it
	Count   uint64
}

// Bounds of the versions that are told apart. Clients choose the words, and a count stays for good.
const (
	versionsMax     = 32
	versionMaxBytes = 32
	noVersion       = "unknown" // as etcd has it
	otherVersion    = "other"
)

// requests counts calls by the version that their clients name.
type requests struct {
	mu    sync.RWMutex
	known map[string]*[2]atomic.Uint64 // calls and streams
}

func (r *requests) count(version string, stream bool) {
	kind := 0
	if stream {
		kind = 1
	}
	r.of(version)[kind].Add(1)
}

func (r *requests) of(version string) *[2]atomic.Uint64 {
	r.mu.RLock()
	counts := r.known[version]
	r.mu.RUnlock()
	if counts != nil {
		return counts
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(version) > versionMaxBytes || len(r.known) >= versionsMax && r.known[version] == nil {
		version = otherVersion
	}
	if r.known == nil {
		r.known = make(map[string]*[2]atomic.Uint64)
	}
	if r.known[version] == nil {
		r.known[version] = new([2]atomic.Uint64)
	}
	return r.known[version]
}

// ClientRequests returns the counts of calls, in no particular order.
func (s *Server) ClientRequests() (all []ClientRequests) {
	r := &s.requests
	r.mu.RLock()
	defer r.mu.RUnlock()
	for version, counts := range r.known {
		for kind := range counts {
			if n := counts[kind].Load(); n > 0 {
				all = append(all, ClientRequests{Stream: kind == 1, Version: version, Count: n})
			}
		}
	}
	return all
}
