package redis

// Missing is where each store is, and why it is missing.
func (l *Leaser) Missing() (addrs []string, absent []error) { return l.addrs, l.absent }
