package storage

import (
	"os"
	"strings"
)

// bootID names the clock of this boot, in this time namespace; "" if it is unknown.
func bootID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/time")
	if err != nil && !os.IsNotExist(err) { // a kernel without such namespaces has one clock
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
}
