package main

import (
	"bytes"
	stdhtml "html"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/widearea"
)

// controlsReport has deaths under our protocol and the paper's, and a sweep.
func controlsReport() widearea.Report {
	toll := func(control string, lease, guard, grace, wait, messages float64) widearea.Toll {
		return widearea.Toll{
			Policy: "quorum/key", Site: "VA", Control: control, Length: lease, Guard: guard, Grace: grace, Deaths: 3, Messages: messages,
			Before: [][2]float64{{-1, 0.5}, {-0.5, 0.9}},
			Held:   widearea.Writes{Slowest: 1000 * wait, Series: [][2]float64{{-1, 85}, {1, 1000 * wait}}},
			Other:  widearea.Writes{Slowest: 170, Series: [][2]float64{{-1, 85}}},
		}
	}
	r := widearea.Report{Paper: widearea.ThePaper}
	r.Measured.Deaths = []widearea.Toll{{Policy: "quorum/key", Site: "VA"}}
	r.Measured.Controls = widearea.ControlReport{
		Deaths: []widearea.Toll{toll("", 1, 0, 0, 1.15, 160), toll("pushed", 2, 2, 5, 8.75, 80), toll("the paper's", 2, 2, 5, 8.5, 80)},
		Sweep: []widearea.Toll{
			toll("", 1, 0, 0, 1.15, 160), toll("pushed", 2, 2, 5, 8.75, 80), toll("pushed", 1, 2, 5, 7.75, 160),
			toll("pushed", 2, 1, 5, 7.5, 80), toll("pushed", 2, 2, 2.5, 6.5, 80), toll("pushed", 1, 1, 2.5, 4.25, 160),
		},
	}
	shift := func(control string, lease, guard, after float64) widearea.Shift {
		return widearea.Shift{
			Control: control, Length: lease, Guard: guard, Changes: 3, Local: [][2]float64{{-0.5, 1}, {0, after}},
			Before: widearea.ShiftOperations{Local: 1, MeanWrite: 122}, After: widearea.ShiftOperations{Local: after, MeanWrite: 89},
		}
	}
	r.Measured.Controls.Changes = []widearea.Shift{shift("", 1, 0, 0.98), shift("lapse", 2, 2, 0.91), shift("abide", 2, 2, 0.97)}
	return r
}

func TestControlsReport(t *testing.T) {
	r := controlsReport()
	drawn := map[string]int{}
	var figures []figure
	for _, d := range controlDrawings(r) {
		drawn[d.part]++
		var b bytes.Buffer
		if err := d.picture.SVG(&b); err != nil {
			t.Errorf("%s %s: %v", d.part, d.name, err)
		}
		figures = append(figures, figure{d.part, d.name, b.Bytes()})
	}
	if drawn[partControls] != 3+1+1+1 || drawn[partControlSweep] != 2 {
		t.Errorf("drawn: %v", drawn)
	}
	var html, table bytes.Buffer
	if err := quorumLeasesHTML(&html, r, figures); err != nil {
		t.Fatal(err)
	}
	quorumLeasesTable(&table, r)
	for text, wants := range map[string][]string{
		stdhtml.UnescapeString(html.String()): {
			"Promises pushed, 5+2+2 s: the replica at VA dies", "<td>the paper's, 5+2+2 s<td>quorum/key<td>VA<td>3<td>8.50<td>0.17<td>9.00",
			"<td>asked for, 1 s<td>quorum/key<td>VA<td>3<td>1.15<td>0.17<td>-", "Longest wait after a holder's death",
		},
		table.String(): {"pushed, 2.5+1+1 s", "MESSAGES/S", "asked for, 1 s", "ours, 1 s", "lapse, 2+2 s", "abide, 2+2 s"},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("the report lacks %q", want)
			}
		}
	}
	if strings.Contains(html.String(), "NaN") || strings.Contains(html.String(), "ZgotmplZ") {
		t.Error("the report has something in it that is none")
	}
	r.Measured.Controls = widearea.ControlReport{}
	html.Reset()
	if err := quorumLeasesHTML(&html, r, nil); err != nil || strings.Contains(html.String(), "own protocol</h2>") {
		t.Errorf("a part without figures, or %v", err)
	}
}

// Each line of the sweep has what differs from the paper's in one way.
func TestControlSeries(t *testing.T) {
	want := map[string][][2]float64{
		"asked for": {{1, 1.15}}, "lease differs": {{8, 7.75}, {9, 8.75}}, "guard differs": {{8, 7.5}, {9, 8.75}},
		"grace differs": {{6.5, 6.5}, {9, 8.75}}, "all differ": {{4.5, 4.25}, {9, 8.75}},
	}
	for _, s := range controlSeries(controlsReport()) {
		got := s.line(lengths).Points
		if len(got) != len(want[s.name]) {
			t.Errorf("%s: %v, want %v", s.name, got, want[s.name])
			continue
		}
		for i, p := range got {
			if p != want[s.name][i] {
				t.Errorf("%s: %v, want %v", s.name, got, want[s.name])
			}
		}
	}
}
