// Package dist has the tests of the alerts, the dashboard, the units and the package.
package dist

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(read(t, "prometheus/alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 15 {
		t.Fatalf("there are %d alerts", len(all))
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// metrics are the names and labels in docs/metrics.md, of which a test of the members' figures says that it has
// each of them and no other, and those of Prometheus and its library that are used here.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{"up": nil, "process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil}
	var before []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(read(t, "../docs/metrics.md")), -1) {
		name, kind := row[1], row[2]
		of := strings.FieldsFunc(row[3], func(r rune) bool { return r == ',' || r == ' ' })
		if strings.HasPrefix(name, "grpc_") {
			of = []string{"grpc_type", "grpc_service", "grpc_method", "grpc_code"} // the table has them once
		}
		if before = of; kind == "histogram" {
			known[name+"_count"], known[name+"_sum"] = of, of
			name, of = name+"_bucket", append(before, "le")
		}
		known[name] = of
	}
	if len(known) < 50 {
		t.Fatalf("docs/metrics.md lists %d", len(known))
	}
	return known
}

// wrong says which names and labels of an expression are not there.
func wrong(t *testing.T, expr string, known map[string][]string) (all []string) {
	t.Helper()
	for _, variable := range []string{"$__rate_interval", "$__interval"} {
		expr = strings.ReplaceAll(expr, variable, "5m")
	}
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	may := []string{"job", "instance"}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			of, ok := known[v.Name]
			if !ok {
				all = append(all, "no metric "+v.Name)
			}
			may = append(may, of...)
			job := false
			for _, m := range v.LabelMatchers {
				job = job || m.Name == "job"
				if m.Name != "__name__" && !slices.Contains(append(of, "job", "instance"), m.Name) {
					all = append(all, v.Name+" has no label "+m.Name)
				}
			}
			if !job {
				all = append(all, v.Name+" of any job")
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok {
			for _, by := range a.Grouping {
				if !slices.Contains(may, by) {
					all = append(all, "nothing has the label "+by)
				}
			}
		}
		return nil
	})
	return all
}

// Each alert has an expression over figures that members have, a time, a severity and words about it.
func TestAlerts(t *testing.T) {
	known := metrics(t)
	for _, a := range alerts(t) {
		for _, w := range wrong(t, a.Expr, known) {
			t.Errorf("%s: %s", a.Alert, w)
		}
		if a.For == "" || !slices.Contains([]string{"info", "warning", "critical"}, a.Labels["severity"]) || a.Annotations["summary"] == "" {
			t.Errorf("%s lacks a time, a severity or a summary", a.Alert)
		}
		for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(a.Annotations["summary"], -1) {
			if !strings.Contains(a.Expr, "by (") && m[1] != "job" && m[1] != "instance" || strings.HasPrefix(a.Expr, "count by (job)") && m[1] != "job" {
				t.Errorf("the summary of %s names %s, which the expression has not", a.Alert, m[1])
			}
		}
	}
	for expr, want := range map[string]string{
		`up{job="x"} > 0`:              "",
		`odd{job="x"}`:                 "no metric odd",
		`up{job="x", to="y"}`:          "up has no label to",
		`up`:                           "up of any job",
		`sum by (odd) (up{job="x"})`:   "nothing has the label odd",
		`up{job="x"`:                   "parse error",
		`tenure_leases_total{job="x"}`: "no metric tenure_leases_total",
		`rate(tenure_reads_total{job="x"}[$__rate_interval])`: "",
	} {
		if got := strings.Join(wrong(t, expr, known), "; "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// Each alert has a section of the runbook, which its annotation links to, and no section is of none.
func TestRunbook(t *testing.T) {
	page := string(read(t, "../docs/runbook.md"))
	var names, sections []string
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		if link := a.Annotations["runbook_url"]; !strings.HasSuffix(link, "/docs/runbook.md#"+strings.ToLower(a.Alert)) {
			t.Errorf("%s links to %q", a.Alert, link)
		}
	}
	for i, part := range strings.Split(page, "\n## ") {
		if i == 0 {
			continue
		}
		name, text, _ := strings.Cut(part, "\n")
		sections = append(sections, name)
		for _, word := range []string{"**Meaning.** ", "**Look.** ", "**Do.** "} {
			if !strings.Contains(text, word) {
				t.Errorf("the section of %s lacks %s", name, word)
			}
		}
	}
	slices.Sort(names)
	if slices.Sort(sections); !slices.Equal(names, sections) {
		t.Errorf("the alerts are %q, and the runbook has %q", names, sections)
	}
}

// Each panel of the dashboard asks for figures that members have.
func TestDashboard(t *testing.T) {
	known := metrics(t)
	var board struct {
		Templating struct{ List []struct{ Name string } }
		Panels     []struct {
			ID         int
			Type       string
			Title      string
			Datasource map[string]string
			GridPos    struct{ H, W, X, Y int }
			Targets    []struct{ Expr string }
		}
	}
	text := read(t, "grafana/tenure.json")
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	variables := []string{"__rate_interval"}
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
	}
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(variables, m[1]) {
			t.Errorf("the dashboard has no variable %s", m[1])
		}
	}
	ids, asked := map[int]bool{}, 0
	for i, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the ID %d", p.ID)
		}
		ids[p.ID] = true
		for _, q := range board.Panels[:i] {
			a, b := p.GridPos, q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q lies over %q", p.Title, q.Title)
			}
		}
		for _, target := range p.Targets {
			asked++
			for _, w := range wrong(t, target.Expr, known) {
				t.Errorf("%s: %s", p.Title, w)
			}
		}
		if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource["uid"] != "${datasource}") {
			t.Errorf("%q asks for nothing, or not the chosen source", p.Title)
		}
	}
	if asked < 20 {
		t.Errorf("the dashboard asks for %d figures", asked)
	}
}
