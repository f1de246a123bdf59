package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// directoryCommands are command lines of clients of a member that has a directory. Those with ! are refused by it.
var directoryCommands = []string{
	"regroup", "regroup -o json", "regroup --add 4=h:7", "regroup --remove 3", "regroup --remove 3 --add 4=h:7 -o json", "!regroup --remove 3", "regroup --add 4", "regroup --remove 3 --add 4", "regroup --remove x", "regroup 4=h:7",
	"broadcast one two", "broadcast", "!broadcast one", "broadcast one huge three",
}

// Each of these commands asks the member, prints on each of its outputs, and exits, as is written in
// testdata/directory_commands.txt, which -rewrite writes.
func TestEachCommandOfADirectory(t *testing.T) {
	var asked []string
	refuses, position := false, 0
	dir := memberOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body)))
		switch {
		case refuses:
			http.Error(w, "odd", http.StatusConflict)
		case string(body) == "huge":
			http.Error(w, "odd", http.StatusRequestEntityTooLarge)
		case r.URL.Path == "/broadcast":
			position++
			fmt.Fprint(w, 40+position)
		default:
			fmt.Fprint(w, `{"10":"c:3","2":"b:2","1":"a:1"}`)
		}
	})
	var all strings.Builder
	for _, line := range directoryCommands {
		var words string
		words, refuses = strings.CutPrefix(line, "!")
		asked = nil
		code, out, errs := ran(t, append(strings.Fields(words), "--at", dir)...)
		fmt.Fprintf(&all, "$ tenure %s\nexit %d\n", line, code)
		for _, part := range [][2]string{{"out", out}, {"err", errs}, {"asked", strings.Join(asked, "\n")}} {
			for line := range strings.Lines(part[1]) {
				all.WriteString(part[0] + ": " + strings.TrimRight(line, "\n") + "\n")
			}
		}
	}
	golden.Lines(t, "testdata/directory_commands.txt", strings.ReplaceAll(all.String(), dir, "DIR"))
	each(rootCommand(), nil, func(cmd *cobra.Command, path []string) {
		if len(path) == 0 || path[0] != "regroup" && path[0] != "broadcast" {
			return
		}
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "at" && f.Name != "help" && f.Name != "output" && !slices.ContainsFunc(directoryCommands, func(line string) bool {
				return strings.HasPrefix(line, path[0]) && strings.Contains(line, "--"+f.Name)
			}) {
				t.Errorf("directoryCommands has no line with tenure %s --%s", path[0], f.Name)
			}
		})
	})
}
