package server

import (
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/metrics"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/watch"
)

// source gives a member's figures to its metrics.
type source struct {
	*node.Node
	server *Server
	quota  int64 // 0: none
}

var _ metrics.Source = source{}

// WatchStats are of the watches of all streams.
func (s source) WatchStats() watch.Stats { return s.Watches().Stats() }

// Size and SizeInUse are what Maintenance.Status tells.
func (s source) Size() int64      { size, _ := sizes(s.Stats()); return size }
func (s source) SizeInUse() int64 { _, inUse := sizes(s.Stats()); return inUse }

// Quota is the operator's or, without one, the part of the memory that the state may have.
func (s source) Quota() int64 { return s.quota }

// Traffic is that of all clients.
func (s source) Traffic() (received, sent uint64) { return s.server.api.Traffic() }

// ClientRequests are the calls of all clients.
func (s source) ClientRequests() []etcdapi.ClientRequests { return s.server.api.ClientRequests() }

// Short reports whether memory is short.
func (s source) Short() bool { return s.server.memory.short.Load() }
