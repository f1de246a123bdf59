package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// A command that cannot print its result fails, and says why.
func TestCommandsOfAClusterFailWithTheirOutput(t *testing.T) {
	_, addrs := startHeard(t)
	tried := 0
	for _, line := range clusterCommands {
		if !strings.HasSuffix(line, "-o json") || strings.HasPrefix(line, "!") {
			continue
		}
		tried++
		full, w := io.Pipe()
		full.CloseWithError(errFull)
		root := rootCommand()
		root.SetOut(w)
		root.SetErr(io.Discard)
		root.SetArgs(append(strings.Fields(line), "--at", "etcd://"+addrs[0]))
		if err := root.Execute(); !errors.Is(err, errFull) {
			t.Errorf("tenure %s whose output takes nothing ends with %v, want %v", line, err, errFull)
		}
	}
	if tried < 10 {
		t.Errorf("%d command lines were tried, want 10 or more", tried)
	}
}

// Where no member answers each command says so, with the address, and ends with the exit code of a store that does not
// answer.
func TestCommandsWithoutAMember(t *testing.T) {
	var commands sync.WaitGroup
	for _, line := range []string{"status", "member list", "member remove a", "read-lease", "read-lease set all", "read-lease holders k"} {
		commands.Go(func() { // each waits for three seconds
			var out lockedBuffer
			root := rootCommand()
			root.SetOut(&out)
			root.SetErr(io.Discard)
			root.SetArgs(append(strings.Fields(line), "--at", "etcd://127.0.0.1:1"))
			err := root.Execute()
			var exit cli.ExitError
			if !errors.As(err, &exit) || exit.Code != cli.ExitUnavailable || out.String() != "" || !strings.HasPrefix(err.Error(), "no member answers at etcd://127.0.0.1:1: ") {
				t.Errorf("tenure %s without a member ends with %v, and prints %q; want exit code 69, where no member answers, and nothing printed", line, err, out.String())
			}
		})
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "silent"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	commands.Go(func() { // it waits for five seconds
		ended := make(chan error, 1)
		go func() {
			root := rootCommand()
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			root.SetArgs([]string{"peer", "status", "--at", "flease://" + l.Addr().String()})
			ended <- root.Execute()
		}()
		go welcome(l, true)
		select {
		case err := <-ended:
			wantExit(t, err, cli.ExitUnavailable)
		case <-time.After(time.Minute):
			t.Error("tenure peer status waits for ever for a peer that is silent")
		}
	})
	commands.Wait()
}

// welcome is a peer that welcomes one client, and hears one question. Then it leaves, or is silent until the client leaves.
func welcome(l net.Listener, silent bool) (question string) {
	conn, err := l.Accept()
	if err != nil {
		return ""
	}
	defer conn.Close()
	var hello, asked struct {
		Op      string
		Version int
	}
	in := json.NewDecoder(conn)
	if in.Decode(&hello) == nil {
		fmt.Fprintf(conn, `{"event":"welcome","version":%d,"at":%d}`+"\n", hello.Version, clock.System.Now())
	}
	_ = in.Decode(&asked)
	if silent {
		_, _ = io.Copy(io.Discard, conn)
	}
	return asked.Op
}
