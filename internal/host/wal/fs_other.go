//go:build !linux

package wal

// Preallocate only lengthens the file: there is no portable way to reserve.
func (f osFile) Preallocate(size int64) error { return f.extend(size) }
