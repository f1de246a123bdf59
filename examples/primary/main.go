// Command primary is a service that keeps its data on several machines: one of the
// processes, the primary, takes requests and has the others, its backups, store what it
// answers. There is nothing else: the processes keep the primary's lease among themselves
// (flease), as the peers of a distributed file system keep that of each file.
//
//	for i in 1 2 3; do
//		go run ./examples/primary -first -peer 127.0.0.1:700$i -listen 127.0.0.1:800$i \
//			-peers 127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003 \
//			-replicas 127.0.0.1:8001,127.0.0.1:8002,127.0.0.1:8003 &
//	done
//	curl -L -X POST http://127.0.0.1:8002/    # counts, at any process
//	curl -L http://127.0.0.1:8001/
//
// Kill the primary with -9: when its lease has run out, another goes on counting where it
// was, without a count lost or given twice. What makes it right:
//
//   - A count is answered once a majority of the replicas stores it. A new primary asks a
//     majority first, and so finds it.
//   - Replicas are fenced: each remembers the highest token that it has seen, and refuses
//     requests under a lower one. A primary that was paused for longer than its lease gets
//     no majority any more: a majority has promised itself to the next.
//   - A process that is asked to read checks that its lease holds (Check), before and
//     after.
//
// The data are in memory: they outlive any minority of the processes, and no more. A
// process that is started anew has forgotten its data, so it must not count as one that
// stored nothing. It is a peer again only after a quarantine. As a replica it may have
// promised itself to the primary, so it first finds the primary, and then waits until the
// primary has sent it the data.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/flease"
)

// options are the command line.
type options struct {
	peer, peers, listen, replicas string
	tmax, epsilon                 time.Duration
	first                         bool
}

func main() {
	var o options
	flag.StringVar(&o.peer, "peer", "", "address of this process among the peers")
	flag.StringVar(&o.peers, "peers", "", "addresses of all peers, with commas in between")
	flag.StringVar(&o.listen, "listen", "", "address to serve at, as clients and the other replicas reach it")
	flag.StringVar(&o.replicas, "replicas", "", "addresses at which all of them serve, with commas in between")
	flag.DurationVar(&o.tmax, "t-max", 5*time.Second, "how long others wait for a primary that crashed")
	flag.DurationVar(&o.epsilon, "epsilon", 50*time.Millisecond, "by how much clocks differ at most")
	flag.BoolVar(&o.first, "first", false, "this is the first start of the service: there are no data yet")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "primary:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	leaser, err := flease.Open(ctx, flease.Config{
		Self: o.peer, Members: strings.Split(o.peers, ","), TMax: o.tmax, Epsilon: o.epsilon,
	})
	if err != nil {
		return err
	}
	defer leaser.Close() // the next primary need not wait
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	s := &Service{
		Leaser: leaser, Claim: tenure.Claim{Name: "primary", Holder: o.listen, TTL: o.tmax},
		Self: o.listen, Replicas: strings.Split(o.replicas, ","), Replica: Replica{blank: !o.first},
	}
	server := &http.Server{Handler: s.Handler(), ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	go server.Serve(listener)
	defer server.Close()
	fmt.Println("listening at", o.listen)
	if !o.first {
		go s.Rejoin(ctx)
	}
	for ctx.Err() == nil {
		err := tenure.Do(ctx, leaser, s.Claim, s.Lead)
		if err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "primary:", err)
		}
	}
	return ctx.Err()
}
