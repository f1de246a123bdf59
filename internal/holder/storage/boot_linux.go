package storage

import (
	"os"
	"path/filepath"
	"strings"
)

// bootID names the clock of this boot, in this time namespace; "" if it is unknown.
func bootID() string { return bootIDIn("/proc") }

func bootIDIn(proc string) string {
	boot, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	space, err := os.Readlink(filepath.Join(proc, "self/ns/time"))
	if err != nil && !os.IsNotExist(err) { // a kernel without such namespaces has one clock
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
}
