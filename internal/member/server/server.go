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
	"net/http"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/httpapi"
	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/metrics"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/tracing"
)

// Config describes a Server.
type Config struct {
	Node node.Config
	// API holds the limits of the API. Its ElectionTimeout and Logger are those of Node
	// unless it has its own.
	API etcdapi.Config
	// Clients are where clients connect, at least one, by gRPC and HTTP. The Server closes
	// them, also when Start fails.
	Clients []net.Listener
	// Plain are as Clients, but without TLS. The Server closes them, too.
	Plain []net.Listener
	// HTTPOnly are where clients connect by HTTP alone. If there are any, Clients serves gRPC alone. The Server
	// closes them, too.
	HTTPOnly []net.Listener
	// Metrics are where health and metrics are asked for, besides. They are served without TLS,
	// so a listener that wants it brings its own. The Server closes them, too.
	Metrics []net.Listener
	// Figures says what of the member is measured. Its Versions are those of the API.
	Figures metrics.Config
	// Tracing says where traces of calls go.
	Tracing tracing.Config
	// ClientTLS, if set, is asked of clients.
	ClientTLS *tls.Config
	// Logins says how users log in. Its zero value means etcd's defaults.
	Logins login.Config
	// HTTP is what is served by HTTP beside health, versions and metrics.
	HTTP HTTP
	// MemoryLimit is how many bytes this process may use. Near it writes and large reads are
	// refused with etcd's errors. 0 means what GOMEMLIMIT says, if anything.
	MemoryLimit int64
	// InitialCheck has the member compare its data with those of the others before it serves clients. If most
	// of them contradict it, Start fails. It waits for them for as long as a request waits.
	InitialCheck bool
	// History is what automatic compaction keeps.
	History Retention

	// strangers, handshake and compares are strangersMax, handshakePatience and the node, but for tests.
	strangers int
	handshake time.Duration
	compares  checked
}

// HTTP says what is served by HTTP.
type HTTP struct {
	// NoGateway leaves the API in JSON out.
	NoGateway bool
	// Hosts, Origins and Profiles are those of httpapi.Config.
	Hosts, Origins []string
	Profiles       bool
}

// Server is a running member.
type Server struct {
	Node    *node.Node
	api     *etcdapi.Server
	grpc    *grpc.Server
	web     *web // on the ports for clients
	plain   *web // on the ports for HTTP alone
	probes  *web // on those for metrics
	ports   []*port
	logger  *slog.Logger
	memory  *memory
	room    *room
	figures *metrics.Metrics
	traces  *tracing.Traces
	handler http.Handler
	self    *grpc.ClientConn // the gateway's
	// strangers are connections whose handshake is not done.
	strangers strangers
	cancel    context.CancelFunc
	done      sync.WaitGroup
}

// Start starts the node and serves clients. It returns before the member has
// found its cluster; see node.Node.Ready.
func Start(cfg Config) (_ *Server, err error) {
	undo := []func(){cfg.close} // if the start fails, the last first
	defer func() {
		if err != nil {
			for _, f := range slices.Backward(undo) {
				f()
			}
		}
	}()
	if len(cfg.Clients) == 0 {
		return nil, errors.New("server: no listener for clients")
	}
	users := new(usersOf)
	logins, err := login.New(users, cfg.Logins)
	if err != nil {
		return nil, err
	}
	cfg.Node.Assigned = logins.Assigned
	figures := cfg.figures()
	if cfg.Node.Synced == nil {
		cfg.Node.Synced = figures.Synced
	}
	if cfg.Node.WAL.Wrote == nil {
		cfg.Node.WAL.Wrote = figures.Wrote
	}
	if cfg.Node.Applied == nil {
		cfg.Node.Applied = figures.Applied
	}
	traces, err := tracing.Open(cfg.Tracing, cmp.Or(cfg.Node.Logger, slog.Default()))
	if err != nil {
		return nil, err
	}
	undo = append(undo, traces.Close)
	n, err := node.Start(cfg.Node)
	if err != nil {
		return nil, err
	}
	undo = append(undo, n.Stop)
	users.Node = n
	if err := cfg.compareAtStart(cmp.Or[checked](cfg.compares, n)); err != nil {
		return nil, err
	}
	s := &Server{Node: n, logger: cfg.Node.Logger, figures: figures, traces: traces}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.memory = newMemory(cfg.MemoryLimit, s.logger)
	api := cfg.api(s.memory)
	api.Logins = logins
	if err := clearBackups(api.BackupDir); err != nil {
		s.logger.Warn("remove snapshots that an earlier life did not finish", "err", err)
	}
	s.api = etcdapi.New(backend{n}, api)
	patience := cmp.Or(cfg.handshake, handshakePatience)
	opts := slices.Concat(traces.Options(), figures.Options(), s.api.Options()) // the calls that the API refuses count, too
	s.grpc = grpc.NewServer(append(opts, grpc.ConnectionTimeout(patience), grpc.Creds(introduction{}))...)
	undo = append(undo, s.grpc.Stop)
	s.api.Register(s.grpc)
	s.strangers.most = cmp.Or(cfg.strangers, strangersMax)
	told := httpapi.Config{
		Member: s.api, Observer: figures, Metrics: figures.Handler(), Logger: s.logger,
		Users:  func() bool { return api.CertificateUsers && n.Users().Enabled() },
		Limits: cfg.gatewayLimits(s.memory), Hosts: cfg.HTTP.Hosts, Origins: cfg.HTTP.Origins, Profiles: cfg.HTTP.Profiles,
	}
	inside, err := s.gateway(cfg.HTTP, &told)
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { s.self.Close() })
	if err := figures.Add(source{n, s, api.QuotaBytes}, s.grpc.GetServiceInfo()); err != nil {
		return nil, err
	}
	s.web = newWeb(s.handler, s.grpc, patience, cfg.API.MaxConcurrentStreams, s.logger)
	s.plain = newWeb(s.handler, nil, patience, cfg.API.MaxConcurrentStreams, s.logger)
	s.probes = newWeb(httpapi.Probes(told), nil, patience, cfg.API.MaxConcurrentStreams, s.logger)
	s.room = &room{size: func() int64 { return n.Stats().Bytes }, quota: api.QuotaBytes, raise: s.api.RaiseNoSpace}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.done.Go(func() { s.memory.run(ctx) })
	s.done.Go(func() { s.room.run(ctx, s.memory) })
	s.done.Go(func() {
		(&compactor{node: n, keep: cfg.History}).run(ctx, func(err error) {
			s.logger.Warn("automatic compaction", "err", err)
		})
	})
	calls := newLane()
	refused := &refusals{logger: s.logger}
	clients := func(tls *tls.Config) *port {
		p := &port{
			tls: negotiating(tls), strangers: &s.strangers, refused: refused, patience: patience, firstCall: firstCall,
			streams: cfg.API.MaxConcurrentStreams, grpc: calls, http: s.web.lane,
		}
		if len(cfg.HTTPOnly) > 0 {
			p.http = nil
		}
		return p
	}
	s.open(cfg.Clients, clients(cfg.ClientTLS))
	s.open(cfg.Plain, clients(nil))
	s.open(cfg.HTTPOnly, &port{tls: negotiating(cfg.ClientTLS), strangers: &s.strangers, refused: refused, patience: patience, http: s.plain.lane})
	s.open(cfg.Metrics, &port{strangers: &s.strangers, refused: refused, patience: patience, http: s.probes.lane})
	for _, serve := range []func() error{
		func() error { return s.grpc.Serve(calls) }, func() error { return s.grpc.Serve(inside) }, s.web.serve, s.plain.serve, s.probes.serve,
	} {
		s.done.Go(func() {
			if err := serve(); err != nil && !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, net.ErrClosed) {
				s.logger.Error("serving clients ended", "err", err)
			}
		})
	}
	return s, nil
}

