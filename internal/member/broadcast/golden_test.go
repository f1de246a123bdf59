package broadcast

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// WantFile compares lines with those of a file, and shows the first that differ.
func WantFile(t *testing.T, file, got string) {
	t.Helper()
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(kept), "\n")
	lines := strings.Split(got, "\n")
	for i := range max(len(want), len(lines)) {
		is, was := "", ""
		if i < len(lines) {
			is = lines[i]
		}
		if i < len(want) {
			was = want[i]
		}
		if is != was {
			t.Fatalf("line %d is\n%s\nand %s has\n%s", i+1, is, file, was)
		}
	}
}
