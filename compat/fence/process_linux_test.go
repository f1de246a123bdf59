package fence

import "syscall"

// dieWithParent has the kernel kill the child when the thread that started it is gone.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
