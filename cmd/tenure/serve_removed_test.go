package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/internal/cli"
)

// A member that cannot go on, as one that was removed from its cluster, ends with an error that says
// why. A supervisor that goes by the exit code
// sees it, and that no start helps.
func TestServeEndsWhenItIsRemoved(t *testing.T) {
	one := serveProcess(t, nil)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{one.url}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	addr := freeAddresses(t, 2)
	peer := "http://" + addr[1]
	added, err := client.MemberAdd(t.Context(), []string{peer})
	if err != nil {
		t.Fatal(err)
	}
	cluster := "two=" + peer
	for _, m := range added.Members {
		if m.ID != added.Member.ID {
			cluster += ",one=" + m.PeerURLs[0]
		}
	}
	two := &served{url: "http://" + addr[0]}
	two.cmd = exec.Command("tenure", "serve", "--name", "two", "--data-dir", filepath.Join(t.TempDir(), "data"),
		"--listen-client-urls", two.url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", cluster, "--initial-cluster-state", "existing")
	two.cmd.Stderr = &two.log
	again := exec.Command(two.cmd.Path, two.cmd.Args[1:]...)
	if err := two.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = two.cmd.Process.Kill(); _ = two.cmd.Wait() })
	two.await(t, "ready to serve client requests")
	if _, err := client.MemberRemove(t.Context(), added.Member.ID); err != nil {
		t.Fatal(err)
	}
	if code := two.end(t); code != cli.ExitRemoved || !strings.Contains(two.log.String(), "tenure: this member cannot go on: ") {
		t.Errorf("a member that was removed ends with %d, want %d and the reason:\n%s", code, cli.ExitRemoved, two.log.String())
	}
	if out, err := again.CombinedOutput(); again.ProcessState.ExitCode() != cli.ExitRemoved || !strings.Contains(string(out), "permanently removed") {
		t.Errorf("started again it ends with %v, want exit code %d and the reason:\n%s", err, cli.ExitRemoved, out)
	}
}

// A message is shown as it is only if it can be taken for no other and does nothing to a terminal.
func TestMessagesThatAreQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"a message":  "a message",
		"Grüße":      "Grüße",
		"":           "(barrier)",
		"(barrier)":  `"(barrier)"`,
		`"quoted"`:   `"\"quoted\""`,
		"two\nlines": `"two\nlines"`,
		"\x1b[2J":    `"\x1b[2J"`,
		"caf\xe9":    `"caf\xe9"`,
		"caf\ufffd":  `"caf�"`,
	} {
		if got := shown(broadcast.Message{Payload: []byte(text)}); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}
