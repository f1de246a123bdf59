package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

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
	n, err := broadcast.Start(c)
	if err != nil {
		return nil, errors.Join(err, c.Listener.Close())
	}
	return n, nil
}

func broadcastCommand() *cobra.Command {
	var o memberOptions
	cmd := &cobra.Command{
		Use:   "broadcast [MESSAGE]...",
		Short: "Send messages that all members of a group get in the same order",
		Long: `Becomes a member of a group, has the messages ordered (those of the command line, or
each line of the standard input), prints the position of each, and leaves.
` + broadcastAbout,
		Example: `  M=1=localhost:7001,2=localhost:7002,3=localhost:7003
  tenure deliver --id 1 --members $M &
  tenure deliver --id 2 --members $M &
  tenure broadcast --id 3 --members $M hello world`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			n, err := o.start(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := n.Joined(ctx); err != nil {
				return errors.Join(err, n.Close())
			}
			say := func(message string) error {
				position, err := n.Broadcast(ctx, []byte(message))
				if err == nil {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), position)
				}
				return err
			}
			if len(args) > 0 {
				for _, m := range args {
					if err := say(m); err != nil {
						return errors.Join(err, n.Close())
					}
				}
				return n.Close()
			}
			in := bufio.NewScanner(cmd.InOrStdin())
			in.Buffer(nil, broadcast.MessageBytesMax+1)
			for in.Scan() {
				if err := say(in.Text()); err != nil {
					return errors.Join(err, n.Close())
				}
			}
			return errors.Join(in.Err(), n.Close())
		},
	}
	o.flags(cmd)
	return cmd
}

// deliveredMessage is what `tenure deliver -o json` prints, one a line.
type deliveredMessage struct {
	Position broadcast.Position `json:"position"`
	Client   string             `json:"client"`
	Seq      uint64             `json:"seq"`
	Payload  string             `json:"payload"`
	// Members are set by a change of the members.
	Members map[machine.NodeID]string `json:"members,omitempty"`
}

func deliverCommand() *cobra.Command {
	var o memberOptions
	var out output
	var from, count uint64
	cmd := &cobra.Command{
		Use:   "deliver",
		Short: "Print the messages of a group in their order",
		Long: `Becomes a member of a group and prints what is broadcast in it, with positions from 1
on, without gaps, the same at all members; until it is interrupted or removed, or for
--count messages. Nothing is ever trimmed from its disk: this is for trying package broadcast, whose
users make snapshots and trim.
` + broadcastAbout,
		Example: `  tenure deliver --id 1 --members 1=localhost:7001,2=localhost:7002,3=localhost:7003
  tenure deliver --id 1 --members $M --from 17 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			n, err := o.start(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			for m, err := range n.Deliver(ctx, broadcast.Position(from)) {
				switch {
				case errors.Is(err, context.Canceled):
					return n.Close()
				case err != nil:
					return errors.Join(err, n.Close())
				}
				if out == "json" {
					err = json.NewEncoder(cmd.OutOrStdout()).Encode(deliveredMessage{m.Position, m.Client.String(), m.Seq, string(m.Payload), m.Members})
				} else if m.Members != nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d\tmembers %v\n", m.Position, slices.Sorted(maps.Keys(m.Members)))
				} else {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d\t%s\n", m.Position, m.Payload)
				}
				if err != nil {
					return errors.Join(err, n.Close())
				}
				if count--; count == 0 {
					break
				}
			}
			return n.Close()
		},
	}
	o.flags(cmd)
	cmd.Flags().Uint64Var(&from, "from", 1, "first `position` to print")
	cmd.Flags().Uint64Var(&count, "count", 0, "stop after so many messages; 0: do not")
	outputFlag(cmd, &out)
	return cmd
}
