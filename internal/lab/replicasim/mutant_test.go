package replicasim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

func TestMutants(t *testing.T) { mutant.Try(t) }

func TestMutantTable(t *testing.T) {
	var names []string
	for _, list := range scriptLists {
		for _, sc := range list {
			names = append(names, "TestScripts/"+sc.name)
		}
	}
	mutant.Table(t, names...)
}

func TestMutantWorlds(t *testing.T) { mutant.Worlds(t) }
