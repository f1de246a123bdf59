package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSummary(t *testing.T) {
	var all []time.Duration
	for i := 200; i >= 1; i-- {
		all = append(all, time.Duration(i)*time.Millisecond)
	}
	got := Summary(all, 4*time.Second, 2*time.Second)
	if want := (Result{Rate: 50, P50: 101 * time.Millisecond, P99: 199 * time.Millisecond, CPU: 10 * time.Millisecond}); got != want {
		t.Errorf("the summary is %+v, want %+v", got, want)
	}
	if got := Summary(nil, time.Second, time.Second); got != (Result{}) {
		t.Errorf("of nothing it is %+v, want nothing", got)
	}
}

var measuredRuns = []Result{
	{Case: "put", Target: "etcd", Rate: 100, CPU: 30_000, P50: 5e6, P99: 9e6, Bytes: 400, Local: 0.1},
	{Case: "get", Target: "etcd", Rate: 7, P99: 1e6},
	{Case: "put", Target: "tenure", Rate: 400, CPU: 10_000, P50: 4e6, P99: 3e6, Bytes: 200, Local: 0.5},
	{Case: "put", Target: "tenure", Rate: 200, CPU: 20_000, P50: 2e6, P99: 2e6, Bytes: 100, Local: 0.7},
	{Case: "put", Target: "etcd", Rate: 120, CPU: 32_000, P50: 6e6, P99: 8e6, Bytes: 410, Local: 0.2},
	{Case: "put", Target: "etcd", Rate: 90, CPU: 90_000, P50: 7e6, P99: 70e6, Bytes: 300, Local: 0.3},
	{Case: "put", Target: "tenure", Rate: 300, CPU: 16_000, P50: 3e6, P99: 1e6, Bytes: 300, Local: 0.6},
}

// Each value of a median is the median of that value, and a factor above 1 is always for the better.
func TestMediansAndFactors(t *testing.T) {
	medians := Medians(measuredRuns)
	want := []Result{
		{Case: "put", Target: "etcd", Run: 3, Rate: 100, CPU: 32_000, P50: 6e6, P99: 9e6, Bytes: 400, Local: 0.2},
		{Case: "put", Target: "tenure", Run: 3, Rate: 300, CPU: 16_000, P50: 3e6, P99: 2e6, Bytes: 200, Local: 0.6},
		{Case: "get", Target: "etcd", Run: 1, Rate: 7, P99: 1e6},
	}
	if !slices.Equal(medians, want) {
		t.Errorf("the medians are\n%+v, want\n%+v", medians, want)
	}
	if got, want := Better(medians[0], medians[1]), (Ratios{Rate: 3, P50: 2, P99: 4.5, CPU: 2, Bytes: 2}); got != want {
		t.Errorf("the factors are %+v, want %+v", got, want)
	}
	if got, want := Better(Result{Rate: 1}, Result{P50: 1}), (Ratios{}); got != want {
		t.Errorf("of what was not measured the factors are %+v, want none", got)
	}
}

// The table has a line for each result, and the columns of which there is a value.
func TestTable(t *testing.T) {
	var b bytes.Buffer
	Table(&b, Medians(measuredRuns), "etcd")
	want := `
  case  server  ops/s     ×  p50     ×  p99     ×  CPU/op     ×  bytes     ×
   put    etcd    100        6ms        9ms          32µs          400      
        tenure    300  3.00  3ms  2.00  2ms  4.50    16µs  2.00    200  2.00
   get    etcd      7                   1ms                                 
`
	if b.String() != want[1:] {
		t.Errorf("the table is\n%s, want\n%s", b.String(), want)
	}
	b.Reset()
	Table(&b, []Result{{Case: "put", Target: "a", Rate: 2}}, "")
	if got := strings.Fields(b.String()); !slices.Equal(got, []string{"case", "server", "ops/s", "×", "put", "a", "2"}) {
		t.Errorf("the table of a rate is %q, want no other column", got)
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "", 1234: "1.2µs", 123_456: "123.5µs", 12_345_678: "12.35ms", 1_234_567_890: "1.23s",
	} {
		if got := Brief(d); got != want {
			t.Errorf("%d ns are %q, want %q", d, got, want)
		}
	}
}

