// Command counter is a counter that survives the death of any one of three processes,
// with nothing else installed: each keeps the whole of it, and applies the same changes in
// the same order.
//
//	M=1=localhost:7001,2=localhost:7002,3=localhost:7003
//	go run ./examples/counter -id 1 -members $M -http :8001 -dir /tmp/counter1 &
//	go run ./examples/counter -id 2 -members $M -http :8002 -dir /tmp/counter2 &
//	go run ./examples/counter -id 3 -members $M -http :8003 -dir /tmp/counter3 &
//	curl -X POST localhost:8001/add?n=5     # 5
//	curl -X POST localhost:8002/add?n=2     # 7
//	curl localhost:8003/                    # 7
//
// Kill one, with -9, and go on with the others; start it again and it has what it missed.
//
// An addition is a message of package broadcast. Each process that delivers it applies it
// at its position, once. The process that broadcast it waits for that and answers. A read
// waits for a barrier, so that it shows all that was answered before. Now and then a
// snapshot is made, and the messages before it are trimmed: the disk stays empty, and a
// member that was away for long gets the snapshot in place of the messages.
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
	"strconv"
	"strings"
	"syscall"

	"github.com/tenure-lease/tenure/broadcast"
)

func main() {
	id := flag.Uint64("id", 0, "which of the members this is")
	members := flag.String("members", "", "all members, this one included, as ID=HOST:PORT,…")
	addr := flag.String("http", ":8001", "where to serve")
	dir := flag.String("dir", "", "directory of this member")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, broadcast.MemberID(*id), *members, *addr, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, id broadcast.MemberID, members, addr, dir string) error {
	cfg, err := config(id, members, dir)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", cfg.Members[id])
	if err != nil {
		return err
	}
	cfg.Listener = ln
	c, err := newCounter(cfg)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: addr, Handler: c}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err = server.ListenAndServe(); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, c.close())
}

// config checks what the flags say.
func config(id broadcast.MemberID, members, dir string) (broadcast.Config, error) {
	const example = "for example: counter -id 1 -members 1=localhost:7001,2=localhost:7002,3=localhost:7003 -dir /tmp/counter1"
	cfg := broadcast.Config{ID: id, Group: 1, DataDir: dir, Members: map[broadcast.MemberID]string{}}
	for m := range strings.SplitSeq(members, ",") {
		number, at, _ := strings.Cut(m, "=")
		n, err := strconv.ParseUint(number, 10, 64)
		if _, _, split := net.SplitHostPort(at); err != nil || split != nil || cfg.Members[broadcast.MemberID(n)] != "" {
			return cfg, fmt.Errorf("-members %q: want ID=HOST:PORT of each, once; %s", members, example)
		}
		cfg.Members[broadcast.MemberID(n)] = at
	}
	switch {
	case cfg.Members[id] == "":
		return cfg, fmt.Errorf("-id %d is not one of -members %s; %s", id, members, example)
	case dir == "":
		return cfg, fmt.Errorf("-dir is missing: the directory of this member's memory; %s", example)
	}
	return cfg, nil
}
