package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/internal/cli"
)

const castAbout = `
It is no member, keeps nothing, and talks to the member that runs on this machine in the
directory --at (tenure deliver --data-dir DIRECTORY). While it waits for others it says so.`

// memberOptions say which member of a group this process is.
type memberOptions struct {
	id      uint64
	group   uint64
	members []string
	dir     string
	join    bool
	log     cli.Log
}

func (o *memberOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Uint64Var(&o.id, "id", 0, "`number` of the member that this process is, one of --members")
	f.Uint64Var(&o.group, "group", 1, "`number` of the group, the same at all its members and of no other group")
	f.StringSliceVar(&o.members, "members", nil, "all members as `ID=HOST:PORT`, this one included")
	f.BoolVar(&o.join, "join", false, "this process is a new member of a group that is there: see tenure regroup")
	f.StringVar(&o.dir, "data-dir", "", "`directory` of this member, of its own and always the same")
	o.log.Register(f, slog.LevelWarn)
	for _, name := range []string{"id", "members", "data-dir"} {
		_ = cmd.MarkFlagRequired(name)
	}
}

// config checks the flags.
func (o *memberOptions) config() (c broadcast.Config, err error) {
	c = broadcast.Config{ID: broadcast.MemberID(o.id), Group: o.group, Members: map[broadcast.MemberID]string{}, DataDir: o.dir, Join: o.join}
	for _, m := range o.members {
		id, addr, err := parseMember(m)
		if err != nil || c.Members[id] != "" {
			return c, fmt.Errorf("--members %q: want ID=HOST:PORT, each ID once", m)
		}
		c.Members[id] = addr
	}
	if c.Members[c.ID] == "" {
		return c, fmt.Errorf("--id %d is not one of the members %v", o.id, slices.Sorted(maps.Keys(c.Members)))
	}
	return c, nil
}

// start makes this process the member.
func (o *memberOptions) start(log io.Writer) (*broadcast.Node, error) {
	c, err := o.config()
	if err != nil {
		return nil, cli.Usage(err)
	}
	if c.Logger, err = o.log.Logger(log); err != nil {
		return nil, err
	}
	if c.Listener, err = net.Listen("tcp", c.Members[c.ID]); err != nil {
		return nil, cli.Exit(cli.ExitUnavailable, err)
	}
	return broadcast.Start(c)
}

// clientOptions say which member a client talks to.
type clientOptions struct{ at string }

func (o *clientOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.at, "at", "", "`directory` of a member that runs on this machine")
	_ = cmd.MarkFlagRequired("at")
	_ = cmd.MarkFlagDirname("at")
}

// run does something as a client, until it is done or a signal comes.
func (o *clientOptions) run(cmd *cobra.Command, do func(context.Context, *memberClient) error) error {
	ctx, stop := cli.UntilSignal(cmd.Context())
	defer stop()
	c := newMemberClient(o.at)
	defer c.close()
	return cli.Interrupted(do(ctx, c))
}

func broadcastCommand() *cobra.Command {
	var o clientOptions
	cmd := &cobra.Command{
		Use:   "broadcast --at DIRECTORY [MESSAGE]...",
		Short: "Send messages that all members of a group get in the same order",
		Long: `Has messages ordered (those of the command line, or each line of the standard input), and
prints the position of each. When a signal ends it, or an error, what it has printed a
position of is ordered, and one more may be.
` + castAbout,
		Example: `  M=1=localhost:7001,2=localhost:7002,3=localhost:7003
  for i in 1 2 3; do tenure deliver --id $i --members $M --data-dir member$i & done
  tenure broadcast --at member3 hello world`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, func(ctx context.Context, c *memberClient) error {
				say := func(what string, i int, message []byte) error {
					quiet := c.announceWait(ctx, cmd.ErrOrStderr())
					var position broadcast.Position
					err := c.ask(ctx, "POST", "/broadcast", string(message), &position)
					quiet()
					if errors.Is(err, errTooLong) {
						err = fmt.Errorf("longer than the %d bytes that a message may have; the messages before it are ordered", broadcast.MaxMessageBytes)
					}
					if err != nil {
						return fmt.Errorf("%s %d: %w", what, i, err)
					}
					_, err = fmt.Fprintln(cmd.OutOrStdout(), position)
					return err
				}
				for i, m := range args {
					if err := say("message", i+1, []byte(m)); err != nil {
						return err
					}
				}
				if len(args) > 0 {
					return nil
				}
				i := 0
				for line, err := range lines(ctx, cmd.InOrStdin(), broadcast.MaxMessageBytes) {
					if i++; err == nil {
						err = say("line", i, line)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	o.flags(cmd)
	return cmd
}

// run does something at this member, until it is done or a signal comes. Clients on this
// machine are served meanwhile.
func (o *memberOptions) run(cmd *cobra.Command, do func(context.Context, *broadcast.Node) error) error {
	ctx, stop := cli.UntilSignal(cmd.Context())
	defer stop()
	n, err := o.start(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	quiet, err := serveClients(n, o.dir)
	if err == nil {
		err = do(ctx, n)
		quiet()
	}
	return cli.Interrupted(errors.Join(err, n.Close()))
}
