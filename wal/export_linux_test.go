package wal

// Retry calls a system call until no signal comes between.
func Retry(call func() error) error { return retry(call) }
