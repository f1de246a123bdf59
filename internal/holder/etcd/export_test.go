package etcd

// Registered is how many leases the Leaser has not given up.
func (l *Leaser) Registered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.leases)
}
