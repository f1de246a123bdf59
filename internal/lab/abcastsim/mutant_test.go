package abcastsim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

func TestMutants(t *testing.T) { mutant.Try(t) }

func TestMutantTable(t *testing.T) {
	var names []string
	for _, sc := range allScripts() {
		names = append(names, "TestScripts/"+sc.name)
	}
	mutant.Table(t, names...)
}
