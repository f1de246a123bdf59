package redis

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when the thread that started it is gone.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
