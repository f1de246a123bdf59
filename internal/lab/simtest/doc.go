// Package simtest has the tests that all world packages share.
//
//	func TestWorlds(t *testing.T)  { simtest.Worlds(t, Protocol(), 30) }
//	func TestRepeats(t *testing.T) { simtest.Repeats(t, Protocol(), 1, 2, 3) }
//
// Worlds plays worlds under seeds that flags may choose:
//
//	go test ./internal/lab/replicasim -run TestWorlds -worlds 1000 -first 5000
//	go test ./internal/lab/replicasim -run TestWorlds -seed 4711 -notes 500 -svg /tmp/4711.svg
package simtest
