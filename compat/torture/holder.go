package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// claim is a line that a holder process prints: at this time it found its lease
// of the lock valid.
type claim struct {
	Lock  string
	Token int64         // create revision of the lock's key
	At    time.Duration // by now()
}

const (
	holderTTL = 3 // seconds, above the least that a server grants
	lockRoot  = "lock/"
	locks     = 2
)

// holderConfig is what a holder process is told.
type holderConfig struct {
	Name      string
	Endpoints []string
	Seed      uint64
	Naive     bool // holds for as long as it likes, without a look at its deadline: to be found out
}

// hold takes locks, claims them while it may, and gives them back, until ctx
// ends. It writes a claim at least every 10 ms of holding.
//
// It renews its lease by the client's rule: the lease is valid until its TTL after the last
// renewal that succeeded was sent, and a lost lease stays lost.
func hold(ctx context.Context, cfg holderConfig, out io.Writer) error {
	random := rand.New(rand.NewPCG(cfg.Seed, 0))
	cli, err := server.Client(cfg.Endpoints...)
	if err != nil {
		return err
	}
	defer cli.Close()
	claims := json.NewEncoder(out)
	for ctx.Err() == nil {
		key := fmt.Sprintf("%s%d", lockRoot, random.IntN(locks))
		if err := holdOnce(ctx, cli, cfg, key, random, claims); err != nil && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond) // the cluster is being tortured
		}
	}
	return nil
}

func holdOnce(ctx context.Context, cli *clientv3.Client, cfg holderConfig, key string, random *rand.Rand, claims *json.Encoder) error {
	var deadline atomic.Int64
	renewed := func(sent time.Duration) { deadline.Store(int64(sent + holderTTL*time.Second)) }

	sent := now()
	lease, err := grant(ctx, cli)
	if err != nil {
		return err
	}
	renewed(sent)
	ctx, stop := context.WithCancel(ctx)
	renewer := make(chan struct{})
	go func() {
		defer close(renewer)
		renew(ctx, cli, lease, sent, renewed)
	}()
	defer func() { stop(); <-renewer }()
	if random.IntN(4) > 0 { // else the lease is left to expire
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			cli.Revoke(ctx, lease) // best effort: it expires anyhow
		}()
	}

	token := int64(0)
	for token == 0 {
		if now() >= time.Duration(deadline.Load()) {
			return nil
		}
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		r, err := cli.Txn(try).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, cfg.Name, clientv3.WithLease(lease))).Commit()
		cancel()
		if err != nil {
			return err // the lock may be ours, but nothing says so: let it expire
		}
		if r.Succeeded {
			token = r.Header.Revision
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	// As many claims as it likes: one that was stopped goes on with the rest.
	for range 20 + random.IntN(200) {
		at := now()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if at >= time.Duration(deadline.Load()) && !cfg.Naive {
			return nil
		}
		if err := claims.Encode(claim{Lock: key, Token: token, At: at}); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// Holder is the main function of a holder process. It ends with its parent, of
// whom its standard input is a pipe.
func Holder() error {
	var cfg holderConfig
	if err := json.Unmarshal([]byte(os.Getenv(HolderVariable)), &cfg); err != nil {
		return fmt.Errorf("read %s: %w", HolderVariable, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return hold(ctx, cfg, os.Stdout)
}

func grant(ctx context.Context, cli *clientv3.Client) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	lease, err := cli.Grant(ctx, holderTTL)
	if err != nil {
		return 0, err
	}
	return lease.ID, nil
}

// renew renews a lease every third of its TTL, more often after a failure,
// until ctx ends or the lease is lost. It tells when each successful renewal
// was sent, but never of one that came after the deadline of those before; last
// is when the grant was sent.
func renew(ctx context.Context, cli *clientv3.Client, lease clientv3.LeaseID, last time.Duration, renewed func(sent time.Duration)) {
	wait := time.Second * holderTTL / 3
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		sent := now()
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := cli.KeepAliveOnce(try, lease)
		cancel()
		switch {
		case now() >= last+holderTTL*time.Second:
			return // lost, whatever the server says
		case err == nil:
			last, wait = sent, time.Second*holderTTL/3
			renewed(sent)
		default:
			wait = 100 * time.Millisecond
		}
	}
}
