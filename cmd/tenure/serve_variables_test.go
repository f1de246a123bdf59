package main

import (
	"slices"
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
