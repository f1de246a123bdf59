package leasetest

import (
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

func TestMutants(t *testing.T) { mutant.Try(t) }

func TestMutantTable(t *testing.T) {
	var names []string
	for _, m := range misbehaviors {
		names = append(names, "TestSuiteHasTeeth/"+strings.ReplaceAll(m.what, " ", "_"))
	}
	mutant.Table(t, names...)
}
