package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// memberOf answers clients in a directory as the test says, until that ends.
func memberOf(t *testing.T, answer http.HandlerFunc) (dir string) {
	t.Helper()
	dir = t.TempDir()
	l, err := net.Listen("unix", socketPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: answer}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	return dir
}

// A client asks a busy member again, with the same words. Any other answer of a member ends the request
// with an exit code of its kind, and a signal that ends it is known as the cause.
func TestWhatAClientMakesOfAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		exit   int // 0: success; cli.ExitFailure: an error without a code
		says   string
	}{
		"it is ordered":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "7") }, 0, ""},
		"too long":       {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusRequestEntityTooLarge) }, cli.ExitFailure, "the message is too large"},
		"it was removed": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broadcast: removed", http.StatusConflict) }, cli.ExitFailure, "broadcast: removed"},
		"it ends":        {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, cli.ExitUnavailable, "ended, and the message may or may not be ordered"},
	} {
		asked, busy := 0, 2
		dir := memberOf(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if asked++; err != nil || r.Method != "POST" || r.URL.Path != "/broadcast" || string(body) != "words" {
				t.Errorf("%s: request %d is %s %s %q, %v", name, asked, r.Method, r.URL.Path, body, err)
			}
			if asked <= busy {
				http.Error(w, "busy", http.StatusTooManyRequests)
				return
			}
			tt.answer(w, r)
		})
		c := newMemberClient(dir)
		var position broadcast.Position
		err := c.ask(t.Context(), "POST", "/broadcast", "words", &position)
		c.close()
		var exit cli.ExitError
		switch {
		case tt.exit == 0:
			if err != nil || position != 7 || asked != busy+1 {
				t.Errorf("%s: position %d, %v, after %d requests; want 7 after 3", name, position, err, asked)
			}
		case tt.exit == cli.ExitFailure:
			if err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v, want %q and no exit code of its own", name, err, tt.says)
			}
		default:
			if wantExit(t, err, tt.exit); err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v, want %q", name, err, tt.says)
			}
		}
	}
	bubble.Test(t, func(t *testing.T) {
		err := newMemberClient(t.TempDir()).ask(t.Context(), "POST", "/broadcast", "x", new(any))
		if wantExit(t, err, cli.ExitUnavailable); err != nil && !strings.Contains(err.Error(), "no member runs in the directory") {
			t.Errorf("without a member: %v", err)
		}
	})
	for name, answer := range map[string]http.HandlerFunc{
		"it is busy": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusTooManyRequests) },
		"it waits":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		dir := memberOf(t, func(w http.ResponseWriter, r *http.Request) {
			cancel(cli.Interrupt(syscall.SIGTERM))
			_, _ = io.ReadAll(r.Body)
			answer(w, r)
		})
		c := newMemberClient(dir)
		err := cli.Interrupted(c.ask(ctx, "POST", "/broadcast", "words", new(any)))
		if wantExit(t, err, cli.ExitSignal+int(syscall.SIGTERM)); err != nil && strings.Contains(err.Error(), "ended") {
			t.Errorf("a signal has ended a request, and told is %v: the member lives", err)
		}
		if c.close(); t.Failed() {
			t.Fatalf("a signal has ended a request while %s", name)
		}
	}
}

// An error names the message of the command line, or the line, that it is about, and nothing behind it
// is sent.
func TestBroadcastCountsFromOne(t *testing.T) {
	sent := 0
	dir := memberOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if sent++; string(body) == "bad" {
			http.Error(w, "odd", http.StatusConflict)
			return
		}
		fmt.Fprint(w, sent)
	})
	for in, args := range map[string][]string{"message 2: odd": {"good", "bad", "good"}, "line 2: odd": nil} {
		sent = 0
		var out strings.Builder
		root := rootCommand()
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetIn(strings.NewReader("good\nbad\ngood\n"))
		root.SetArgs(append([]string{"broadcast", "--at", dir}, args...))
		if err := root.Execute(); err == nil || err.Error() != in || out.String() != "1\n" || sent != 2 {
			t.Errorf("%q: %v, printed %q, sent %d; want %q, the first position, and 2", args, err, &out, sent, in)
		}
	}
}

// errFull is the error of an output that takes nothing.
var errFull = errors.New("the disk is full")

