package main

import "syscall"

// diesWithUs cannot be asked for here: the shepherd alone sees to it.
func diesWithUs(*syscall.SysProcAttr) bool { return true }
