package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/internal/cli"
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
		args := []string{name, "--id", id, "--members", group, "--data-dir", dir + "/" + id}
		if name == "broadcast" {
			args = []string{name, "--at", dir + "/" + id}
		}
		root.SetArgs(append(args, more...))
		return root.ExecuteContext(ctx)
	}
	ctx, stop := context.WithCancel(limit)
	var delivering sync.WaitGroup
	outs := [3]lockedBuffer{}
	for i := range outs {
		delivering.Go(func() {
			if err := command(ctx, &outs[i], "", "deliver", fmt.Sprint(i+1), group, [][]string{nil, {"-o", "json"}, nil}[i]...); err != nil {
				t.Error(err)
			}
		})
	}
	awaitMembers(t, dir+"/1", dir+"/2", dir+"/3")
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
	seven := make(chan error, 1)
	go func() { seven <- command(limit, io.Discard, "", "deliver", "7", alone, "--count", "2") }()
	awaitMembers(t, dir+"/7")
	if err := command(limit, &out, "", "broadcast", "7", alone, "x", "y"); err != nil {
		t.Error(err)
	}
	if err := <-seven; err != nil {
		t.Error(err)
	}
	if err := command(limit, &out, "", "deliver", "7", alone, "--from", "2", "--count", "1"); err != nil || out.String() != "1\n2\n2\ty\n" {
		t.Errorf("a group of one prints %q, %v", out.String(), err)
	}
	for _, args := range [][]string{
		{"deliver", "--id", "4", "--members", group},
		{"deliver", "--id", "1", "--members", "1"},
		{"deliver", "--id", "1", "--members", members[0] + "," + members[0]},
		{"deliver", "--id", "1", "--members", members[0]}, // in which directory?
		{"broadcast", "x"},
		{"broadcast", "--at", dir + "/9", "x"},
	} {
		root := rootCommand()
		root.SetArgs(args)
		if err := root.ExecuteContext(limit); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

// A member that has ended takes no requests: its clients have their answers before.
func TestAMemberThatHasEndedListensNoMore(t *testing.T) {
	dir := t.TempDir()
	o := memberOptions{id: 7, group: 1, members: []string{"7=" + freeAddresses(t, 1)[0]}, dir: dir}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetErr(io.Discard)
	err := o.run(cmd, func(context.Context, *broadcast.Node) error {
		c, err := net.Dial("unix", socketPath(dir))
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("unix", socketPath(dir)); err == nil {
		c.Close()
		t.Error("the member has ended, and takes requests")
	}
}

// The line of one message can be taken for no other's.
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
		{broadcast.Message{Members: map[broadcast.MemberID]string{2: "b:1", 1: "a:1"}}, "(members 1=a:1 2=b:1)", `"payload":"","members":{"1":"a:1","2":"b:1"}`},
	} {
		if got := shown(tt.m); got != tt.line {
			t.Errorf("%q is printed as %s, want %s", tt.m.Payload, got, tt.line)
		}
		if got, err := json.Marshal(cli.Listed(delivered(tt.m))); err != nil || !strings.Contains(string(got), tt.json) {
			t.Errorf("%q is %s, %v; want %s", tt.m.Payload, got, err, tt.json)
		}
	}
}

// In JSON a message says all that is known of it, and members are in order on their line.
func TestDeliveredMessagesAreWhole(t *testing.T) {
	m := broadcast.Message{Position: 5, Client: broadcast.ClientID{15: 7}, Seq: 3, Payload: []byte("x")}
	got, err := json.Marshal(delivered(m))
	if want := `{"position":5,"client":"` + m.Client.String() + `","seq":3,"payload":"eA==","text":"x"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	change, want := broadcast.Message{Members: map[broadcast.MemberID]string{}}, "(members"
	for id := range broadcast.MemberID(9) {
		change.Members[id+1] = "h"
		want += fmt.Sprintf(" %d=h", id+1)
	}
	if got := shown(change); got != want+")" {
		t.Errorf("a change is printed as %s, want %s)", got, want)
	}
}

// A message that cannot be printed is not delivered: the command fails.
func TestDeliverFailsWithItsOutput(t *testing.T) {
	limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dir := t.TempDir()
	full, w := io.Pipe()
	closed := errors.New("the disk is full")
	full.CloseWithError(closed)
	ended := make(chan error, 1)
	go func() {
		root := rootCommand()
		root.SetOut(w)
		root.SetErr(io.Discard)
		root.SetArgs([]string{"deliver", "--id", "7", "--members", "7=" + freeAddresses(t, 1)[0], "--data-dir", dir})
		ended <- root.ExecuteContext(limit)
	}()
	awaitMembers(t, dir)
	root := rootCommand()
	root.SetOut(io.Discard)
	root.SetArgs([]string{"broadcast", "--at", dir, "x"})
	if err := root.ExecuteContext(limit); err != nil {
		t.Log(err) // the member may have ended before it answered
	}
	if err := <-ended; !errors.Is(err, closed) {
		t.Errorf("deliver ends with %v, want %v", err, closed)
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
	// One that is as long as may be is a line, whatever it ends with. (bufio has buffers of 16 bytes at least.)
	long, got := strings.Repeat("x", 20), []string{}
	for line, err := range lines(t.Context(), strings.NewReader(long+"\r\n"+long+"\n"+long), 20) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(line))
	}
	if !slices.Equal(got, []string{long, long, long}) {
		t.Errorf("of lines that are just as long as may be it reads %q", got)
	}
	odd, told := errors.New("odd"), 0
	for line, err := range lines(t.Context(), iotest.ErrReader(odd), 10) {
		if told++; err != odd || len(line) > 0 || told > 1 {
			t.Errorf("an input that cannot be read says %q, %v, %d times; want its error, once", line, err, told)
			break
		}
	}
	if told == 0 {
		t.Error("an input that cannot be read has an end like any other")
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
	ports := freeAddresses(t, 3)
	one, two := "1="+ports[0], "2="+ports[1]
	dir := t.TempDir()
	command := func(ctx context.Context, out io.Writer, args ...string) error {
		root := rootCommand()
		root.SetOut(out)
		root.SetErr(io.Discard)
		root.SetArgs(args)
		return root.ExecuteContext(ctx)
	}
	first := make(chan error, 1)
	go func() {
		first <- command(limit, io.Discard, "deliver", "--id", "1", "--members", one, "--data-dir", dir+"/1")
	}()
	awaitMembers(t, dir+"/1")
	if err := command(limit, io.Discard, "broadcast", "--at", dir+"/1", "x"); err != nil {
		t.Fatal(err)
	}
	var joined lockedBuffer
	var joining sync.WaitGroup
	ctx, stop := context.WithCancel(limit)
	joining.Go(func() {
		if err := command(ctx, &joined, "deliver", "--id", "2", "--join", "--members", one+","+two, "--data-dir", dir+"/2"); err != nil {
			t.Error(err)
		}
	})
	var out bytes.Buffer
	if err := command(limit, &out, "regroup", "--at", dir+"/1", "--remove", "1", "--add", two); err != nil || out.String() != two+"\n" {
		t.Errorf("got %q, %v; want the new member alone", out.String(), err)
	}
	for strings.Count(joined.String(), "\n") < 2 && limit.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	if err := <-first; !errors.Is(err, broadcast.ErrRemoved) {
		t.Errorf("the member that was removed ends with %v, want ErrRemoved", err)
	}
	out.Reset()
	if err := command(limit, &out, "regroup", "--at", dir+"/2", "-o", "json"); err != nil || !strings.Contains(out.String(), ports[1]) {
		t.Errorf("got %q, %v; want the new member alone", out.String(), err)
	}
	three := "3=" + ports[2]
	third := make(chan error, 1)
	var inJSON lockedBuffer
	go func() {
		third <- command(limit, &inJSON, "deliver", "--id", "3", "--join", "--members", two+","+three, "--data-dir", dir+"/3", "-o", "json")
	}()
	out.Reset()
	if err := command(limit, &out, "regroup", "--at", dir+"/2", "--add", three); err != nil || out.String() != two+"\n"+three+"\n" {
		t.Errorf("when 3 is added, there are %q, %v; want 2 and 3", out.String(), err)
	}
	for !strings.Contains(inJSON.String(), three[2:]) && limit.Err() == nil { // it may print later than others answer
		time.Sleep(5 * time.Millisecond)
	}
	out.Reset()
	if err := command(limit, &out, "regroup", "--at", dir+"/2", "--remove", "3"); err != nil || out.String() != two+"\n" {
		t.Errorf("when 3 is removed, left is %q, %v; want %q", out.String(), err, two)
	}
	if err := <-third; !errors.Is(err, broadcast.ErrRemoved) {
		t.Errorf("the member that was removed ends with %v, want ErrRemoved", err)
	}
	changes := 0
	for line := range strings.Lines(inJSON.String()) {
		var m deliveredMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Position == 0 {
			t.Errorf("asked for JSON, a member prints %q, %v", line, err)
		}
		if len(m.Members) > 0 {
			changes++
		}
	}
	if changes == 0 {
		t.Errorf("a member that was added prints no change of the members: %s", inJSON.String())
	}
	for strings.Count(joined.String(), "\n") < 5 && limit.Err() == nil { // it may print later than it answers
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	joining.Wait()
	if got, want := joined.String(), fmt.Sprintf("1\tx\n2\t(members %s)\n3\t(barrier)\n4\t(members %s %s)\n5\t(members %s)\n", two, two, three, two); got != want {
		t.Errorf("the new member prints %q, want %q", got, want)
	}
}

// awaitMembers waits until members serve clients in their directories.
func awaitMembers(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			// The socket is there before anybody listens.
			if conn, err := net.Dial("unix", socketPath(dir)); err == nil {
				conn.Close()
				break
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
}

// A client that waits for a majority says so. It is no member: its messages go to the member
// whose directory it names.
func TestBroadcastWithoutAMajority(t *testing.T) {
	addrs := freeAddresses(t, 3)
	dir := t.TempDir()
	limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	command := func(ctx context.Context, errs io.Writer, args ...string) error {
		root := rootCommand()
		root.SetOut(io.Discard)
		root.SetErr(errs)
		root.SetArgs(args)
		return root.ExecuteContext(ctx)
	}
	ctx, stop := context.WithCancel(limit)
	member := make(chan error, 1)
	go func() {
		member <- command(ctx, io.Discard, "deliver", "--id", "1", "--members", fmt.Sprintf("1=%s,2=%s,3=%s", addrs[0], addrs[1], addrs[2]), "--data-dir", dir+"/1")
	}()
	awaitMembers(t, dir+"/1")
	var said lockedBuffer
	waiting, leave := context.WithCancel(limit)
	client := make(chan error, 1)
	go func() { client <- command(waiting, &said, "broadcast", "--at", dir+"/1", "x") }()
	for !strings.Contains(said.String(), "not connected with [2 3]") && limit.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	leave()
	if err := <-client; err == nil || !strings.Contains(err.Error(), "may or may not be ordered") {
		t.Errorf("a client that gave up waiting says %v, and on the way %q", err, said.String())
	}
	stop()
	if err := <-member; err != nil {
		t.Error(err)
	}
	if !strings.Contains(said.String(), "waiting: this member's directory is new") || !strings.Contains(said.String(), "not connected with [2 3]") {
		t.Errorf("a client that waits says %q, want for whom", said.String())
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