// A plan measures each case on each target in turn, the order turns from run to run, and a failure keeps what there is.
func TestPlan(t *testing.T) {
	one, two := &still{members: 1}, &still{members: 1}
	var order []string
	fault := errors.New("the third put fails")
	c := func(name string) Case {
		return Case{Name: name, Run: func(_ context.Context, l *Load) (Result, error) {
			if l.Clients != 5 || l.Time != time.Minute || l.Prefix != "p/" {
				t.Errorf("%s is measured by %+v, want the plan's load", name, l)
			}
			order = append(order, fmt.Sprintf("%s%d", name, map[Target]int{one: 1, two: 2}[l.Target]))
			if len(order) == 7 {
				return Result{}, fault
			}
			return Result{Rate: float64(len(order))}, nil
		}}
	}
	p := Plan{Targets: []NamedTarget{{"one", one}, {"two", two}}, Cases: []Case{c("put"), c("get")}, Runs: 3, Clients: 5, Time: time.Minute, Prefix: "p/"}
	if p.Steps() != 12 {
		t.Errorf("it has %d steps, want 12", p.Steps())
	}
	told := 0
	results, err := p.Run(t.Context(), func(Result) { told++ })
	if !errors.Is(err, fault) || !strings.Contains(err.Error(), "get at two") && !strings.Contains(err.Error(), "put at one") {
		t.Errorf("the error is %v, want the case, the target and the cause", err)
	}
	if got, want := strings.Join(order, " "), "put1 put2 get1 get2 put2 put1 get2"; got != want {
		t.Errorf("the order is %s, want %s", got, want)
	}
	if len(results) != 6 || told != 6 || results[4] != (Result{Case: "put", Target: "two", Run: 1, Rate: 5}) && results[4].Target != "two" {
		t.Errorf("%d results are %+v and %d are told, want the six before the failure", len(results), results, told)
	}
	if len(one.asked) == 0 || len(two.asked) == 0 {
		t.Error("keys are not deleted after a failure")
	}
}

// Keys that cannot be deleted are an error that names them.
func TestPlanTellsKeysThatAreLeft(t *testing.T) {
	p := Plan{Targets: []NamedTarget{{"one", &still{members: 1}}}, Runs: 1, Prefix: "left/"}
	if _, err := p.Run(t.Context(), func(Result) {}); err == nil || !strings.Contains(err.Error(), "keys below left/ are left at one") {
		t.Errorf("the error is %v, want the prefix and the target", err)
	}
}

// Without a prefix nothing is measured, and nothing deleted: the keys would be everybody's.
func TestNoPrefixDeletesNothing(t *testing.T) {
	s := &still{members: 1}
	p := Plan{Targets: []NamedTarget{{"one", s}}, Runs: 1, Cases: []Case{{Name: "put", Run: func(context.Context, *Load) (Result, error) {
		t.Error("a case is measured without a prefix")
		return Result{}, nil
	}}}}
	if _, err := p.Run(t.Context(), func(Result) {}); !errors.Is(err, errNoPrefix) {
		t.Errorf("a plan without a prefix returns %v, want it refused", err)
	}
	if err := p.load(p.Targets[0]).Clean(t.Context()); !errors.Is(err, errNoPrefix) || len(s.asked) > 0 {
		t.Errorf("cleaning without a prefix returns %v and asks members %v, want nothing deleted", err, s.asked)
	}
}

