package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/member/server"
)

// A liveCluster is of members in this process, which commands change.
type liveCluster struct {
	t       *testing.T
	servers map[string]*server.Server
	clients map[string]string // addresses
	at      string
}

// startCluster starts members with these names, and waits until they serve.
func startCluster(t *testing.T, names ...string) *liveCluster {
	t.Helper()
	c := &liveCluster{t: t, servers: map[string]*server.Server{}, clients: map[string]string{}}
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.Stop()
		}
	})
	peers := freeAddresses(t, 2*len(names))
	var list, at []string
	for i, name := range names {
		list = append(list, name+"=http://"+peers[i])
		c.clients[name] = peers[len(names)+i]
		at = append(at, c.clients[name])
	}
	c.at = "etcd://" + strings.Join(at, ",")
	for i, name := range names {
		c.start(name, "--listen-peer-urls", "http://"+peers[i], "--initial-advertise-peer-urls", "http://"+peers[i],
			"--listen-client-urls", "http://"+c.clients[name], "--initial-cluster", strings.Join(list, ","))
	}
	for _, name := range names {
		c.ready(name)
	}
	return c
}

// start starts a member as `tenure serve` does.
func (c *liveCluster) start(name string, args ...string) {
	c.t.Helper()
	o, err := parse(c.t, append([]string{"--name", name, "--data-dir", c.t.TempDir()}, args...), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	cfg, err := o.config(slog.New(slog.DiscardHandler), func(error) {})
	if err != nil {
		c.t.Fatal(err)
	}
	if c.servers[name], err = server.Start(cfg); err != nil {
		c.t.Fatal(err)
	}
}

func (c *liveCluster) ready(name string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	if err := c.servers[name].Node.Ready(ctx); err != nil {
		c.t.Fatal(err)
	}
}

// stop stops a member as if its host had died.
func (c *liveCluster) stop(name string) {
	c.servers[name].Stop()
	delete(c.servers, name)
}

// member runs `tenure member`.
func (c *liveCluster) member(args ...string) (code int, out, errs string) {
	c.t.Helper()
	return ran(c.t, append([]string{"member", "--at", c.at}, args...)...)
}

// mustDo makes a change, which has to succeed, and returns its output.
func (c *liveCluster) mustDo(says string, args ...string) (out string) {
	c.t.Helper()
	code, out, errs := c.member(args...)
	if code != 0 || !strings.Contains(out+errs, says) {
		c.t.Fatalf("tenure member %q ends with %d, says %q and %q; want %q", args, code, out, errs, says)
	}
	return out
}

// wantRefused wants a change that is refused, and that nothing has changed.
func (c *liveCluster) wantRefused(says string, args ...string) {
	c.t.Helper()
	before := c.list()
	code, out, errs := c.member(args...)
	if code != cli.ExitFailure || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, says) {
		c.t.Errorf("tenure member %q ends with %d, says %q and %q; want it refused: %q", args, code, out, errs, says)
	}
	if after := c.list(); len(after.Members) != len(before.Members) {
		c.t.Fatalf("what was refused has changed the members from %+v to %+v", before, after)
	}
}

// list is what `tenure member list -o json` prints.
func (c *liveCluster) list() (got cluster) {
	c.t.Helper()
	code, out, errs := c.member("list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		c.t.Fatalf("the list is %q and %q, with exit code %d, %v", out, errs, code, err)
	}
	return got
}

// eventually waits until the list is as it should be.
func (c *liveCluster) eventually(what string, is func(cluster) bool) cluster {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; <-time.After(20 * time.Millisecond) {
		got := c.list()
		if is(got) {
			return got
		}
		if time.Now().After(end) {
			c.t.Fatalf("waited in vain for %s: %+v", what, got)
		}
	}
}

// summary is each member in a few words.
func (c cluster) summary() string {
	var words []string
	for _, m := range c.Members {
		role := "voter"
		if m.Learner {
			role = "learner"
		}
		words = append(words, fmt.Sprintf("%s %s %v", m.Name, role, m.Reachable))
	}
	return strings.Join(words, ", ")
}

