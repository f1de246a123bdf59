package dist

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The files of the package are there, or are made by `make`.
func TestPackagedFiles(t *testing.T) {
	var p struct {
		Scripts  map[string]string `json:"scripts"`
		Contents []struct {
			Src, Dst, Type string
			FileInfo       struct{ Mode any } `json:"file_info"`
		} `json:"contents"`
	}
	if err := yaml.Unmarshal(read(t, "debian/nfpm.yaml"), &p); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, script := range p.Scripts {
		files = append(files, script)
		if info, err := os.Stat(filepath.Join("..", script)); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s is no script: %v", script, err)
		}
	}
	for _, c := range p.Contents {
		files = append(files, c.Src)
		made := strings.HasPrefix(c.Src, "bin/static/") || strings.HasPrefix(c.Src, "bin/man/") || strings.HasPrefix(c.Src, "bin/completion/")
		if found, err := filepath.Glob(filepath.Join("..", c.Src)); !made && (err != nil || len(found) == 0) {
			t.Errorf("there is no %s, %v", c.Src, err)
		}
	}
	if len(files) < 12 {
		t.Errorf("the package is of %d files", len(files))
	}
}
