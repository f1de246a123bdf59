package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help of a flag says what its value is, and not of which type, and shows no quotes that were meant for
// the library. (A word in backquotes is the value's name, and only the first is.)
func TestFlagsNameTheirValues(t *testing.T) {
	types := []string{"", "string", "strings", "stringArray", "int", "ints", "int64", "uint", "uint16", "uint32", "uint64", "float", "float64", "value"}
	each(rootCommand(), []string{"tenure"}, func(cmd *cobra.Command, path []string) {
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			name, usage := pflag.UnquoteUsage(f)
			at := strings.Join(path, " ") + " --" + f.Name
			if strings.Contains(name+usage, "`") {
				t.Errorf("%s: the help shows a backquote: %s %s", at, name, usage)
			}
			switch isSwitch := f.Value.Type() == "bool"; {
			case isSwitch && name != "":
				t.Errorf("%s is a switch, and the help shows a value %q", at, name)
			case !isSwitch && (slices.Contains(types, name) || strings.Contains(name, " ")):
				t.Errorf("%s: the help names its value %q", at, name)
			}
			if strings.Contains(name, "tenure") {
				t.Errorf("%s: the help takes a command for the name of its value: %q", at, name)
			}
		})
	})
}
