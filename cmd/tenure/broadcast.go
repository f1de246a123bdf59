package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/machine"
)

const broadcastAbout = `
--members names all of the group, the same at each, and --id says which one this process
is. It keeps what it must not forget below --data-dir, and goes on there when it is
started again; then the log knows the members, which tenure regroup changes. A majority
has to run, also for a member to get what it lacks. There is no server besides. Whoever
reaches the ports can speak for a member: for a trusted network.`

// memberOptions say which member of a group this process is.
type memberOptions struct {
	id      uint64
	group   uint64
	members []string
	dir     string
	join    bool
}

func (o *memberOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Uint64Var(&o.id, "id", 0, "`number` of the member that this process is, one of --members")
	f.Uint64Var(&o.group, "group", 1, "`number` of the group, the same at all its members and of no other group")
	f.StringSliceVar(&o.members, "members", nil, "all members as `ID=HOST:PORT`, this one included")
	f.BoolVar(&o.join, "join", false, "this process is a new member of a group that is there: see tenure regroup")
	f.StringVar(&o.dir, "data-dir", "", "`directory` of this member's log (default broadcast-GROUP-ID.tenure)")
	for _, name := range []string{"id", "members"} {
		_ = cmd.MarkFlagRequired(name)
	}
}

// config checks what was asked for.
func (o *memberOptions) config() (c broadcast.Config, err error) {
	c = broadcast.Config{ID: machine.NodeID(o.id), Group: o.group, Members: map[machine.NodeID]string{}, Dir: o.dir, Join: o.join}
	for _, m := range o.members {
		id, addr, err := parseMember(m)
		if err != nil || c.Members[id] != "" {
			return c, fmt.Errorf("--members %q: want ID=HOST:PORT, each ID once", m)
		}
		c.Members[id] = addr
	}
	if c.Members[c.ID] == "" {
		return c, fmt.Errorf("--id %d: that is none of the members %v", o.id, slices.Sorted(maps.Keys(c.Members)))
	}
	if c.Dir == "" {
		c.Dir = filepath.Clean(fmt.Sprintf("broadcast-%d-%d.tenure", o.group, o.id))
	}
	return c, nil
}

// start makes this process the member.
func (o *memberOptions) start(log io.Writer) (*broadcast.Node, error) {
	c, err := o.config()
	if err != nil {
		return nil, err
	}
	c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if c.Listener, err = net.Listen("tcp", c.Members[c.ID]); err != nil {
		return nil, exitError{exitUnavailable, err}
	}
	return broadcast.Start(c)
}

func broadcastCommand() *cobra.Command {
	var o memberOptions
	cmd := &cobra.Command{
		Use:   "broadcast [MESSAGE]...",
		Short: "Send messages that all members of a group get in the same order",
		Long: `Becomes a member of a group, has the messages ordered (those of the command line, or
each line of the standard input), prints the position of each, and leaves. When a signal
ends it, or an error, what it has printed a position of is ordered, and one more may be.
` + broadcastAbout,
		Example: `  M=1=localhost:7001,2=localhost:7002,3=localhost:7003
  tenure deliver --id 1 --members $M &
  tenure deliver --id 2 --members $M &
  tenure broadcast --id 3 --members $M hello world`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, func(ctx context.Context, n *broadcast.Node) error {
				if err := n.Joined(ctx); err != nil {
					return err
				}
				say := func(what string, i int, message []byte) error {
					position, err := n.Broadcast(ctx, message)
					if errors.Is(err, broadcast.ErrTooLarge) {
						err = fmt.Errorf("longer than the %d bytes that a message may have; what comes before it is ordered", broadcast.MessageBytesMax)
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
				for line, err := range lines(ctx, cmd.InOrStdin(), broadcast.MessageBytesMax) {
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

// run does something at this member, until it is done or a signal comes.
func (o *memberOptions) run(cmd *cobra.Command, do func(context.Context, *broadcast.Node) error) error {
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	n, err := o.start(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return interrupted(errors.Join(do(ctx, n), n.Close()))
}