// open has a port take the connections of some listeners in.
func (s *Server) open(listeners []net.Listener, p *port) {
	s.ports = append(s.ports, p)
	for _, l := range listeners {
		s.done.Go(func() {
			if err := p.serve(l); err != nil {
				s.logger.Error("serving clients ended", "at", l.Addr(), "err", err)
			}
		})
	}
}

// close closes the listeners of a member that is not started.
func (cfg Config) close() {
	for _, l := range slices.Concat(cfg.Clients, cfg.Plain, cfg.HTTPOnly, cfg.Metrics) {
		l.Close()
	}
	if cfg.Node.PeerListener != nil {
		cfg.Node.PeerListener.Close()
	}
}

// figures returns the metrics of a member that is to be started.
func (cfg Config) figures() *metrics.Metrics {
	of := cfg.Figures
	of.Versions = etcdapi.Versions()
	return metrics.New(of)
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
	api.QuotaBytes = quotaOf(cfg.API.QuotaBytes, m.limit)
	if cfg.API.QuotaBytes > api.QuotaBytes {
		m.logger.Warn("the quota is more than the memory of this member has room for", "quota", cfg.API.QuotaBytes, "holds", api.QuotaBytes)
	}
	if api.AnswerBytes == 0 && m.limit > 0 {
		api.AnswerBytes = answerRoom(m.limit)
	}
	return api
}

// Shutdown leaves gently: leadership is handed over, clients are told to go
// elsewhere, streams end, and calls in flight are answered, while ctx lasts. Then
// it is as Stop. Health and metrics are served until the end.
func (s *Server) Shutdown(ctx context.Context) {
	s.api.Shutdown()
	if err := s.Node.HandOver(ctx); err != nil {
		s.logger.Warn("leadership was not handed over", "err", err)
	}
	s.api.EndStreams()
	for _, p := range s.ports[:3] { // those for clients, and not that for metrics
		p.end()
	}
	var ends sync.WaitGroup
	ends.Go(s.grpc.GracefulStop)
	ends.Go(func() { s.web.server.Shutdown(ctx) })
	ends.Go(func() { s.plain.server.Shutdown(ctx) })
	ended := make(chan struct{})
	go func() {
		ends.Wait()
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
	for _, p := range s.ports {
		p.end()
	}
	s.grpc.Stop()
	s.web.end()
	s.plain.end()
	s.probes.end()
	s.self.Close()
	s.Node.Stop()
	s.figures.Remove()
	s.done.Wait()
	s.traces.Close()
}

// usersOf is where logins look for users: the node, as soon as there is one. Nobody logs in before.
type usersOf struct{ *node.Node }

// backend makes a node an etcdapi.Backend.
type backend struct{ *node.Node }

var _ etcdapi.Backend = backend{}

// Status is what Maintenance.Status asks for.
func (b backend) Status() etcdapi.Status { return statusOf(b.Node) }

// ReadLeases is what this member knows of read leases.
func (b backend) ReadLeases() (etcdapi.ReadLeaseStatus, error) { return readLeasesOf(b.Node) }