// Lines of the input are messages only if the command line has none. One may be as long as a message may be, whatever
// it ends with. A position that cannot be printed is a failure.
func TestWhatIsBroadcast(t *testing.T) {
	long := strings.Repeat("x", broadcast.MaxMessageBytes)
	for name, tt := range map[string]struct {
		args []string
		in   string
		want []string
	}{
		"of the command line": {[]string{"one", "two"}, "three\n", []string{"one", "two"}},
		"lines":               {nil, "one\n\ntwo", []string{"one", "", "two"}},
		"a line that is long": {nil, long + "\r\nnext\n", []string{long, "next"}},
		"nothing":             {nil, "", nil},
		"an empty word":       {[]string{""}, "three\n", []string{""}},
	} {
		var sent []string
		dir := memberOf(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent = append(sent, string(body))
			fmt.Fprint(w, len(sent))
		})
		root := rootCommand()
		root.SetOut(io.Discard)
		root.SetIn(strings.NewReader(tt.in))
		root.SetArgs(append([]string{"broadcast", "--at", dir}, tt.args...))
		if err := root.Execute(); err != nil || !slices.Equal(sent, tt.want) {
			t.Errorf("%s: %d messages are sent, %v; want %d", name, len(sent), err, len(tt.want))
		}
		full, w := io.Pipe()
		full.CloseWithError(errFull)
		root = rootCommand()
		root.SetOut(w)
		root.SetIn(strings.NewReader(tt.in))
		root.SetArgs(append([]string{"broadcast", "--at", dir}, tt.args...))
		if err := root.Execute(); len(tt.want) > 0 && !errors.Is(err, errFull) {
			t.Errorf("%s: its position cannot be printed, and it ends with %v, want %v", name, err, errFull)
		}
	}
}

// The flags of a member reach it, and members that make no sense are refused.
func TestMemberFlagsReachTheirEnds(t *testing.T) {
	cmd := &cobra.Command{}
	var o memberOptions
	o.flags(cmd)
	if err := cmd.Flags().Parse([]string{"--id", "2", "--group", "9", "--members", "1=a:1,2=b:2", "--join", "--data-dir", "d"}); err != nil {
		t.Fatal(err)
	}
	c, err := o.config()
	if err != nil || c.ID != 2 || c.Group != 9 || c.DataDir != "d" || !c.Join || len(c.Members) != 2 || c.Members[broadcast.MemberID(1)] != "a:1" || c.Members[broadcast.MemberID(2)] != "b:2" {
		t.Errorf("got %+v, %v; want what the flags say", c, err)
	}
	o.id = 3
	if _, err := o.config(); err == nil || err.Error() != "--id 3 is not one of the members [1 2]" {
		t.Errorf("a member that is none: %v", err)
	}
	taken := listenLocal(t)
	defer taken.Close()
	o = memberOptions{id: 1, group: 1, members: []string{"1=" + taken.Addr().String()}, dir: t.TempDir()}
	_, err = o.start(io.Discard)
	wantExit(t, err, cli.ExitUnavailable)
}

// A member's socket is for its user only. It takes the place of one that was left behind, and has to fit.
func TestTheSocketOfAMember(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(socketPath(dir), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(dir string, do func() error) error {
		o := memberOptions{id: 7, group: 1, members: []string{"7=" + freeAddresses(t, 1)[0]}, dir: dir}
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetErr(io.Discard)
		return o.run(cmd, func(context.Context, *broadcast.Node) error { return do() })
	}
	odd := errors.New("odd")
	if err := run(dir, func() error {
		info, err := os.Stat(socketPath(dir))
		if err != nil || info.Mode().Type() != fs.ModeSocket || info.Mode().Perm() != 0o600 {
			t.Errorf("the socket is %v, %v; want one that only its user can use", info.Mode(), err)
		}
		return odd
	}); !errors.Is(err, odd) {
		t.Errorf("what a member does fails: %v, want %v", err, odd)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", socketPathMax))
	err := run(long, func() error { t.Error("a member runs whose socket nobody finds"); return nil })
	if err == nil || !strings.Contains(err.Error(), "too long for a socket") {
		t.Errorf("a directory whose path is too long: %v", err)
	}
	if err := run(long[:len(long)-1], func() error { return nil }); err == nil || !strings.Contains(err.Error(), "too long for a socket") {
		t.Errorf("a directory whose path is too long, again: %v", err)
	}
	_, err = command(t, "regroup", "--at", dir, "--add", "4")
	wantRefused(t, err, `--add "4": want ID=HOST:PORT`)
}

// answered is the way to a member that answers as the test says.
type answered func(*http.Request) (*http.Response, error)

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// A client that waits says for what, once for each reason, and is silent when it is told to.
func TestSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, asked := time.Now(), 0
		c := &memberClient{"d", &http.Client{Transport: answered(func(r *http.Request) (*http.Response, error) {
			if r.Method != "GET" || r.URL.Path != "/waiting" {
				t.Errorf("it asks %s %s", r.Method, r.URL.Path)
			}
			asked++
			why := []string{"broadcast: not connected", "broadcast: not connected", "odd", "", "odd"}[asked-1]
			if why == "" {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("null"))}, nil
			}
			return &http.Response{StatusCode: http.StatusConflict, Body: io.NopCloser(strings.NewReader(why + "\n"))}, nil
		})}}
		var said []string
		quiet := c.announceWait(t.Context(), writerTo(func(line string) {
			said = append(said, fmt.Sprintf("%v %s", time.Since(begun), line))
		}))
		time.Sleep(5*patience + time.Second)
		quiet()
		time.Sleep(time.Hour)
		want := []string{
			"3s tenure: waiting: not connected\n", "9s tenure: waiting: odd\n", "12s tenure: waiting: the members have not answered for 3s\n", "15s tenure: waiting: odd\n",
		}
		if !slices.Equal(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
	})
}

