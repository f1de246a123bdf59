package flease

// Fresh is cfg for a peer of a cluster that has never run, with a tap, which may be nil.
func Fresh(cfg Config, tap func(sending bool, forward func())) Config {
	cfg.fresh, cfg.tap = true, tap
	return cfg
}

// JudgeClock is what is made of the kernel's answer.
var JudgeClock = judgeClock