// Words choose cases by a part of their names; one that chooses none is not taken.
func TestNamed(t *testing.T) {
	names := func(cases []Case) (list []string) {
		for _, c := range cases {
			list = append(list, c.Name)
		}
		return list
	}
	if all, ok := Named(nil); !ok || len(all) != len(Cases) {
		t.Errorf("without a word there are %d cases, want all %d", len(all), len(Cases))
	}
	if got, ok := Named([]string{"lock", "get-f", "follower"}); !ok || !slices.Equal(names(got), []string{"get-follower", "keepalive-follower", "lock"}) {
		t.Errorf("the cases are %q, want those of the words, each once", names(got))
	}
	if got, ok := Named([]string{"put", "nonsense"}); ok || got != nil {
		t.Errorf("a word in no name chooses %q, want it refused", names(got))
	}
	seen := map[string]bool{}
	for _, c := range Cases {
		if c.Text == "" || seen[c.Name] {
			t.Errorf("case %q has the text %q; want a name of its own and a text", c.Name, c.Text)
		}
		seen[c.Name] = true
	}
}

func TestWhereMetricsAre(t *testing.T) {
	for _, tt := range []struct {
		endpoint  string
		encrypted bool
		want      string
	}{
		{"a:1", false, "http://a:1/metrics"}, {"a:1", true, "https://a:1/metrics"},
		{"http://a:1", false, "http://a:1/metrics"}, {"http://a:1/", true, "https://a:1/metrics"},
		{"https://a:1", true, "https://a:1/metrics"}, {"unix:///run/s", false, ""}, {"unixs://s", true, ""},
	} {
		if got := metricsAt(tt.endpoint, tt.encrypted); got != tt.want {
			t.Errorf("%s, encrypted %v: %q, want %q", tt.endpoint, tt.encrypted, got, tt.want)
		}
	}
}

// The CPU time is the sum of what all members tell, and unknown if one does not.
func TestCPUOfAllMembers(t *testing.T) {
	serve := func(status int, text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	good := serve(200, "process_cpu_seconds_total_else 9\nprocess_cpu_seconds_total 1.5\nother 7\n")
	for _, tt := range []struct {
		second string
		want   time.Duration
	}{
		{serve(200, "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 2.25\n"), 3750 * time.Millisecond},
		{serve(404, "process_cpu_seconds_total 2\n"), 0}, {serve(200, "nothing 1\n"), 0},
		{serve(200, "process_cpu_seconds_total much\n"), 0}, {"http://127.0.0.1:1", 0}, {"", 0}, {"http://[", 0},
	} {
		c := &Cluster{http: http.DefaultClient, members: []member{{metrics: good}, {metrics: tt.second}}}
		if got := c.CPU(t.Context()); got != tt.want {
			t.Errorf("beside %q the CPU time is %v, want %v", tt.second, got, tt.want)
		}
	}
}

// The page has the figures, the pictures, and all that is needed to measure them again. Names cannot break it.
func TestReport(t *testing.T) {
	r := Report{
		Title: "Measured <here>", Began: time.Unix(1e9, 0), Command: "tenure bench server --at <x>", Baseline: "etcd", Beside: "the other <etcd>",
		Facts: [][2]string{{"load", "a machine & more"}}, Medians: Medians(measuredRuns), Runs: measuredRuns,
	}
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"<title>Measured &lt;here&gt;</title>", "Medians of 3 runs, begun at 2001-09-09T01:46:40Z.", "than that of the other &lt;etcd&gt;.", "Better than the other &lt;etcd&gt; by a factor",
		`<th scope="col">CPU/op</th>`, "<td>300</td><td>3.00</td>", "<code>tenure bench server --at &lt;x&gt;</code>", "a machine &amp; more",
		"factor of: operations a second", "factor of: CPU of the servers", "factor of: latency, 99th", "put, tenure</text>",
		"<dt>lock</dt><dd>one concurrency.Mutex", "100", "120",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(page, "<svg"); n != 3 {
		t.Errorf("it has %d pictures, want 3", n)
	}
	r.Baseline, r.Medians = "", Medians(measuredRuns[:1])
	b.Reset()
	if err := r.HTML(&b); err != nil || strings.Contains(b.String(), "<svg") || strings.Contains(b.String(), "better than that") {
		t.Errorf("the page of one target is %v, %s; want no comparison", err, b.String())
	}
}
