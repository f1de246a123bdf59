package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Each command has these flags, with these short forms and defaults: scripts go by them. The meaning of
// each flag has a test of its own. Those of serve are in TestServeDefaults.
func TestFlagsOfEachCommand(t *testing.T) {
	t.Setenv("TENURE_AT", "")
	want, err := os.ReadFile("testdata/flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	each(rootCommand(), []string{"tenure"}, func(cmd *cobra.Command, path []string) {
		if cmd.Name() == "serve" {
			return
		}
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			fmt.Fprintf(&got, "%s --%s -%s %s=%q bare=%q hidden=%v\n", strings.Join(path, " "), f.Name, f.Shorthand, f.Value.Type(), f.DefValue, f.NoOptDefVal, f.Hidden)
		})
		if cmd.Hidden {
			fmt.Fprintf(&got, "%s is hidden\n", strings.Join(path, " "))
		}
	})
	has, wants := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(has), len(wants)) {
		line := func(all []string) string {
			if i < len(all) {
				return all[i]
			}
			return "nothing"
		}
		if line(has) != line(wants) {
			t.Fatalf("line %d of all flags is\n%s\nwant (testdata/flags.txt)\n%s", i+1, line(has), line(wants))
		}
	}
}

// A setting of etcd's without effect is taken, and is not in the help: nobody is to choose it. A switch needs no value.
func TestForeignSettingsAreHidden(t *testing.T) {
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	registerForeign(f)
	f.VisitAll(func(flag *pflag.Flag) {
		bare := map[string]string{"bool": "true", "string": ""}[flag.Value.Type()]
		if !flag.Hidden || flag.NoOptDefVal != bare || flag.DefValue != "" {
			t.Errorf("--%s: hidden %v, %q without a value, %q by default; want it hidden, %q and nothing", flag.Name, flag.Hidden, flag.NoOptDefVal, flag.DefValue, bare)
		}
	})
}
