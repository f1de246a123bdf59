package storage

import "golang.org/x/sys/unix"

// bootID names the clock of this boot; "" if it is unknown.
func bootID() string {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return boot
}
