package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// A variable without a value sets nothing, so its name does not matter; those with one are told in order.
func TestVariablesWithoutAValue(t *testing.T) {
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	new(serveOptions).register(f)
	unknown, err := judgeUnknown(f, map[string]string{
		"TENURE_NMAE": "", "ETCD_CERT_FIEL": "", "TENURE_AT": "a", "TENURE_TEST_X": "a", "ETCD_NAME": "a", "TENURE_CERT_FILE": "a", "PATH": "a", "TENURE_ODD": "a", "ETCD_STRANGE": "a",
	})
	if want := []string{"ETCD_STRANGE", "TENURE_ODD"}; err != nil || !slices.Equal(unknown, want) {
		t.Errorf("variables that are no settings are %q, %v; want %q, and no word of those without a value", unknown, err, want)
	}
}

// Variables of other commands are no misspelt settings of a member, which a user's environment may have.
func TestVariablesOfOtherCommands(t *testing.T) {
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	new(serveOptions).register(f)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	variable, found := regexp.MustCompile(`"(TENURE_[A-Z_]+[A-Z])[="]`), map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range variable.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = "a"
		}
	}
	if unknown, err := judgeUnknown(f, found); err != nil || unknown != nil || len(found) < 7 {
		t.Errorf("of the variables %q of all commands, serve takes %q for misspelt settings, %v; want none", slices.Sorted(maps.Keys(found)), unknown, err)
	}
}
