package dist

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// A course is what some members told, one sample a minute, in promtool's notation: 1x3 is four times 1, and
// 0+2x3 is 0 2 4 6.
type course struct {
	name    string
	series  string
	minutes int
	fires   string // the labels of the alert that must fire; empty: none may
}

type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// memory holds series for queries.
type memory []storage.Series

func (m memory) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		return &set{at: -1, series: slices.DeleteFunc(slices.Clone(m), func(s storage.Series) bool {
			return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) })
		})}
	}}, nil
}

type set struct {
	at     int
	series []storage.Series
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

// told reads the samples of a course. A series without a job is of job tenure.
func told(t *testing.T, text string) (all memory) {
	t.Helper()
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		of, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if of.Get("job") == "" {
			of = labels.NewBuilder(of).Set("job", "tenure").Labels()
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{int64(i) * time.Minute.Milliseconds(), v.Value})
			}
		}
		all = append(all, storage.NewListSeries(of, samples))
	}
	return all
}

// firing returns the labels of an alert that fires within some minutes: its expression has held, at each
// minute, for as long as the rule says. Prometheus judges a rule in the same way.
func firing(t *testing.T, a rule, m memory, minutes int) (fired []labels.Labels) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer engine.Close()
	begin := time.Unix(0, 0)
	q, err := engine.NewRangeQuery(context.Background(), m, nil, a.Expr, begin, begin.Add(time.Duration(minutes)*time.Minute), time.Minute)
	if err != nil {
		t.Fatal(a.Alert, err)
	}
	defer q.Close()
	matrix, err := q.Exec(context.Background()).Matrix()
	if err != nil {
		t.Fatal(a.Alert, err)
	}
	hold, err := model.ParseDuration(a.For)
	if err != nil {
		t.Fatal(a.Alert, err)
	}
	for _, s := range matrix {
		since, last := int64(-1), int64(0)
		for _, p := range s.Floats {
			if since < 0 || p.T > last+time.Minute.Milliseconds() {
				since = p.T
			}
			last = p.T
			if last-since >= time.Duration(hold).Milliseconds() {
				fired = append(fired, s.Metric)
				break
			}
		}
	}
	return fired
}

// Each alert fires for the courses in which it must, with the labels that its summary names, and not for those
// that come close.
func TestAlertsFire(t *testing.T) {
	all := alerts(t)
	for _, a := range all {
		fire, quiet := 0, 0
		for _, c := range courses[a.Alert] {
			fired := firing(t, a, told(t, c.series), c.minutes)
			if c.fires == "" {
				if quiet++; len(fired) > 0 {
					t.Errorf("%s fires for %v: %s", a.Alert, fired, c.name)
				}
				continue
			}
			fire++
			if len(fired) != 1 || fired[0].MatchLabels(false, "__name__").String() != c.fires {
				t.Errorf("%s fires for %v, want %s: %s", a.Alert, fired, c.fires, c.name)
				continue
			}
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(a.Annotations["summary"], -1) {
				if fired[0].Get(m[1]) == "" {
					t.Errorf("the summary of %s names %s, which the alert has not: %v", a.Alert, m[1], fired[0])
				}
			}
		}
		if fire == 0 || quiet == 0 {
			t.Errorf("%s has %d courses in which it fires and %d in which it does not, want some of each", a.Alert, fire, quiet)
		}
	}
	for name := range courses {
		if !slices.ContainsFunc(all, func(a rule) bool { return a.Alert == name }) {
			t.Errorf("there are courses of %s, which is no alert", name)
		}
	}
}

// No alert fires while all is well.
func TestNoAlertOfAHealthyCluster(t *testing.T) {
	m := told(t, healthy)
	for _, a := range alerts(t) {
		if fired := firing(t, a, m, 360); len(fired) > 0 {
			t.Errorf("%s fires for a healthy cluster: %v", a.Alert, fired)
		}
	}
}
