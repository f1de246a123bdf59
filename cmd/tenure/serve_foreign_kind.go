package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// foreignKind is the type of a flag without effect: a value that etcd would refuse is refused here, too, as it
// is most likely in the place of another.
type foreignKind struct {
	name  string // that of pflag's type
	check func(value string) error
}

// Kinds that several flags share. Numbers may have etcd's prefixes, such as 0x.
var (
	anyText     = foreignKind{"string", func(string) error { return nil }}
	trueOrFalse = foreignKind{"bool", func(value string) error {
		_, err := strconv.ParseBool(value)
		return wants(err, value, "true or false")
	}}
	wholeNumber = foreignKind{"int", func(value string) error {
		_, err := strconv.ParseInt(value, 0, 64)
		return wants(err, value, "a whole number")
	}}
	countingNumber = foreignKind{"uint", func(value string) error {
		_, err := strconv.ParseUint(value, 0, 64)
		return wants(err, value, "a whole number from 0 on")
	}}
	someTime = foreignKind{"duration", func(value string) error {
		_, err := time.ParseDuration(value)
		return wants(err, value, "a duration such as 100ms")
	}}
)

// oneOf is the kind of a flag that has one of a few words.
func oneOf(words ...string) foreignKind {
	return foreignKind{"string", func(value string) error {
		if slices.Contains(words, value) {
			return nil
		}
		return fmt.Errorf("%q: want %s", value, strings.Join(words, " or "))
	}}
}

// wants tells of a value that cannot be read.
func wants(err error, value, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q: want %s", value, what)
}

// foreignKinds are the kinds of the flags in withoutEffect. Those that etcd takes unread, too, are missing.
var foreignKinds = map[string]foreignKind{
	"backend-batch-interval":               someTime,
	"backend-batch-limit":                  wholeNumber,
	"bootstrap-defrag-threshold-megabytes": countingNumber,
	"compaction-batch-limit":               wholeNumber,
	"compaction-sleep-interval":            someTime,
	"discovery-dial-timeout":               someTime,
	"discovery-fallback":                   oneOf("exit", "proxy"),
	"discovery-keepalive-time":             someTime,
	"discovery-keepalive-timeout":          someTime,
	"discovery-request-timeout":            someTime,
	"downgrade-check-time":                 someTime,
	"logger":                               oneOf("zap"),
	"max-snapshots":                        countingNumber,
	"max-wals":                             countingNumber,
	"raft-read-timeout":                    someTime,
	"raft-write-timeout":                   someTime,
	"snapshot-catchup-entries":             countingNumber,
	"snapshot-count":                       countingNumber,
	"v2-deprecation":                       oneOf("write-only", "write-only-skip-check", "write-only-drop-data", "gone"),
}

// kindOf is the kind of a flag without effect.
func kindOf(name string) foreignKind {
	if kind, known := foreignKinds[name]; known {
		return kind
	}
	return anyText
}
