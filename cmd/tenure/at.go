package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine"
)

// defaultAt is where leases are kept unless --at or TENURE_AT says otherwise.
const defaultAt = "etcd://127.0.0.1:2379"

// atFlag registers --at.
func atFlag(flags *pflag.FlagSet, at *string) {
	flags.StringVar(at, "at", cmp.Or(os.Getenv("TENURE_AT"), defaultAt),
		"engine `URL`: etcd://host:port,… or etcds://…?cacert=F&cert=F&key=F; also by TENURE_AT")
}

// openAt opens the engine, with the exit code that trouble deserves.
func openAt(ctx context.Context, at string) (tenure.Leaser, error) {
	l, err := engine.Open(ctx, at)
	if err != nil {
		return nil, exitError{exitUnavailable, fmt.Errorf("%w (--at or TENURE_AT names the server; `tenure serve` starts one)", err)}
	}
	return l, nil
}

// output is the form in which a command prints.
type output string

// outputFlag registers -o.
func outputFlag(cmd *cobra.Command, o *output) {
	*o = "table"
	cmd.Flags().VarP(o, "output", "o", "`form` of the output: table or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) String() string { return string(*o) }
func (o *output) Type() string   { return "form" }
func (o *output) Set(s string) error {
	if s != "table" && s != "json" {
		return fmt.Errorf("want table or json")
	}
	*o = output(s)
	return nil
}

// print writes v as JSON, or calls table.
func (o output) print(w io.Writer, v any, table func()) error {
	if o == "table" {
		table()
		return nil
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
