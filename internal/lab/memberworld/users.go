package memberworld

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// root is the user that everybody is in a world with users, but for those whose rights come and go.
const root = "root"

// a credential is a client's user, whose password is its name, and the token that it has.
type credential struct {
	user string

	mu    sync.Mutex
	token string
}

// stale reports whether an error says that another token is wanted: members forget tokens when they start again.
func stale(err error) bool {
	switch rpctypes.ErrorDesc(err) {
	case rpctypes.ErrorDesc(rpctypes.ErrGRPCInvalidAuthToken), rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthOldRevision), rpctypes.ErrorDesc(rpctypes.ErrGRPCUserEmpty):
		return true
	}
	return false
}

// with adds the token to a call, and logs in if there is none. Before users are in force there is nothing to log in to.
func (k *credential) with(ctx context.Context, cc *grpc.ClientConn) (context.Context, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.token == "" {
		resp, err := pb.NewAuthClient(cc).Authenticate(ctx, &pb.AuthenticateRequest{Name: k.user, Password: k.user})
		if err != nil && rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthNotEnabled) {
			return ctx, nil
		}
		if err != nil {
			return nil, err
		}
		k.token = resp.Token
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, k.token), nil
}

func (k *credential) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.token = ""
}

const authenticate = "/etcdserverpb.Auth/Authenticate"

// unary makes a call with a token, and once more with another if that one is not taken: such a call has done nothing.
func (k *credential) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == authenticate {
		return call(ctx, method, req, reply, cc, opts...)
	}
	for tries := 0; ; tries++ {
		with, err := k.with(ctx, cc)
		if err != nil {
			return err
		}
		if err = call(with, method, req, reply, cc, opts...); tries == 5 || !stale(err) {
			return err
		}
		k.drop()
	}
}

// stream begins a stream with a token. One that it takes for stale is not used for the next.
func (k *credential) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	with, err := k.with(ctx, cc)
	if err != nil {
		return nil, err
	}
	s, err := begin(with, desc, cc, method, opts...)
	return &userStream{s, k}, err
}

type userStream struct {
	grpc.ClientStream
	of *credential
}

func (s *userStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	reason := ""
	if r, ok := m.(*pb.WatchResponse); ok && r.Canceled {
		reason = r.CancelReason
	}
	if stale(err) || strings.Contains(reason, "auth token") || strings.Contains(reason, "user name is empty") {
		s.of.drop()
	}
	return err
}

// as are the options of a client that is a user.
func as(user string) []grpc.DialOption {
	k := &credential{user: user}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(k.unary), grpc.WithChainStreamInterceptor(k.stream)}
}

// users whose rights come and go, each with a role of its name.
var users = []string{"u0", "u1"}

// enableUsers has users in force: root, and those whose rights come and go.
func (c *cluster) enableUsers() {
	cl := c.client("users")
	defer cl.Close()
	do := func(step func(context.Context) error) {
		c.until(cl, func(ctx context.Context) (bool, error) {
			err := step(ctx)
			if err != nil && strings.Contains(err.Error(), "already") {
				err = nil // an earlier try was lost on its way back
			}
			return true, err
		})
	}
	for _, user := range append([]string{root}, users...) {
		do(func(ctx context.Context) error { _, err := cl.UserAdd(ctx, user, user); return err })
		do(func(ctx context.Context) error { _, err := cl.RoleAdd(ctx, user); return err })
		do(func(ctx context.Context) error { _, err := cl.UserGrantRole(ctx, user, user); return err })
	}
	do(func(ctx context.Context) error { _, err := cl.AuthEnable(ctx); return err })
	if c.over() {
		return
	}
	c.w.Count("worlds whose users are in force", 1)
	close(c.inForce)
}

// grantor gives a user the right to a new key and takes it away, again and again.
func (c *cluster) grantor(user string) {
	select {
	case <-c.inForce:
	case <-c.gone:
		return
	}
	cl := c.client("grantor of " + user)
	defer cl.Close()
	r := c.w.Rand("grants to " + user)
	for number := 0; !c.resting(); number++ {
		g := &right{user: user, key: fmt.Sprintf("r/%s/%d", user, number), asked: c.w.Elapsed()}
		c.rights.add(g)
		try := func(note func(at time.Duration), step func(context.Context) error) {
			c.until(cl, func(ctx context.Context) (bool, error) {
				err := step(ctx)
				switch {
				case err == nil, strings.Contains(err.Error(), "permission is not granted"):
					c.rights.note(func() { note(c.w.Elapsed()) })
					return true, nil
				default:
					c.rights.note(func() { g.lost++ })
					return true, err
				}
			})
		}
		try(func(at time.Duration) { g.granted, g.lostGrant = at, g.lost > 0 }, func(ctx context.Context) error {
			_, err := cl.RoleGrantPermission(ctx, user, g.key, "", clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		})
		c.w.Count("rights granted", 1)
		c.pause(time.Duration(r.Int64N(int64(3 * time.Second))))
		if c.resting() {
			return
		}
		c.rights.note(func() { g.revoking = c.w.Elapsed() })
		try(func(at time.Duration) { g.revoked = at }, func(ctx context.Context) error {
			_, err := cl.RoleRevokePermission(ctx, user, g.key, "")
			return err
		})
		c.w.Count("rights revoked", 1)
		c.pause(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
	}
}

// useRights has a user call with the newest right, or with one that it had.
func (c *cluster) useRights(user string, number int) {
	select {
	case <-c.inForce:
	case <-c.gone:
		return
	}
	name := fmt.Sprintf("%s-%d", user, number)
	r := c.w.Rand("client " + name)
	of := c.hosts
	if number > 0 {
		of = of[r.IntN(c.spec.Members):][:1]
	}
	cl := c.clientAs(user, name, of...)
	defer cl.Close()
	for !c.resting() {
		if g := c.rights.draw(user, r.IntN(3)); g != nil {
			u := use{of: g, kind: []string{"put", "get", "txn"}[r.IntN(3)], began: c.w.Elapsed()}
			ctx, cancel := within(4 * time.Second)
			var err error
			switch u.kind {
			case "put":
				_, err = cl.Put(ctx, g.key, name)
			case "get":
				_, err = cl.Get(ctx, g.key)
			case "txn":
				_, err = cl.Txn(ctx).Then(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(g.key, name)}, nil)).Commit()
			}
			cancel()
			u.ended, u.done = c.w.Elapsed(), err == nil
			u.denied = rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCPermissionDenied) || err != nil && strings.Contains(err.Error(), "permission denied")
			c.rights.used(u)
			if u.denied {
				c.w.Count("calls denied", 1)
			}
		}
		c.pause(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
	}
}
