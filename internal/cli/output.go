package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Output is the form in which a command prints: "table" or "json".
type Output string

// Register gives a command the flag -o, which sets the form. It is "table" by default.
func (o *Output) Register(cmd *cobra.Command) {
	*o = "table"
	cmd.Flags().VarP(o, "output", "o", "`form` of the output: table or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *Output) String() string { return string(*o) }
func (o *Output) Type() string   { return "form" }
func (o *Output) Wants() string  { return "table or json" }
func (o *Output) Set(s string) error {
	if s != "table" && s != "json" {
		return fmt.Errorf("want %s", o.Wants())
	}
	*o = Output(s)
	return nil
}

// Print writes v as JSON, or calls table.
func (o Output) Print(w io.Writer, v any, table func()) error {
	if o == "table" {
		table()
		return nil
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(Listed(v))
}
