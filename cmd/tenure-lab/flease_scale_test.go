package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/fleasescale"
)

func TestFleaseScale(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "scale.svg")
	var out bytes.Buffer
	cmd := fleaseScaleCommand()
	cmd.SetOut(&out)
	cmd.SetErr(new(bytes.Buffer))
	cmd.SetArgs([]string{"--peers", "3,6", "--claims", "4", "-o", "json", "--svg", svg})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	var rates []fleasescale.Rate
	if err := json.Unmarshal(out.Bytes(), &rates); err != nil {
		t.Fatal(err)
	}
	if len(rates) != 2 || rates[1].Peers != 6 || rates[1].PerSecond < rates[0].PerSecond {
		t.Errorf("got %+v", rates)
	}
	if drawn, err := os.ReadFile(svg); err != nil || !strings.Contains(string(drawn), "leases a second") {
		t.Errorf("drew %.40q, %v", drawn, err)
	}
	cmd.SetArgs([]string{"--peers", "2000"})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "1 to") {
		t.Errorf("2000 peers: %v", err)
	}
}