// One of three members is lost and replaced, and leadership goes where it is asked to go; the cluster
// serves all the time. The command that add prints starts the member.
func TestReplaceAMember(t *testing.T) {
	c := startCluster(t, "a", "b", "c")
	got := c.eventually("a leader", func(got cluster) bool { return got.Leader != "" })
	if want := "a voter true, b voter true, c voter true"; len(got.Cluster) < 8 || sorted(got.summary()) != sorted(want) {
		t.Errorf("the list of %q is %s, want %s", got.Cluster, got.summary(), want)
	}
	for _, m := range got.Members {
		if m.Applied == 0 || len(m.PeerURLs) != 1 || len(m.ClientURLs) != 1 || m.ClientURLs[0] != "http://"+c.clients[m.Name] || m.Leader != (m.Name == got.Leader) {
			t.Errorf("listed is %+v with the leader %s", m, got.Leader)
		}
	}
	for _, to := range []string{"a", "b"} { // one of which did not lead before
		c.mustDo(to+" leads now", "move-leader", to)
		c.eventually(to+" leads", func(got cluster) bool { return got.Leader == to })
	}
	lost, _ := got.find("c")
	c.stop("c")
	if got := c.list(); sorted(got.summary()) != sorted("a voter true, b voter true, c voter false") {
		t.Errorf("without c the list is %s", got.summary())
	}
	c.wantRefused("only 1 of 2 voters would answer, and 2 are needed: the cluster would serve nothing until more are up; start those that are down, or remove them, first, or repeat it with --yes", "remove", "a")
	c.wantRefused("c does not answer, and would not take leadership: start it first", "move-leader", "c")
	c.wantRefused("there is no member d; the members are ", "remove", "d")
	c.wantRefused("the member "+lost.ID+" is called c already: remove it first", "add", "c", "--learner", "--peer-urls", lost.PeerURLs[0])
	c.wantRefused("another member is at this peer URL", "add", "d", "--learner", "--peer-urls", lost.PeerURLs[0])
	c.mustDo("all of these are needed: the next that fails stops the cluster", "remove", strings.ToUpper(lost.ID))

	out := c.mustDo("tenure member promote c", "add", "c", "--learner", "--peer-urls", lost.PeerURLs[0], "--client-urls", lost.ClientURLs[0])
	if got := c.list(); sorted(got.summary()) != sorted("a voter true, b voter true,  learner false") {
		t.Errorf("with a learner that has not started the list is %s", got.summary())
	}
	c.wantRefused("it has not caught up with the leader", "promote", lost.PeerURLs[0], "--wait", "0")
	c.wantRefused("start it with the command that `tenure member add` has printed", "promote", "c", "--wait", "0")
	c.wantRefused("there are as many learners as --max-learners of the leader allows", "add", "d", "--learner", "--peer-urls", "http://127.0.0.1:1")
	c.wantRefused("has no vote and cannot lead: promote it first", "move-leader", lost.PeerURLs[0])
	words := strings.Fields(out)
	if len(words) < 3 || words[0] != "tenure" || words[1] != "serve" || words[2] != "--name" {
		t.Fatalf("add prints %q", out)
	}
	c.start("c", words[4:]...)
	if out := c.mustDo("c votes now", "promote", "c", "--wait", "30s"); out != "c votes now\n" { // it has hardly begun
		t.Errorf("the promotion says %q", out)
	}
	c.ready("c")
	c.wantRefused("c votes already", "promote", "c")
	if got := c.list(); sorted(got.summary()) != sorted("a voter true, b voter true, c voter true") {
		t.Errorf("in the end the list is %s", got.summary())
	}
}

// sorted has the parts of a list in the order of their texts.
func sorted(list string) string {
	parts := strings.Split(list, ", ")
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// A cluster of one grows with a learner, or at the risk that is told, and its last voter stays.
func TestAClusterOfOne(t *testing.T) {
	c := startCluster(t, "a")
	c.eventually("a leader", func(got cluster) bool { return got.Leader == "a" })
	c.wantRefused("cannot remove a: it is the last voter", "remove", "a", "--yes")
	peer, client := freeAddresses(t, 1)[0], freeAddresses(t, 1)[0]
	c.wantRefused("after the vote of d only 1 of 2 voters would answer, and 2 are needed: the cluster would serve nothing until more are up; add it with --learner, start it, and promote it, or repeat it with --yes", "add", "d", "--peer-urls", "http://"+peer)
	code, out, errs := c.member("add", "d", "--peer-urls", "http://"+peer, "--client-urls", "http://"+client, "--yes", "-o", "json")
	var added addedMember
	if err := json.Unmarshal([]byte(out), &added); err != nil || code != 0 || added.Name != "d" || added.Learner || len(added.Command) < 4 ||
		errs != "tenure: 1 of 2 voters answer, and 2 are needed: the cluster serves nothing until more are up\n" {
		t.Fatalf("add ends with %d, %q, %q, %v", code, out, errs, err)
	}
	c.start("d", added.Command[4:]...)
	c.clients["d"] = client
	c.ready("d")
	got := c.eventually("two voters", func(got cluster) bool { return got.summary() != "" && got.Leader != "" && got.voting() == voting{2, 2} })
	if m, err := got.find("d"); err != nil || m.ID != added.ID || m.ClientURLs[0] != "http://"+client {
		t.Errorf("the member that was added is %+v, %v", m, err)
	}

	c.stop("d")
	c.eventually("no leader", func(got cluster) bool { return got.Leader == "" })
	code, _, errs = c.member("remove", "d")
	if want := "tenure: there is no leader, so nothing can be changed: 1 of 2 voters answer, and 2 must be up and reach each other; start those that are down\n"; code != cli.ExitUnavailable || errs != want {
		t.Errorf("without a leader the removal ends with %d, %q; want %q", code, errs, want)
	}
}

// A member that moves is found at the URL that the others were told.
func TestAMemberMoves(t *testing.T) {
	c := startCluster(t, "a", "b", "c")
	got := c.eventually("a leader", func(got cluster) bool { return got.Leader != "" })
	m, _ := got.find(got.Leader)
	to := "http://" + freeAddresses(t, 1)[0]
	c.mustDo("the others look for "+m.Name+" at "+to+" now", "update", m.ID, "--peer-urls", to)
	c.eventually("the new URL", func(got cluster) bool { now, err := got.find(to); return err == nil && now.ID == m.ID })
}