// A client that has its answer while it asks what it waits for says nothing more.
func TestAnAnsweredClientIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		c := &memberClient{"d", &http.Client{Transport: answered(func(r *http.Request) (*http.Response, error) {
			close(asked)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}}
		quiet := c.announceWait(t.Context(), writerTo(func(line string) { t.Errorf("a client that has its answer says %q", line) }))
		<-asked
		quiet()
	})
}

// A member that is busy is asked again soon, then ever less often, and once a second at least.
func TestABusyMemberIsAskedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var asked []string
		c := &memberClient{"d", &http.Client{Transport: answered(func(*http.Request) (*http.Response, error) {
			asked = append(asked, time.Since(begun).String())
			code := http.StatusTooManyRequests
			if len(asked) == 11 {
				code = http.StatusOK
			}
			return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("7"))}, nil
		})}}
		var position broadcast.Position
		err := c.ask(t.Context(), "POST", "/broadcast", "x", &position)
		want := "0s 10ms 30ms 70ms 150ms 310ms 630ms 1.27s 2.27s 3.27s 4.27s"
		if got := strings.Join(asked, " "); err != nil || position != 7 || got != want {
			t.Errorf("a busy member is asked after %s, and the position is %d, %v; want it asked after %s, and 7", got, position, err, want)
		}
	})
}

type writerTo func(line string)

func (w writerTo) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

// A client that comes before its member has started waits for it, for two seconds and no longer.
func TestAMemberThatStarts(t *testing.T) {
	for comes, want := range map[time.Duration]time.Duration{0: 0, time.Second: time.Second, time.Minute: 2 * time.Second} {
		bubble.Test(t, func(t *testing.T) {
			begin := time.Now()
			conn, err := dialStarting(t.Context(), func() (net.Conn, error) {
				if time.Since(begin) < comes {
					return nil, syscall.ENOENT
				}
				return &net.UnixConn{}, nil
			})
			if took := time.Since(begin); (err == nil) != (comes == want) || (conn == nil) != (err != nil) || took < want || took > want+100*time.Millisecond {
				t.Errorf("a member that starts after %v: %v, %v after %v, want %v", comes, conn, err, took, want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := dialStarting(ctx, func() (net.Conn, error) { return nil, syscall.ENOENT }); err == nil || time.Since(begin) > want+100*time.Millisecond {
				t.Errorf("a client that is interrupted: %v after %v", err, time.Since(begin))
			}
		})
	}
}

// A member that ended during a request may have ordered the message: only one that could not be dialed has not.
func TestALostAnswerIsNoRefusal(t *testing.T) {
	for op, says := range map[string]string{"dial": "no member runs in the directory d", "read": "may or may not be ordered", "write": "may or may not be ordered"} {
		c := &memberClient{"d", &http.Client{Transport: answered(func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: op, Net: "unix", Err: syscall.ECONNRESET}
		})}}
		err := c.ask(t.Context(), "POST", "/broadcast", "x", new(any))
		if wantExit(t, err, cli.ExitUnavailable); err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("when it could not %s: %v, want %q", op, err, says)
		}
	}
	c := &memberClient{"d", &http.Client{Transport: answered(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(syscall.ECONNRESET))}, nil
	})}}
	err := c.ask(t.Context(), "POST", "/broadcast", "x", new(any))
	if wantExit(t, err, cli.ExitUnavailable); err != nil && !strings.Contains(err.Error(), "may or may not be ordered") {
		t.Errorf("when the answer broke off: %v", err)
	}
}

