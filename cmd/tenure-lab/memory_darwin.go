package main

// inMemory reports whether a directory's files are in memory only: nobody's are by default.
func inMemory(string) bool { return false }
