package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// usage is what processes have used so far.
type usage struct {
	CPU                     time.Duration
	ReadBytes, WrittenBytes int64 // from and to disks
}

func (u usage) less(o usage) usage {
	return usage{u.CPU - o.CPU, u.ReadBytes - o.ReadBytes, u.WrittenBytes - o.WrittenBytes}
}

// use reads it from /proc; values that are missing there (on other systems, and to other
// users) count as zero.
func use(pids []int) (u usage) {
	for _, pid := range pids {
		// The time of each thread that lives, in nanoseconds: those of our processes do.
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, t := range threads {
			var ran, waited int64
			if text, err := os.ReadFile(t); err == nil {
				fmt.Sscan(string(text), &ran, &waited)
				u.CPU += time.Duration(ran)
			}
		}
		io, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		for line := range bytes.Lines(io) {
			name, value, _ := bytes.Cut(line, []byte(": "))
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			switch string(name) {
			case "read_bytes":
				u.ReadBytes += n
			case "write_bytes":
				u.WrittenBytes += n
			}
		}
	}
	return u
}
