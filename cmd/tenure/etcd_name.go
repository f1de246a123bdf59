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

// proxies are etcd's own commands, beside its server, and what to use instead.
var proxies = map[string]string{
	"gateway":    "clients take a list of the members' URLs (--endpoints), and a proxy of TCP connections, such as HAProxy, can stand in front of them",
	"grpc-proxy": "clients take a list of the members' URLs (--endpoints), and each member serves watches and, under a read lease, reads without asking another",
}

// proxyAlone leaves out what follows the name of a proxy, such as its flags: that it is not here is told first.
func proxyAlone(args []string) []string {
	if len(args) > 2 && args[0] == "serve" && proxies[args[1]] != "" {
		return args[:2]
	}
	return args
}
