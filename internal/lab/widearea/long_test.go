package widearea

import (
	"flag"
	"testing"
)

var deep = flag.Bool("deep", false, "run the tests, too, that take half a minute each")

// long skips a test that takes long, unless it was asked for.
func long(t *testing.T) {
	t.Helper()
	if !*deep {
		t.Skip("takes half a minute: -deep")
	}
}

// cases is how many cases of a test to take.
func cases(few, all int) int {
	if *deep {
		return all
	}
	return few
}
