package main

import (
	"path/filepath"
	"strings"
)

// commandLine is what a process was started with, but for the program's name. Under the name etcd, which a link
// to the program may have, it is `tenure serve`, so that scripts and unit files carry over.
func commandLine(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if strings.TrimSuffix(filepath.Base(args[0]), ".exe") != "etcd" {
		return args[1:]
	}
	return append([]string{"serve"}, args[1:]...)
}

// proxies are etcd's own commands, beside its server.
var proxies = []string{"gateway", "grpc-proxy"}
