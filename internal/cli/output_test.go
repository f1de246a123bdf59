package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Output is a table or JSON, and nothing else.
func TestOutput(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{{nil, "table"}, {[]string{"-o", "table"}, "table"}, {[]string{"--output", "json"}, "{\n  \"a\": 1\n}\n"}} {
		var o Output
		var b strings.Builder
		cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error {
			return o.Print(&b, map[string]int{"a": 1}, func() { b.WriteString("table") })
		}}
		o.Register(cmd)
		cmd.SetArgs(append([]string{}, tt.args...)) // nil would be the test's own arguments
		if err := cmd.Execute(); err != nil || b.String() != tt.want {
			t.Errorf("%q prints %q, %v; want %q", tt.args, &b, err, tt.want)
		}
	}
	var o Output
	for _, form := range []string{"yaml", "", "JSON", "tables"} {
		if err := o.Set(form); err == nil || err.Error() != "want table or json" || o != "" {
			t.Errorf("the form %q is %q, %v; want it refused", form, o, err)
		}
	}
}
