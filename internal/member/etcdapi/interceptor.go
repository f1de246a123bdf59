package etcdapi

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// unary guards the calls that have one answer.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if isEtcdMethod(info.FullMethod) {
		requireLeader, err := s.admit(ctx, false)
		if err != nil {
			return nil, err
		}
		if leader, _, _ := s.backend.Leader(); requireLeader && leader == 0 {
			return nil, rpctypes.ErrGRPCNoLeader
		}
	}
	began := time.Now()
	ctx, r, err := s.authorize(ctx, info.FullMethod, req)
	var resp any
	if err == nil {
		resp, err = handle(ctx, req)
	}
	s.slow.done(ctx, info.FullMethod, req, err, began)
	if r.audited {
		s.audit(ctx, info.FullMethod, req, err)
	}
	if err != nil {
		return nil, err
	}
	if m, ok := large(resp); ok {
		return s.answers.admit(ctx, m)
	}
	return resp, nil
}

// stream guards the streams. They end with EndStreams, and those that require a
// leader when there is none for long.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancelCause(ss.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.streaming, func() { cancel(context.Cause(s.streaming)) })()
	if isEtcdMethod(info.FullMethod) {
		requireLeader, err := s.admit(ctx, true)
		if err != nil {
			return err
		}
		if requireLeader {
			if leader, _, _ := s.backend.Leader(); leader == 0 {
				return rpctypes.ErrGRPCNoLeader
			}
			defer s.leaderless.guard(cancel)()
		}
	}
	ctx, r, err := s.authorize(ctx, info.FullMethod, nil)
	if err == nil {
		err = handle(srv, contextStream{ss, ctx})
	}
	if r.audited {
		s.audit(ctx, info.FullMethod, nil, err)
	}
	return err
}

// isEtcdMethod reports whether a method is of an etcd service. Those of gRPC itself always answer.
func isEtcdMethod(method string) bool { return !strings.HasPrefix(method, "/grpc.") }

// admit reads the metadata that etcd's clients send, and counts the call.
func (s *Server) admit(ctx context.Context, stream bool) (requireLeader bool, err error) {
	version := noVersion
	if v := metadata.ValueFromIncomingContext(ctx, rpctypes.MetadataClientAPIVersionKey); len(v) > 0 {
		version = v[0]
	}
	if !utf8.ValidString(version) {
		return false, rpctypes.ErrGRPCInvalidClientAPIVersion
	}
	s.requests.count(version, stream)
	v := metadata.ValueFromIncomingContext(ctx, rpctypes.MetadataRequireLeaderKey)
	return len(v) > 0 && v[0] == rpctypes.MetadataHasLeader, nil
}

// contextStream is a stream that ends with a context of our own.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s contextStream) Context() context.Context { return s.ctx }

// leaderless cuts the streams it guards when there was no leader for long. It
// looks from time to time, while it guards any.
type leaderless struct {
	server *Server

	mu      sync.Mutex
	streams map[*context.CancelCauseFunc]struct{}
	timer   *time.Timer
}

// guard adds a stream, by what ends its context, and returns what removes it.
func (l *leaderless) guard(cancel context.CancelCauseFunc) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams == nil {
		l.streams = make(map[*context.CancelCauseFunc]struct{})
	}
	l.streams[&cancel] = struct{}{}
	if len(l.streams) == 1 {
		l.arm()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.streams, &cancel)
		if len(l.streams) == 0 && l.timer != nil {
			l.timer.Stop()
		}
	}
}

func (l *leaderless) arm() {
	interval := l.server.config.ElectionTimeout / 4
	if l.timer == nil {
		l.timer = time.AfterFunc(interval, l.look)
		return
	}
	l.timer.Reset(interval)
}

func (l *leaderless) look() {
	leader, _, lost := l.server.backend.Leader()
	l.mu.Lock()
	defer l.mu.Unlock()
	if leader == 0 && lost >= noLeaderTimeouts*l.server.config.ElectionTimeout {
		for cancel := range l.streams {
			(*cancel)(rpctypes.ErrGRPCNoLeader)
		}
		clear(l.streams)
	}
	if len(l.streams) > 0 {
		l.arm()
	}
}
