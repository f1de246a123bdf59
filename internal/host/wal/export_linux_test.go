package wal

// Retry calls a system call until no signal comes between.
func Retry(call func() error) error { return retry(call) }

// Reserve is Preallocate with a system call of one's own.
func Reserve(f File, size int64, fallocate func() error) error {
	return f.(osFile).reserve(size, fallocate)
}
