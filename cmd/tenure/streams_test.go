package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A client that waits for others tells so on standard error: its standard output has results alone.
func TestAWaitIsToldOnStandardError(t *testing.T) {
	var commands sync.WaitGroup
	for args, result := range map[string]string{"broadcast x": "7\n", "regroup": "1=a:1\n"} {
		told := make(chan struct{})
		tell := sync.OnceFunc(func() { close(told) })
		dir := memberOf(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/waiting" {
				http.Error(w, "broadcast: not connected with [2 3]", http.StatusConflict)
				return
			}
			_, _ = io.ReadAll(r.Body)
			<-told
			fmt.Fprint(w, map[bool]string{true: "7", false: `{"1":"a:1"}`}[r.URL.Path == "/broadcast"])
		})
		commands.Go(func() {
			var out, errs lockedBuffer
			both := func(b *lockedBuffer) io.Writer {
				return writerTo(func(line string) { _, _ = b.Write([]byte(line)); tell() })
			}
			root := rootCommand()
			root.SetOut(both(&out))
			root.SetErr(both(&errs))
			root.SetArgs(append(strings.Fields(args), "--at", dir))
			err := root.ExecuteContext(context.WithoutCancel(t.Context()))
			if err != nil || out.String() != result || errs.String() != "tenure: waiting: not connected with [2 3]\n" {
				t.Errorf("%s that waits prints %q, and tells %q on standard error, %v; want %q, and for whom it waits", args, out.String(), errs.String(), err, result)
			}
		})
	}
	commands.Wait()
}

// Where leases are is told on standard error if nobody said it.
func TestWhereAgreementsAreIsToldOnStandardError(t *testing.T) {
	if _, out, errs := ran(t, "agree", "n"); out != "" || !strings.Contains(errs, "only this user's processes on this machine") {
		t.Errorf("agree prints %q, and tells %q on standard error; want nothing, and where leases are", out, errs)
	}
}

// A member logs to each output that it is told, and names itself and its cluster there by their own IDs.
func TestServeLogsToEachOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	s := serveProcess(t, nil, "--log-outputs", "stderr,"+file)
	out, err := command(t, "member", "list", "-o", "json", "--at", strings.Replace(s.url, "http", "etcd", 1))
	var c cluster
	if err != nil || json.Unmarshal([]byte(out), &c) != nil || len(c.Members) != 1 {
		t.Fatalf("the members are %s, %v", out, err)
	}
	if ready := s.logged("ready to serve client requests"); ready["member"] != c.Members[0].ID || ready["cluster"] != c.Cluster {
		t.Errorf("ready is told as %v, want the member %s of the cluster %s", ready, c.Members[0].ID, c.Cluster)
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	s.end(t)
	text, err := os.ReadFile(file)
	if err != nil || string(text) != s.log.String() || !strings.Contains(string(text), `"stopped"`) {
		t.Errorf("in the file is logged %q, %v; want what is on standard error, %q", text, err, s.log.String())
	}
}
