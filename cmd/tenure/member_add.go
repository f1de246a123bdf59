package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/cli"
)

// addedMember is what `tenure member add` prints.
type addedMember struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Learner  bool     `json:"learner"`
	PeerURLs []string `json:"peer_urls"`
	Command  []string `json:"command"` // that starts it
}

func memberAddCommand(at *place) *cobra.Command {
	var peerURLs, clientURLs []string
	var learner, yes bool
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "add NAME --peer-urls URL",
		Short: "Add a member, and print the command that starts it",
		Long: `Adds a member to the cluster, and prints on the standard output the command that starts it.
Run that on the member's host, with an empty --data-dir. Add to it what the other members
have besides: TLS files, and flags that must be the same on each member.

A learner copies the log first and has no vote until ` + "`tenure member promote`" + `. That is the
safe way: a voter counts at once, started or not, and with one voter more the cluster may
not serve until it has started.`,
		Example: `  tenure member add d --learner --peer-urls http://10.0.0.4:2380
  tenure member add d --learner --peer-urls http://10.0.0.4:2380 --client-urls http://10.0.0.4:2379 -o json`,
		Args: oneMember,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			switch {
			case name == "" || strings.ContainsAny(name, ",= \t\n"):
				return cli.Usagef("the name %q: want one without commas, blanks and equals signs, which separate names in --initial-cluster", name)
			case len(peerURLs) != 1:
				return cli.Usagef("at which URL do the others reach %s? give one, such as --peer-urls http://10.0.0.4:2380", name)
			}
			if err := reachable("--peer-urls", peerURLs); err != nil {
				return err
			}
			if err := reachable("--client-urls", clientURLs); err != nil {
				return err
			}
			return withCluster(*at, func(ctx context.Context, client *clientv3.Client, c cluster) error {
				remark, err := c.mayAdd(name, learner, yes)
				if err != nil {
					return err
				}
				add := client.MemberAdd
				if learner {
					add = client.MemberAddAsLearner
				}
				got, err := add(ctx, peerURLs)
				if err != nil {
					return memberTrouble("add "+name, err)
				}
				say(cmd, remark)
				added := addedMember{hexID(got.Member.ID), name, learner, peerURLs, c.startCommand(name, peerURLs[0], clientURLs)}
				return o.Print(cmd.OutOrStdout(), added, func() { added.print(cmd.OutOrStdout(), cmd.ErrOrStderr()) })
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&peerURLs, "peer-urls", nil, "`URL` at which the other members reach it")
	f.StringSliceVar(&clientURLs, "client-urls", nil, "`URLs` at which clients will reach it (default port 2379 of the host in --peer-urls)")
	f.BoolVar(&learner, "learner", false, "it copies the log and has no vote, until it is promoted")
	f.BoolVar(&yes, "yes", false, "add it even if too few voters will be up")
	o.Register(cmd)
	return cmd
}

// oneMember is the check of arguments that are one member.
func oneMember(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("which member? write: tenure member %s", cmd.Use)
	}
	return nil
}

// reachable refuses URLs that nobody can dial.
func reachable(flag string, urls []string) error {
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.Path != "" {
			return cli.Usagef("%s %q: want http://host:port, or https://host:port", flag, raw)
		}
	}
	return dialable(flag, urls)
}

// mayAdd judges whether a member of that name may come.
func (c cluster) mayAdd(name string, learner, yes bool) (remark string, err error) {
	if _, err := c.leader(); err != nil {
		return "", err
	}
	for _, m := range c.Members {
		if m.Name == name {
			return "", fmt.Errorf("the member %s is called %s already: remove it first, or choose another name", m.ID, name)
		}
	}
	if learner {
		return "", nil
	}
	return c.voting().with(listedMember{}).allow("the vote of "+name, yes, "add it with --learner, start it, and promote it")
}

// startCommand is the command line that starts a new member.
func (c cluster) startCommand(name, peerURL string, clientURLs []string) []string {
	if len(clientURLs) == 0 {
		clientURLs = []string{c.clientURL(peerURL)}
	}
	var all []string
	seen := map[string]bool{name: true}
	for _, m := range c.Members {
		called := m.String()
		if seen[called] { // names are the operator's, and a list has each once
			called = m.ID
		}
		seen[called] = true
		for _, u := range m.PeerURLs {
			all = append(all, called+"="+u)
		}
	}
	return []string{
		"tenure", "serve", "--name", name, "--initial-cluster-state", "existing",
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL,
		"--listen-client-urls", strings.Join(clientURLs, ","),
		"--initial-cluster", strings.Join(append(all, name+"="+peerURL), ","),
	}
}

// clientURL is where clients will probably reach a member: at etcd's port of its host, and by TLS if they
// reach others so.
func (c cluster) clientURL(peerURL string) string {
	scheme, host := "http", "localhost"
	for _, m := range c.Members {
		for _, u := range m.ClientURLs {
			if strings.HasPrefix(u, "https://") {
				scheme = "https"
			}
		}
	}
	if u, err := url.Parse(peerURL); err == nil {
		host = u.Hostname()
	}
	return scheme + "://" + net.JoinHostPort(host, "2379")
}

func (a addedMember) print(out, words io.Writer) {
	as, next := "with a vote", ""
	if a.Learner {
		as, next = "as a learner", fmt.Sprintf(", and then run tenure member promote %s", shellWord(a.Name))
	}
	fmt.Fprintf(words, "tenure: added %s, %s, with the ID %s. Start it on its host with an empty directory%s:\n", a.Name, as, a.ID, next)
	line := make([]string, len(a.Command))
	for i, word := range a.Command {
		line[i] = shellWord(word)
	}
	fmt.Fprintln(out, strings.Join(line, " "))
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// shellWord is the word as a shell reads it.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
