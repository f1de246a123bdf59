package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/internal/cli"
)

// deliveredMessage is what `tenure deliver -o json` prints, one a line.
type deliveredMessage struct {
	Position broadcast.Position `json:"position"`
	Client   string             `json:"client"`
	Seq      uint64             `json:"seq"`
	Payload  []byte             `json:"payload"`        // base64: it may be anything
	Text     *string            `json:"text,omitempty"` // the same, if it is UTF-8
	// Members are set by a change of the members, which has no payload.
	Members map[broadcast.MemberID]string `json:"members,omitempty"`
}

func deliverCommand() *cobra.Command {
	var o memberOptions
	var out cli.Output
	var from, count uint64
	cmd := &cobra.Command{
		Use:   "deliver",
		Short: "Print the messages of a group in their order",
		Long: `Runs a member of a group, and prints what is broadcast in it, with positions from 1 on, without gaps, the same at all members; until it is interrupted or removed, or for
--count messages. What does not fit on a line of its own is printed in quotes; a message
without payload is a (barrier), a change of the members (members ID=HOST:PORT …). -o json
has payloads in base64, and as text if they are. Nothing is ever trimmed from its disk:
this is for trying package broadcast, whose users make snapshots and trim.

--members names all of the group, the same at each, and --id says which one this process
is. What it must not forget is below --data-dir, and it goes on there when it is started
again; then the log knows the members, which tenure regroup changes. One that comes back with
an empty directory, or an older copy, is refused by the others: remove it, and add another. A
majority has to run, and at the first start more than half of the other members of each: of
three all. There is no server besides. Clients on this machine (tenure broadcast, tenure
regroup) use the socket in --data-dir. Who can listen in on the network, or take a
member's address, can speak for it: for a trusted network.`,
		Example: `  tenure deliver --id 1 --members 1=localhost:7001,2=localhost:7002,3=localhost:7003 --data-dir member1
  tenure deliver --id 1 --members $M --data-dir member1 --from 17 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd, func(ctx context.Context, n *broadcast.Node) error {
				for m, err := range n.Deliver(ctx, broadcast.Position(from)) {
					if ctx.Err() != nil {
						return nil // this is how it ends
					}
					if err == nil && out == "json" {
						err = cli.Line(cmd.OutOrStdout(), delivered(m))
					} else if err == nil {
						_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d\t%s\n", m.Position, shown(m))
					}
					if err != nil {
						return err
					}
					if count--; count == 0 {
						return nil
					}
				}
				return nil
			})
		},
	}
	o.flags(cmd)
	cmd.Flags().Uint64Var(&from, "from", 1, "first `position` to print")
	cmd.Flags().Uint64Var(&count, "count", 0, "stop after this `number` of messages; 0: do not")
	out.Register(cmd)
	return cmd
}

func delivered(m broadcast.Message) deliveredMessage {
	d := deliveredMessage{Position: m.Position, Client: m.Client.String(), Seq: m.Seq, Payload: m.Payload, Members: m.Members}
	if text := string(m.Payload); utf8.ValidString(text) && m.Members == nil {
		d.Text = &text
	}
	return d
}

// shown is a message on one line that can be taken for no other.
func shown(m broadcast.Message) string {
	text := string(m.Payload)
	switch {
	case m.Members != nil:
		list := "(members"
		for _, id := range slices.Sorted(maps.Keys(m.Members)) {
			list += fmt.Sprintf(" %d=%s", id, m.Members[id])
		}
		return list + ")"
	case text == "":
		return "(barrier)"
	case text[0] == '"' || text[0] == '(' || !printable(text):
		return strconv.Quote(text)
	}
	return text
}

func printable(text string) bool {
	for _, r := range text {
		if !strconv.IsPrint(r) || r == utf8.RuneError {
			return false
		}
	}
	return true
}
