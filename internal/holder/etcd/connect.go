package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// errNoPassword and errNoUser are for what an etcd's client would take for nobody.
var (
	errNoPassword = errors.New("there is a user and no password: write user:password@, or the option passwordfile")
	errNoUser     = errors.New("there is a password and no user")
)

// Check refuses half of a user and its password: a client would ask as nobody, without a word.
func (cfg Config) Check() error {
	switch {
	case cfg.Username != "" && cfg.Password == "":
		return errNoPassword
	case cfg.Username == "" && cfg.Password != "":
		return errNoUser
	}
	return nil
}

// client is the configuration of the client.
func (cfg Config) client() clientv3.Config {
	return clientv3.Config{
		Endpoints: cfg.Endpoints,
		TLS:       cfg.TLS,
		Username:  cfg.Username,
		Password:  cfg.Password,
		Logger:    zap.NewNop(),
		// A connection that goes nowhere is replaced after eight seconds; etcd
		// does not allow to ask more often than each five.
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
	}
}

// Dial makes a client. With a user it logs in, for which it waits until ctx is done, but no longer than five
// seconds. Without one it sends nothing yet.
func Dial(ctx context.Context, cfg Config) (*clientv3.Client, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client := cfg.client()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	client.Context = life
	defer context.AfterFunc(ctx, end)() // the login has no context of its own
	c, err := clientv3.New(client)
	if err != nil {
		end()
	}
	return c, err
}

// connect returns a client that a server has answered.
func connect(ctx context.Context, cfg Config) (*clientv3.Client, error) {
	client, err := Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := ask(ctx, client); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// ask returns nil if a server answers. That its user may not read the key that is asked for is an answer, too.
func ask(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout/5)
	defer cancel()
	_, err := client.Get(ctx, "\x00", clientv3.WithCountOnly())
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return nil
	}
	return err
}

// reach tries until a server answers. It gives up at once when nothing listens at any of the addresses, for
// then nothing is about to answer.
func reach(ctx context.Context, cfg Config, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	where := strings.Join(cfg.Endpoints, ",")
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		refused := dial(ctx, cfg.Endpoints)
		switch {
		case ended(ctx): // then dial fails, too, even at a server that listens
			return fmt.Errorf("no answer from %s (%w): check that a majority of the servers is up, and whether they want TLS", where, err)
		case refused != nil:
			return fmt.Errorf("cannot reach %s: %w; check the address, and that the server runs", where, refused)
		case errors.Is(err, rpctypes.ErrUserEmpty):
			return fmt.Errorf("%s has users: give one, and its password: %w", where, err)
		case errors.Is(err, rpctypes.ErrAuthFailed):
			return fmt.Errorf("%s knows no user %q with this password: %w", where, cfg.Username, err)
		case !passing(err):
			return fmt.Errorf("%s answers with an error: %w", where, err)
		}
	}
}

// ended reports whether the context has ended, or is about to: where a deadline has passed, requests and
// dials fail by it, perhaps before the context's own timer has run.
func ended(ctx context.Context) bool {
	end, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(end)
}

// dial returns nil if any of the addresses takes connections.
func dial(ctx context.Context, addresses []string) error {
	var all error
	for _, a := range addresses {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", a)
		if err == nil {
			conn.Close()
			return nil
		}
		all = errors.Join(all, err)
	}
	return all
}
