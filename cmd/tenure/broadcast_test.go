package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/machine"
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
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Position != 3 || string(last.Payload) != "three" || last.Text == nil || *last.Text != "three" || len(lines) != 3 {
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

// What is printed of a message can be taken for no other's.
func TestShownMessages(t *testing.T) {
	for _, tt := range []struct {
		m          broadcast.Message
		line, json string
	}{
		{broadcast.Message{Payload: []byte("größe 5 kB")}, "größe 5 kB", `"payload":"Z3LDtsOfZSA1IGtC","text":"größe 5 kB"`},
		{broadcast.Message{Payload: []byte("a\n7\tb")}, `"a\n7\tb"`, `"payload":"YQo3CWI=","text":"a\n7\tb"`},
		{broadcast.Message{Payload: []byte{0xff, 0}}, `"\xff\x00"`, `"payload":"/wA="`},
		{broadcast.Message{Payload: []byte("\u202e")}, `"\u202e"`, `"payload":"4oCu"`},
		{broadcast.Message{Payload: []byte(`"x"`)}, `"\"x\""`, `"payload":"Ingi"`},
		{broadcast.Message{Payload: []byte(`{"x": 1}`)}, `{"x": 1}`, `"payload":"eyJ4IjogMX0="`},
		{broadcast.Message{Payload: []byte("(barrier)")}, `"(barrier)"`, `"payload":"KGJhcnJpZXIp"`},
		{broadcast.Message{Payload: []byte{}}, "(barrier)", `"payload":"","text":""`},
		{broadcast.Message{Members: map[machine.NodeID]string{2: "b:1", 1: "a:1"}}, "(members 1=a:1 2=b:1)", `"payload":null,"members":{"1":"a:1","2":"b:1"}`},
	} {
		if got := shown(tt.m); got != tt.line {
			t.Errorf("%q is printed as %s, want %s", tt.m.Payload, got, tt.line)
		}
		if got, err := json.Marshal(delivered(tt.m)); err != nil || !strings.Contains(string(got), tt.json) {
			t.Errorf("%q is %s, %v; want %s", tt.m.Payload, got, err, tt.json)
		}
	}
}

func TestLines(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "[]",
		"a\n\nb":                 "[a  b]",
		"a\r\n1234567890\r\nb\n": "[a 1234567890 b]",
		"12345678901\n":          "[12345678901]", // which is too long
		"12345678901234\nb":      "[12345678901 too long]",
	} {
		got := []string{}
		for line, err := range lines(t.Context(), strings.NewReader(in), 10) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, string(line)); len(line) > 11 {
				got = append(got[:len(got)-1], string(line[:11]), "too long")
				break
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: got %q, want %s", in, got, want)
		}
	}
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	defer cancel(nil)
	go io.WriteString(w, "a\n")
	var last error
	for line, err := range lines(ctx, r, 10) {
		if last = err; err == nil && string(line) != "a" {
			t.Errorf("got %q, want a", line)
		}
		cancel(stop)
	}
	if last != stop {
		t.Errorf("got %v while it waited for a line, want %v", last, stop)
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
	if got := joined.String(); got != fmt.Sprintf("1\tx\n2\t(members %s)\n", two) {
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
