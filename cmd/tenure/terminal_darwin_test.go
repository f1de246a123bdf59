package main

import "github.com/rogpeppe/go-internal/testscript"

type terminal struct{}

// The scripts that need a terminal run on Linux.
func terminalCmd(ts *testscript.TestScript, neg bool, args []string) {
	ts.Fatalf("terminal: Linux only")
}

func typeCmd(ts *testscript.TestScript, neg bool, args []string) {
	ts.Fatalf("type: Linux only")
}
