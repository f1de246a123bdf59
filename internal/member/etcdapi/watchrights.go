package etcdapi

import (
	"context"
	"errors"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/auth"
)

// watchRights are what the watches of one stream may show (AU-17). A watch is judged when it is
// created, and all are judged anew after a change of users: before the next response, and at once where there
// is none. The caller
// of a stream is the one of its metadata, and so of all its watches.
type watchRights struct {
	server *Server
	ws     *watch.Stream
	// who created the watch that was created last, as it was recognised then.
	who atomic.Pointer[auth.Caller]
	// creating counts the watches that are judged, and not created yet.
	creating atomic.Int64

	// Of the goroutine that sends.
	judged  usersAt
	refused map[int64]bool // watches that are canceled, which the client has not been told yet
}

// usersAt is compared to learn whether users have changed. The revision alone does not say: it stays the same when
// users are put in force.
type usersAt struct {
	enabled  bool
	revision uint64
}

func at(users *auth.State) usersAt { return usersAt{users.Enabled(), users.Revision()} }

func newWatchRights(s *Server, ws *watch.Stream) *watchRights {
	return &watchRights{server: s, ws: ws, judged: at(s.backend.Users())}
}

// create creates a watch, or answers that it may not be.
func (w *watchRights) create(ctx context.Context, r *pb.WatchCreateRequest) error {
	w.creating.Add(1) // before it looks at the users
	defer w.creating.Add(-1)
	if users := w.server.backend.Users(); users.Enabled() && r.StartRevision >= 0 {
		c, err := w.server.identify(ctx)
		if err == nil {
			err = w.server.backend.Users().Permit(c, r, nil)
		}
		if err != nil {
			reason := watchRefusal(err)
			if reason == "" {
				return err
			}
			return w.ws.Refuse(ctx, reason)
		}
		w.who.Store(&c)
	}
	return w.ws.Create(ctx, r)
}

// watchRefusal is the reason, in etcd's words, for which a watch is refused; none if the error is of
// another kind.
func watchRefusal(err error) string {
	for _, e := range []struct{ err, reason error }{
		{auth.ErrInvalidToken, rpctypes.ErrGRPCInvalidAuthToken},
		{auth.ErrOldRevision, rpctypes.ErrGRPCAuthOldRevision},
		{auth.ErrUserEmpty, rpctypes.ErrGRPCUserEmpty},
		{auth.ErrDenied, rpctypes.ErrGRPCPermissionDenied},
	} {
		if errors.Is(err, e.err) {
			return e.reason.Error()
		}
	}
	return ""
}

// show reports whether a response is for the client. If users have changed since the watches were
// judged, it judges them first. The published state has the users of the response's events, or
// later ones. A watch whose creation is told is judged, too: users may have changed since it was judged.
func (w *watchRights) show(r *watch.Response) bool {
	if r.Canceled {
		delete(w.refused, r.WatchID)
		return true
	}
	w.judge()
	return r.Created || !r.Judge && !w.refused[r.WatchID]
}

// judge judges all watches, if users have changed since it did.
func (w *watchRights) judge() {
	users := w.server.backend.Users()
	now := at(users)
	if now == w.judged {
		return
	}
	creating := w.creating.Load() > 0 // of those the judgement may be older, so they are judged again
	for _, id := range w.ws.Judge(func(key, end []byte) string { return w.refusal(users, key, end) }) {
		if w.refused == nil {
			w.refused = make(map[int64]bool)
		}
		w.refused[id] = true
	}
	if !creating {
		w.judged = now
	}
}

// refusal is the reason for which a range may not be watched any more, if there is one.
func (w *watchRights) refusal(users *auth.State, key, end []byte) string {
	var c auth.Caller
	var err error
	if who := w.who.Load(); who != nil && users.Enabled() {
		c, err = users.Recognize(who.User, who.Revision)
	}
	if err == nil {
		err = users.Permit(c, &pb.WatchCreateRequest{Key: key, RangeEnd: end}, nil)
	}
	if err == nil {
		return ""
	}
	return watchRefusal(err)
}
