package metrics

import (
	_ "embed"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// etcds are all names of etcd 3.7.3 but those of Go and of the process.
//
//go:embed testdata/etcd.txt
var etcds string

// The page lists each name, and no other. Those of etcd are served, or the page says why not.
func TestThePageListsAllMetrics(t *testing.T) {
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	m := added(t, Config{Extensive: true}, member{})
	m.Check("livez", "serializable_read", true)
	m.Applied("Put", true, time.Millisecond)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	have, absent, _ := strings.Cut(string(page), "## Figures of etcd that are not here")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(have, -1) {
		listed[row[1]] = true
	}
	served := map[string]bool{}
	for _, f := range families {
		served[f.GetName()] = true
		if name := f.GetName(); !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			if !listed[name] {
				t.Errorf("docs/metrics.md lacks %s: %s", name, f.GetHelp())
			}
			delete(listed, name)
		}
	}
	for name := range listed {
		t.Errorf("docs/metrics.md lists %s, which is not there", name)
	}
	absent = strings.Join(regexp.MustCompile(`(?m)^\| [^|]*\|`).FindAllString(absent, -1), "\n") // without the reasons
	for name := range strings.FieldsSeq(etcds) {
		told := strings.Contains(absent, "`"+name+"`")
		for _, begin := range regexp.MustCompile("`([a-z_]+)…`").FindAllStringSubmatch(absent, -1) {
			told = told || strings.HasPrefix(name, begin[1])
		}
		if told == served[name] {
			t.Errorf("etcd's %s is served: %v, and docs/metrics.md says that it is not here: %v", name, served[name], told)
		}
	}
}
