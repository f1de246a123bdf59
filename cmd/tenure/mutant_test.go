package main

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

func TestMutants(t *testing.T) { mutant.Try(t) }

func TestMutantTable(t *testing.T) {
	mutant.Table(t, "TestScripts/agree", "TestScripts/events", "TestScripts/every", "TestScripts/handover", "TestScripts/lock", "TestScripts/peer", "TestScripts/signals", "TestScripts/snapshot", "TestScripts/storage_bench")
}