// A member orders messages as long as may be, and none that is longer or has come in part. A change that makes no
// sense is refused.
func TestWhatAMemberTakes(t *testing.T) {
	dir := t.TempDir()
	o := memberOptions{id: 7, group: 1, members: []string{"7=" + freeAddresses(t, 1)[0]}, dir: dir}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetErr(io.Discard)
	err := o.run(cmd, func(ctx context.Context, n *broadcast.Node) error {
		c := newMemberClient(dir)
		defer c.close()
		var position broadcast.Position
		if err := c.ask(ctx, "POST", "/broadcast", strings.Repeat("x", broadcast.MaxMessageBytes), &position); err != nil || position != 1 {
			t.Errorf("a message that is as long as may be is at %d, %v; want 1", position, err)
		}
		for more := range 3 {
			if err := c.ask(ctx, "POST", "/broadcast", strings.Repeat("x", broadcast.MaxMessageBytes+1+more), &position); err != errTooLong {
				t.Errorf("a message that is %d bytes too long is at %d, %v; want it refused", more+1, position, err)
			}
		}
		part, err := net.Dial("unix", socketPath(dir))
		if err != nil {
			return err
		}
		defer part.Close()
		fmt.Fprint(part, "POST /broadcast HTTP/1.1\r\nHost: member\r\nContent-Length: 10\r\n\r\npart")
		_ = part.(*net.UnixConn).CloseWrite()
		answer, _ := io.ReadAll(part)
		if status, _, _ := strings.Cut(string(answer), "\r\n"); !strings.Contains(status, " 413 ") {
			t.Errorf("a message that has come in part is answered with %q, want it refused", status)
		}
		members := map[broadcast.MemberID]string{}
		if err := c.ask(ctx, "POST", "/regroup", `nonsense`, &members); err == nil {
			t.Errorf("nonsense has changed the members to %v", members)
		}
		if position := n.Position(); position != 1 {
			t.Errorf("%d messages are ordered, want the first alone", position)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A client whose message waits for others when its member ends does not know whether it is ordered, and says so.
func TestAMemberEndsBeforeItsMessagesAreOrdered(t *testing.T) {
	addrs, dir := freeAddresses(t, 3), t.TempDir()
	o := memberOptions{id: 1, group: 1, members: []string{"1=" + addrs[0], "2=" + addrs[1], "3=" + addrs[2]}, dir: dir}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetErr(io.Discard)
	c := newMemberClient(dir)
	defer c.close()
	asked := make(chan error, 1)
	err := o.run(cmd, func(ctx context.Context, _ *broadcast.Node) error {
		sent := make(chan struct{})
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }})
		go func() { asked <- c.ask(trace, "POST", "/broadcast", "x", new(any)) }()
		<-sent
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = <-asked
	if wantExit(t, err, cli.ExitUnavailable); err != nil && !strings.Contains(err.Error(), "may or may not be ordered") {
		t.Errorf("its member ended while a message waited for others, and a client is told %v", err)
	}
}

// Members are listed in the order of their IDs.
func TestRegroupListsMembersInOrder(t *testing.T) {
	members, want := map[broadcast.MemberID]string{}, ""
	for id := range broadcast.MemberID(9) {
		members[id+1] = "h:1"
		want += fmt.Sprintf("%d=h:1\n", id+1)
	}
	dir := memberOf(t, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(members) })
	if out, err := command(t, "regroup", "--at", dir); err != nil || out != want {
		t.Errorf("listed is %q, %v; want %q", out, err, want)
	}
}

// slowToShut is a server with a client that waits for ever.
type slowToShut struct{ closes int }

func (s *slowToShut) Shutdown(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (s *slowToShut) Close() error                       { s.closes++; return nil }

// A member that ends gives its clients a second to take their answers, and no longer.
func TestAMemberDoesNotWaitForItsClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, begun := &slowToShut{}, time.Now()
		if shut(s); time.Since(begun) != time.Second || s.closes != 1 {
			t.Errorf("clients that wait have %v, and are cut off %d times; want a second, and once", time.Since(begun), s.closes)
		}
	})
}
