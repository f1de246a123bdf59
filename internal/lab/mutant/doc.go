// Package mutant shows that tests can fail: it breaks one rule of the product at a time and
// wants a test to notice. A test that cannot fail proves nothing, and a rule without a mutant
// may be a rule that no test checks.
//
//	func TestMutants(t *testing.T)     { mutant.Try(t) }
//	func TestMutantTable(t *testing.T) { mutant.Table(t, "TestScripts/one", "TestScripts/two") }
//
// A mutant is a file of the test package's testdata/mutants. Its first line is the
// rule, in words; the second names the test that must fail, with its flags, if it
// needs any; then come edits:
//
//	the leader counts time as fast as holders do
//	caught by: TestWorlds -first 200 -worlds 37
//	says: two hold the lease
//
//	internal/core/replica/leases.go
//	<<<<
//	what stands there, exactly once
//	====
//	what shall stand there instead
//	>>>>
//
// The third line has words of the test's own judgement, which must be in its output. Without
// them an assertion must have failed, in a test's file, and nothing may have panicked: a panic
// or a failed setup proves nothing about the rule. A product that guards a rule by a panic of
// its own has the words of that panic there. `go test PKG -run TestMutants -mutants=all
// -rewrite` writes the line where it is missing.
//
// Another line may follow:
//
//	in worlds: TestReadLeaseWorlds 37
//
// It says that worlds at random notice it, too, and how many of them that took, and
// "TestReadLeaseWorlds none of 300" that they did not. [Worlds] writes it.
//
// `make mutants` and `make draw` weave many mutants of a package into one program, and try each by
// choosing it there: most take no longer than their test. A mutant that changes more than bodies of
// functions, or lives in the woven program, is tried in a program of its own.
//
// The newline before a marker belongs to the marker, so an edit may begin and end
// within a line. Edits are applied at build time by -overlay and never touch a
// source file. One that no longer applies is a failure, whichever mutants were
// asked for.
package mutant
