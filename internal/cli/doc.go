// Package cli has what the commands of this repository share: their exit codes, -o,
// the end by a signal, the log, a line of progress, and the room that the garbage collector has.
package cli
