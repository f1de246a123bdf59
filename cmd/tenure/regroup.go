package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/internal/cli"
)

func regroupCommand() *cobra.Command {
	var o clientOptions
	var out cli.Output
	var add string
	var remove uint64
	cmd := &cobra.Command{
		Use:   "regroup --at DIRECTORY",
		Short: "Change, or list, the members of a group that broadcasts",
		Long: `Changes who the members of a group are, and prints those. Without --add and --remove it
only prints them. With both, one comes in the place of the other. The change has its place
among the messages of the group: all go over to the new members there. IDs of members that
were removed do not return.

The process that is added runs with --join, from before or from now on. One that is
removed goes on until the others can do without it, and ends by itself. If it is the one
that --at names, this command waits for that.
` + castAbout,
		Example: `  tenure deliver --join --id 4 --members $M,4=localhost:7004 --data-dir member4 &
  tenure regroup --at member3 --add 4=localhost:7004
  tenure regroup --at member3 --remove 1
  tenure regroup --at member3 --remove 2 --add 5=localhost:7005 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, addr, err := parseMember(add)
			if err != nil && add != "" {
				return cli.Usagef("--add %q: want ID=HOST:PORT", add)
			}
			return o.run(cmd, func(ctx context.Context, c *memberClient) error {
				body, err := json.Marshal(regrouping{Remove: broadcast.MemberID(remove), ID: id, Address: addr})
				if err != nil {
					return err
				}
				quiet := c.announceWait(ctx, cmd.ErrOrStderr())
				var members map[broadcast.MemberID]string
				err = c.ask(ctx, "POST", "/regroup", string(body), &members)
				if quiet(); err != nil {
					return err
				}
				return out.Print(cmd.OutOrStdout(), members, func() {
					for _, id := range slices.Sorted(maps.Keys(members)) {
						fmt.Fprintf(cmd.OutOrStdout(), "%d=%s\n", id, members[id])
					}
				})
			})
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&add, "add", "", "the new member, as `ID=HOST:PORT`; or where one has moved to")
	cmd.Flags().Uint64Var(&remove, "remove", 0, "`ID` of the member that leaves")
	out.Register(cmd)
	return cmd
}

func regroup(ctx context.Context, n *broadcast.Node, remove, id broadcast.MemberID, addr string) (err error) {
	switch {
	case remove != 0 && id != 0:
		_, err = n.ReplaceMember(ctx, remove, id, addr)
	case remove != 0:
		_, err = n.RemoveMember(ctx, remove)
	case id != 0:
		_, err = n.AddMember(ctx, id, addr)
	default:
		_, err = n.Barrier(ctx) // it may have been away
	}
	return err
}

// parseMember takes ID=HOST:PORT apart.
func parseMember(s string) (broadcast.MemberID, string, error) {
	number, addr, ok := strings.Cut(s, "=")
	id, err := strconv.ParseUint(number, 10, 64)
	if _, _, split := net.SplitHostPort(addr); !ok || err != nil || split != nil || id == 0 {
		return 0, "", fmt.Errorf("%q: want ID=HOST:PORT", s)
	}
	return broadcast.MemberID(id), addr, nil
}
