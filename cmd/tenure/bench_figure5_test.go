package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestBenchFigure5(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "figure5.svg")
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetArgs([]string{"bench", "figure5", "--members", "3", "--svg", picture, "-o", "json"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var f struct {
		Counted []struct{ Lambda, Steps int }
		Paper   []struct {
			Lambda int
			FastCT int `json:"fastct"`
		}
		Crashes []struct{ Normal int }
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
	if svg, err := os.ReadFile(picture); err != nil || !bytes.Contains(svg, []byte("FastCT")) {
		t.Errorf("the picture: %v, %d bytes", err, len(svg))
	}
	root = rootCommand()
	root.SetArgs([]string{"bench", "figure5", "--members", "2"})
	if err := root.Execute(); err == nil {
		t.Error("a group of two was taken")
	}
}
