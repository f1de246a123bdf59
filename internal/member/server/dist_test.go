package server

import (
	"encoding/json"
	"net"
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

// expressions are those of the alerts and of the dashboard that are shipped.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	var walk func(any)
	walk = func(at any) {
		switch at := at.(type) {
		case []any:
			for _, v := range at {
				walk(v)
			}
		case map[string]any:
			for k, v := range at {
				if text, ok := v.(string); ok && k == "expr" {
					all = append(all, text)
				}
				walk(v)
			}
		}
	}
	for _, name := range []string{"prometheus/alerts.yaml", "grafana/tenure.json"} {
		text, err := os.ReadFile("../../../dist/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = yaml.YAMLToJSON(text); err != nil {
			t.Fatal(err)
		}
		var of any
		if err := json.Unmarshal(text, &of); err != nil {
			t.Fatal(err)
		}
		walk(of)
	}
	if len(all) < 40 {
		t.Fatalf("there are %d expressions", len(all))
	}
	return all
}

// Each name in the alerts and in the dashboard is that of a figure, or of a label, that members serve.
func TestMembersServeTheFiguresOfTheAlerts(t *testing.T) {
	metrics := listen(t)
	first := true
	servers, endpoints := startWith(t, 2, func(c *Config) {
		c.Figures.Extensive = true
		if first {
			c.Metrics, first = []net.Listener{metrics}, false
		}
	})
	g := gatewayOf(t, endpoints[0])
	g.want("/v3/kv/put", `{"key":"Zm9v"}`)
	g.want("/v3/maintenance/alarm", `{"action":"ACTIVATE","memberID":"1","alarm":"NOSPACE"}`)
	if err := servers[0].Node.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, body := get(t, g.http, "http://"+metrics.Addr().String()+"/metrics")
	served := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^([a-z_]+)(\{.*\})? `).FindAllStringSubmatch(body, -1) {
		served[line[1]] = true
		for _, label := range regexp.MustCompile(`([a-zA-Z_]+)="`).FindAllStringSubmatch(line[2], -1) {
			served[label[1]] = true
		}
	}
	asked := map[string]bool{}
	for _, expr := range expressions(t) {
		for _, name := range regexp.MustCompile(`\b(etcd|tenure|grpc|process|go)_[a-z_]+`).FindAllString(expr, -1) {
			if asked[name] = true; !served[name] {
				t.Errorf("%s asks for %s, which no member serves", expr, name)
			}
		}
	}
	if len(asked) < 30 {
		t.Errorf("%d names are asked for: %v", len(asked), asked)
	}
}
