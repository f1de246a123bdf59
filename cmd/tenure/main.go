// Command tenure is the lease server and its tools; see `tenure --help`.
package main

import "os"

func main() { os.Exit(run(commandLine(os.Args))) }
