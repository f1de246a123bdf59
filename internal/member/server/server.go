// Package server is a member with its face: a node.Node and etcd's gRPC API in
// front of it, in one process. `tenure serve` is this package with flags; the
// public package server is a shell over it, with types of its own.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
)

// Config describes a Server.
type Config struct {
	Node node.Config
	// API holds the limits of the API. Its ElectionTimeout and Logger are those of Node
	// unless it has its own.
	API etcdapi.Config
	// Clients are where clients connect, at least one. The Server closes them,
	// also when Start fails.
	Clients []net.Listener
	// ClientTLS, if set, is asked of clients.
	ClientTLS *tls.Config
	// MemoryLimit is how many bytes this process may use. Near it writes and large reads are
	// refused with etcd's errors. 0 means what GOMEMLIMIT says, if anything.
	MemoryLimit int64
	// History is what automatic compaction keeps.
	History Retention

	// strangers and handshake are strangersMax and handshakePatience, but for tests.
	strangers int
	handshake time.Duration
}

// Server is a running member.
type Server struct {
	Node   *node.Node
	api    *etcdapi.Server
	grpc   *grpc.Server
	logger *slog.Logger
	memory *memory
	// strangers are connections whose TLS handshake is not done.
	strangers strangers
	cancel    context.CancelFunc
	done      sync.WaitGroup
}

// Start starts the node and serves clients. It returns before the member has
// found its cluster; see node.Node.Ready.
func Start(cfg Config) (*Server, error) {
	if len(cfg.Clients) == 0 {
		if cfg.Node.PeerListener != nil {
			cfg.Node.PeerListener.Close()
		}
		return nil, errors.New("server: no listener for clients")
	}
	n, err := node.Start(cfg.Node)
	if err != nil {
		for _, l := range cfg.Clients {
			l.Close()
		}
		return nil, err
	}
	s := &Server{Node: n, logger: cfg.Node.Logger}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.memory = newMemory(cfg.MemoryLimit, s.logger)
	api := cfg.api(s.memory)
	if err := clearBackups(api.BackupDir); err != nil {
		s.logger.Warn("remove snapshots that an earlier life did not finish", "err", err)
	}
	s.api = etcdapi.New(backend{n}, api)
	opts := append(s.api.Options(), grpc.ConnectionTimeout(cmp.Or(cfg.handshake, handshakePatience)))
	s.strangers.most = cmp.Or(cfg.strangers, strangersMax)
	if cfg.ClientTLS != nil {
		opts = append(opts, grpc.Creds(&introduction{credentials.NewTLS(cfg.ClientTLS), &s.strangers}))
	}
	s.grpc = grpc.NewServer(opts...)
	s.api.Register(s.grpc)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.done.Go(func() { s.memory.run(ctx) })
	s.done.Go(func() {
		(&compactor{node: n, keep: cfg.History}).run(ctx, func(err error) {
			s.logger.Warn("automatic compaction", "err", err)
		})
	})
	for _, l := range cfg.Clients {
		if cfg.ClientTLS != nil {
			l = &door{l, &s.strangers}
		}
		s.done.Go(func() {
			if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				s.logger.Error("serving clients ended", "at", l.Addr(), "err", err)
			}
		})
	}
	return s, nil
}

// api returns the configuration of the API: fields that its own part leaves open follow from
// the member's.
func (cfg Config) api(m *memory) etcdapi.Config {
	api := cfg.API
	if api.ElectionTimeout == 0 {
		api.ElectionTimeout = cfg.Node.ElectionTimeout
	}
	if api.Logger == nil {
		api.Logger = cfg.Node.Logger
	}
	if api.Short == nil {
		api.Short = m.short.Load
	}
	if api.BackupDir == "" && cfg.Node.WAL.FS == nil {
		api.BackupDir = cfg.Node.DataDir
	}
	if api.AnswerBytes == 0 && m.limit > 0 {
		api.AnswerBytes = answerRoom(m.limit)
	}
	return api
}

// Shutdown leaves gently: leadership is handed over, clients are told to go
// elsewhere, streams end, and calls in flight are answered, while ctx lasts. Then
// it is as Stop.
func (s *Server) Shutdown(ctx context.Context) {
	s.api.Shutdown()
	if err := s.Node.HandOver(ctx); err != nil {
		s.logger.Warn("leadership was not handed over", "err", err)
	}
	s.api.EndStreams()
	ended := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	s.Stop()
	<-ended
}

// Stop ends serving and the node at once.
func (s *Server) Stop() {
	s.cancel()
	s.grpc.Stop()
	s.Node.Stop()
	s.done.Wait()
}

// backend makes a node an etcdapi.Backend.
type backend struct{ *node.Node }

var _ etcdapi.Backend = backend{}

// Status is what Maintenance.Status asks for.
func (b backend) Status() etcdapi.Status { return statusOf(b.Node) }

// ReadLeases is what this member knows of read leases.
func (b backend) ReadLeases() (etcdapi.ReadLeaseStatus, error) { return readLeasesOf(b.Node) }
