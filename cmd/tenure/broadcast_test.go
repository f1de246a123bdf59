package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestBroadcastAndDeliver(t *testing.T) {
	var members []string
	for i, addr := range freeAddresses(t, 3) {
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
	alone := "7=" + freeAddresses(t, 1)[0]
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

func TestRegroup(t *testing.T) {
	limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ports := freeAddresses(t, 2)
	one, two := "1="+ports[0], "2="+ports[1]
	dir := t.TempDir()
	command := func(ctx context.Context, out io.Writer, args ...string) error {
		root := rootCommand()
		root.SetOut(out)
		root.SetErr(io.Discard)
		root.SetArgs(append(args, "--data-dir", dir+"/"+args[2]))
		return root.ExecuteContext(ctx)
	}
	if err := command(limit, io.Discard, "broadcast", "--id", "1", "--members", one, "x"); err != nil {
		t.Fatal(err)
	}
	var joined lockedBuffer
	var joining sync.WaitGroup
	ctx, stop := context.WithCancel(limit)
	joining.Go(func() {
		if err := command(ctx, &joined, "deliver", "--id", "2", "--join", "--members", one+","+two); err != nil {
			t.Error(err)
		}
	})
	var out bytes.Buffer
	if err := command(limit, &out, "regroup", "--id", "1", "--members", one, "--remove", "1", "--add", two); err != nil || out.String() != two+"\n" {
		t.Errorf("got %q, %v; want the new member alone", out.String(), err)
	}
	for strings.Count(joined.String(), "\n") < 2 && limit.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	joining.Wait()
	if got := joined.String(); got != "1\tx\n2\tmembers [2]\n" {
		t.Errorf("the new member prints %q", got)
	}
	out.Reset()
	if err := command(limit, &out, "regroup", "--id", "2", "--members", two, "-o", "json"); err != nil || !strings.Contains(out.String(), ports[1]) {
		t.Errorf("got %q, %v; want the new member alone", out.String(), err)
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
