//go:build !linux

package fence

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
