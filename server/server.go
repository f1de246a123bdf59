package server

import (
	"context"
	"net"
	"net/http"

	"github.com/tenure-lease/tenure/internal/member/server"
)

// Server is a running member. Its methods may be called by many goroutines.
type Server struct{ member *server.Server }

// Start starts the member and serves clients. It returns before the member has found its
// cluster; see Ready. Errors say which field of the Config to change, or are those of the disk.
func Start(cfg Config) (*Server, error) {
	member, err := cfg.member()
	if err != nil {
		for _, l := range append([]net.Listener{cfg.PeerListener}, cfg.ClientListeners...) {
			if l != nil {
				l.Close()
			}
		}
		return nil, err
	}
	s, err := server.Start(member)
	if err != nil {
		return nil, err
	}
	return &Server{s}, nil
}

// Ready waits until the member has caught up with all that was committed when it was called,
// and so can serve. An error is the context's, or says that the member stops.
func (s *Server) Ready(ctx context.Context) error { return s.member.Node.Ready(ctx) }

// Handler serves by HTTP what the client listeners do: versions, health, metrics and the API in
// JSON. It is for programs that have a server of HTTP, whose limits hold then.
func (s *Server) Handler() http.Handler { return s.member.Handler() }

// ID is the member's, by which etcd's API names it.
func (s *Server) ID() uint64 { return s.member.Node.ID() }

// Leader is the ID of the member that this one believes to lead, 0 if none.
func (s *Server) Leader() uint64 {
	id, _, _ := s.member.Node.Leader()
	return id
}

// Shutdown leaves gently: leadership is handed over, clients are told to go elsewhere,
// streams end, and calls in flight are answered, while ctx lasts. Then it is as Close.
func (s *Server) Shutdown(ctx context.Context) { s.member.Shutdown(ctx) }

// Close ends serving and the member at once. It returns nil.
func (s *Server) Close() error {
	s.member.Stop()
	return nil
}
