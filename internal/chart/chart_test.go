package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCharts(t *testing.T) {
	for name, tc := range map[string]struct {
		picture interface{ SVG(io.Writer) error }
		want    []string
	}{
		"logarithmic": {
			Chart{Title: "a < b", X: "contenders", Y: "seconds", Lines: []Line{
				{"one", [][2]float64{{1, 0.01}, {10, 1}, {1000, 100}}, Marked},
				{"two & three", [][2]float64{{0, 5}, {10, 10}}, Marked},
			}},
			[]string{
				`<path d="M70.0 390.0L243.3 219.0L590.0 48.0"`, // the corners, and two decades of four up
				"two &amp; three: 10 at 10", ">0.01<", ">1000<", "a &lt; b",
			},
		},
		"distribution": {
			Chart{LinearY: true, Lines: []Line{{"reads", [][2]float64{{1, 0}, {10, 0.5}, {100, 1}}, Steps}}},
			[]string{`<path d="M70.0 390.0H330.0V219.0H590.0V48.0"`, ">0.2<", ">1<", ">100<"},
		},
		"over time": {
			Chart{LinearX: true, LinearY: true, Lines: []Line{{"x", [][2]float64{{-5, 100}, {15, 300}}, Plain}}},
			[]string{`<path d="M70.0 276.0L590.0 48.0"`, ">-5<", ">0<", ">15<", ">300<"},
		},
		"dots": {
			Chart{LinearX: true, Lines: []Line{{"writes", [][2]float64{{-5, 100}, {15, 0}, {15, 1000}}, Dots}}},
			[]string{`<path d="M70.0 390.0h0M590.0 48.0h0"`},
		},
		"bars": {
			Bars{Title: "t", Y: "ms", Groups: []string{"JP", "CA"}, Series: []Series{
				{"paper", []Bar{{Value: 80}, {Value: 100}}},
				{"<ours>", []Bar{{50, 40, 60}, {Value: 20}}},
			}},
			[]string{
				`<rect x="96.0" y="116.4" width="93.6" height="273.6" fill="#3574e2"><title>JP, paper: 80</title>`,
				`<line class="error" x1="246.8" y1="253.2" x2="246.8" y2="184.8"/>`, "CA, &lt;ours&gt;: 20", ">100<",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := tc.picture.SVG(&b); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("there is no %s in\n%s", want, b.String())
				}
			}
			for d := xml.NewDecoder(&b); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestNothingToDraw(t *testing.T) {
	for _, picture := range []interface{ SVG(io.Writer) error }{
		Chart{Lines: []Line{{"zero", [][2]float64{{0, 0}}, Marked}}},
		Ratios{},
		Bars{Groups: []string{"JP"}},
		Bars{Groups: []string{"JP"}, Series: []Series{{Name: "too few"}}},
		Bars{Groups: []string{"JP"}, Series: []Series{{Name: "too many", Bars: []Bar{{Value: 1}, {Value: 2}}}}},
	} {
		if err := picture.SVG(io.Discard); err == nil {
			t.Errorf("%+v is drawn", picture)
		}
	}
}

// A chart is drawn from its input, and leaves that as it was.
func TestLinesAreLeftAlone(t *testing.T) {
	c := Chart{Lines: []Line{{"x", [][2]float64{{0, 1}, {1, 1}}, Plain}}}
	if err := c.SVG(io.Discard); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Lines[0].Points, [][2]float64{{0, 1}, {1, 1}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTicks(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		log    bool
		want   string
	}{
		{[]float64{0, 1}, false, "0 0.2 0.4 0.6 0.8 1"},
		{[]float64{0.5, 1}, false, "0.5 0.6 0.7 0.8 0.9 1"},
		{[]float64{0.3, 1}, false, "0 0.2 0.4 0.6 0.8 1"},
		{[]float64{-5, 15}, false, "-5 0 5 10 15"},
		{[]float64{120, 270}, false, "0 50 100 150 200 250 300"},
		{[]float64{7}, false, "7 7.2 7.4 7.6 7.8 8"},
		{[]float64{0}, false, "0 0.2 0.4 0.6 0.8 1"},
		{[]float64{0.4, 270}, true, "0.1 1 10 100 1000"},
		{[]float64{3}, true, "1 10"},
	} {
		a := newAxis(tc.values, tc.log, 0, 100)
		var got []string
		for _, v := range a.ticks() {
			got = append(got, a.label(v))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%v: got %v, want %s", tc.values, got, tc.want)
		}
	}
}

// A factor of two has a bar of an octave to the right of the line, one of a half to its left, and one that
// is not known has none.
func TestRatios(t *testing.T) {
	r := Ratios{Title: "Better <than>", Bars: []Ratio{{"double", 2}, {"half & half", 0.5}, {"unknown", 0}, {"huge", 1e9}, {"tiny", 1e-9}}}
	var b bytes.Buffer
	if err := r.SVG(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`viewBox="0 0 760 154"`, "Better &lt;than&gt;</text>", `y="49" text-anchor="end">double</text>`, `text-anchor="end">half &amp; half</text>`, `text-anchor="end">unknown</text>`,
		`<rect x="430" y="37" width="60" height="16" fill="#2a9d8f"/>`, `<text x="496" y="49">2.00</text>`,
		`<rect x="370" y="59" width="60" height="16" fill="#e2703a"/>`, `<text x="436" y="71">0.50</text>`,
		`<rect x="430" y="103" width="270"`, `<rect x="280" y="125" width="150"`, `<line class="error" x1="430" y1="34" x2="430" y2="146"/>`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture has no %s in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "<rect"); n != 5 {
		t.Errorf("it has %d rectangles, want the paper and a bar for each known factor", n)
	}
}

// A picture is written to its file whole, and what stands in the way is told.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.svg")
	good := Ratios{Bars: []Ratio{{"double", 2}}}
	if err := Write(path, good); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := good.SVG(&want); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("the file has %q, %v; want %q", got, err, want.Bytes())
	}
	if err := Write(path, Ratios{}); err == nil {
		t.Error("a picture of nothing is written")
	}
	if err := Write(filepath.Join(path, "below"), good); err == nil {
		t.Error("a picture is written below a file")
	}
}
