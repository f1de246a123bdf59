package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// freePorts returns addresses on which nobody listens just now.
func freePorts(t *testing.T, n int) (addrs []string) {
	t.Helper()
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs
}

func TestBroadcastAndDeliver(t *testing.T) {
	var members []string
	for i, addr := range freePorts(t, 3) {
		members = append(members, fmt.Sprintf("%d=%s", i+1, addr))
	}
	dir := t.TempDir()
	limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	group := strings.Join(members, ",")
	command := func(ctx context.Context, out io.Writer, in, name, id, group string, more ...string) error {
		root := rootCommand()
		root.SetOut(out)
		root.SetErr(io.Discard)
		root.SetIn(strings.NewReader(in))
		root.SetArgs(append([]string{name, "--id", id, "--members", group, "--data-dir", dir + "/" + id}, more...))
		return root.ExecuteContext(ctx)
	}
	// Both stay until both have all: two of three have to run.
	ctx, stop := context.WithCancel(limit)
	var delivering sync.WaitGroup
	outs := [2]lockedBuffer{}
	for i := range outs {
		delivering.Go(func() {
			if err := command(ctx, &outs[i], "", "deliver", fmt.Sprint(i+1), group, [][]string{nil, {"-o", "json"}}[i]...); err != nil {
				t.Error(err)
			}
		})
	}
	var out bytes.Buffer
	if err := command(limit, &out, "one\ntwo\nthree\n", "broadcast", "3", group); err != nil || out.String() != "1\n2\n3\n" {
		t.Errorf("broadcast: %q, %v", out.String(), err)
	}
	for i := range outs {
		for strings.Count(outs[i].String(), "\n") < 3 && limit.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
	stop()
	delivering.Wait()
	if want, got := "1\tone\n2\ttwo\n3\tthree\n", outs[0].String(); got != want {
		t.Errorf("member 1 prints %q, want %q", got, want)
	}
	var last deliveredMessage
	lines := strings.Split(strings.TrimSpace(outs[1].String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Position != 3 || last.Payload != "three" || len(lines) != 3 {
		t.Errorf("member 2 prints %q, %v", outs[1].String(), err)
	}
	alone := "7=" + freePorts(t, 1)[0]
	out.Reset()
	if err := command(limit, &out, "", "broadcast", "7", alone, "x", "y"); err != nil {
		t.Error(err)
	}
	if err := command(limit, &out, "", "deliver", "7", alone, "--from", "2", "--count", "1"); err != nil || out.String() != "1\n2\n2\ty\n" {
		t.Errorf("a group of one prints %q, %v", out.String(), err)
	}
	for _, args := range [][]string{
		{"deliver", "--id", "4", "--members", group},
		{"deliver", "--id", "1", "--members", "1"},
		{"deliver", "--id", "1", "--members", members[0] + "," + members[0]},
		{"broadcast", "--members", members[0]},
	} {
		root := rootCommand()
		root.SetArgs(args)
		if err := root.ExecuteContext(limit); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

// lockedBuffer is written to by one goroutine and read by another.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
