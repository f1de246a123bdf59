package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestFigure5(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "figure5.svg")
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetArgs([]string{"figure5", "--members", "3", "--broadcasts", "3", "--dir", t.TempDir(), "--svg", picture, "-o", "json"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var f struct {
		Counted []struct {
			Algorithm     string
			Lambda, Steps int
		}
		Paper []struct {
			Lambda int
			FastCT int `json:"fastct"`
		}
		Crashes  []struct{ Normal int }
		Measured []measuredRow
	}
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Counted) != 6 || len(f.Paper) != 5 || len(f.Crashes) != 5 {
		t.Fatalf("got %d counted, %d of the paper's and %d crashes", len(f.Counted), len(f.Paper), len(f.Crashes))
	}
	for i, p := range f.Paper {
		if c := f.Counted[i]; c.Lambda != p.Lambda || c.Steps != p.FastCT {
			t.Errorf("counted %+v, the paper has %+v", c, p)
		}
	}
	if len(f.Measured) != 6 {
		t.Fatalf("%d rows were measured, want 6", len(f.Measured))
	}
	for i, m := range f.Measured {
		if c := f.Counted[i]; m.Algorithm != c.Algorithm || m.Lambda != uint64(c.Lambda) || m.Broadcasts != 3 {
			t.Errorf("measured %+v beside %+v", m, c)
		}
		// Of each instance, others have the coordinator's estimate, and one of them acknowledges it.
		// Frames count once they are written, so the last ones may be missing: the wire has more than the submits.
		if m.Instances < 3 || m.Messages < 3*3 || m.Submits < 3*2 || m.SubmitBytes < 3*2*100 || m.WireBytes <= m.SubmitBytes || m.Frames == 0 {
			t.Errorf("3 broadcasts to two others took %+v", m)
		}
		if m.Median <= 0 || m.P99 < m.Median {
			t.Errorf("measured %+v", m)
		}
	}
	if svg, err := os.ReadFile(picture); err != nil || !bytes.Contains(svg, []byte("FastCT")) {
		t.Errorf("the picture: %v, %d bytes", err, len(svg))
	}
	for _, args := range [][]string{{"--members", "2"}, {"--broadcasts", "-1"}} {
		root = rootCommand()
		root.SetArgs(append([]string{"figure5"}, args...))
		if err := root.Execute(); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
