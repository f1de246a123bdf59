// Command tenure-lab plays the protocols in simulated worlds, reproduces the figures and tables of
// papers, and compares protocols; see `tenure-lab --help`. It is for engineers, and does not ship.
package main

import (
	"os"

	"github.com/tenure-lease/tenure/internal/cli"
)

func main() { os.Exit(cli.Run(rootCommand(), os.Args[1:])) }
