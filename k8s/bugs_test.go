package k8s

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

// Each file of testdata/bugs breaks a rule of this module, and the test that it names notices. It has the form of
// the planted bugs of the main module (internal/lab/mutant), which are played in one program with it.
func TestPlantedBugs(t *testing.T) {
	files, err := filepath.Glob("testdata/bugs/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d planted bugs, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, edits, err := mutant.Edits(file)
			if err != nil {
				t.Fatal(err)
			}
			caught := regexp.MustCompile(`(?m)^caught by: (Test\w+)$`).FindSubmatch(text)
			says := regexp.MustCompile(`(?m)^says: (.+)$`).FindSubmatch(text)
			if caught == nil || says == nil {
				t.Fatal("it names no test and its words")
			}
			root, err := filepath.Abs("..")
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := mutant.Plant(root, t.TempDir(), edits, nil)
			if err != nil {
				t.Fatal(err)
			}
			if testing.Short() {
				t.Skip("each is a program of its own")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-run", "^"+string(caught[1])+"$", "-count=1", "-timeout", "2m", ".").CombinedOutput()
			if err == nil || !strings.Contains(string(out), string(says[1])) {
				t.Errorf("%s does not say %q, but %v:\n%.3000s", caught[1], says[1], err, out)
			}
		})
	}
}
