package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	command := func(name, id string, in string, more ...string) (string, error) {
		var out bytes.Buffer
		root := rootCommand()
		root.SetOut(&out)
		root.SetIn(strings.NewReader(in))
		root.SetArgs(append([]string{name, "--id", id, "--members", strings.Join(members, ","), "--data-dir", dir + "/" + id}, more...))
		err := root.ExecuteContext(ctx)
		return out.String(), err
	}
	var delivering sync.WaitGroup
	outs := make([]string, 2)
	for i := range outs {
		delivering.Go(func() {
			var err error
			more := []string{"--count", "3"}
			if i == 1 {
				more = append(more, "-o", "json")
			}
			if outs[i], err = command("deliver", fmt.Sprint(i+1), "", more...); err != nil {
				t.Error(err)
			}
		})
	}
	if out, err := command("broadcast", "3", "one\ntwo\nthree\n"); err != nil || out != "1\n2\n3\n" {
		t.Errorf("broadcast: %q, %v", out, err)
	}
	delivering.Wait()
	if want := "1\tone\n2\ttwo\n3\tthree\n"; outs[0] != want {
		t.Errorf("member 1 prints %q, want %q", outs[0], want)
	}
	var last deliveredMessage
	lines := strings.Split(strings.TrimSpace(outs[1]), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Position != 3 || last.Payload != "three" || len(lines) != 3 {
		t.Errorf("member 2 prints %q, %v", outs[1], err)
	}
	for _, args := range [][]string{
		{"deliver", "--id", "4", "--members", strings.Join(members, ",")},
		{"deliver", "--id", "1", "--members", "1"},
		{"deliver", "--id", "1", "--members", members[0] + "," + members[0]},
		{"broadcast", "--members", members[0]},
	} {
		root := rootCommand()
		root.SetArgs(args)
		if err := root.ExecuteContext(ctx); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
