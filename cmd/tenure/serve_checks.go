package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/member/server"
)

// checkOptions are the flags of what members check about each other, with etcd's names.
type checkOptions struct {
	corruptTime, compactHashTime time.Duration
	compactHash, initialCorrupt  bool
	strictReconfig               bool
	gates                        gates
}

func (o *checkOptions) register(f *pflag.FlagSet) {
	f.DurationVar(&o.corruptTime, "corrupt-check-time", 0, "how often the leader compares the members' data, and raises the alarm CORRUPT for those that differ (default never)")
	f.DurationVar(&o.compactHashTime, "compact-hash-check-time", time.Minute, "the same, if --feature-gates has CompactHashCheck=true")
	f.BoolVar(&o.compactHash, "compact-hash-check-enabled", false, "the same as --feature-gates CompactHashCheck=true")
	f.BoolVar(&o.initialCorrupt, "initial-corrupt-check", false, "the same as --feature-gates InitialCorruptCheck=true")
	f.Var(&o.gates, "feature-gates", "`features` of etcd's as NAME=true,NAME=false,…: InitialCorruptCheck compares this member's data with those of the others before it serves clients, CompactHashCheck compares all members' from time to time; etcd's others have no effect")
	f.BoolVar(&o.strictReconfig, "strict-reconfig-check", true, "refuse changes of the members that leave no majority of members that are connected; the leader's setting counts")
	for _, name := range []string{"compact-hash-check-enabled", "initial-corrupt-check"} {
		f.Lookup(name).Hidden = true
	}
}

// setIn gives the options to a member.
func (o *checkOptions) setIn(cfg *server.Config) error {
	if o.corruptTime < 0 {
		return fmt.Errorf("--corrupt-check-time %v: want a time from 0 on", o.corruptTime)
	}
	if o.compactHashTime <= 0 {
		return fmt.Errorf("--compact-hash-check-time %v: want a time above 0", o.compactHashTime)
	}
	every := o.corruptTime
	if (o.compactHash || o.gates["CompactHashCheck"]) && (every == 0 || o.compactHashTime < every) {
		every = o.compactHashTime
	}
	cfg.Node.CorruptCheck = every
	cfg.InitialCheck = o.initialCorrupt || o.gates["InitialCorruptCheck"]
	cfg.Node.LooseReconfig = !o.strictReconfig
	return nil
}

// gates are etcd's features that were switched on or off.
type gates map[string]bool

// known are the features that etcd 3.7 has.
var known = map[string]bool{
	"AllAlpha": true, "AllBeta": true, "CompactHashCheck": true, "FastLeaseKeepAlive": true, "InitialCorruptCheck": true,
	"LeaseCheckpoint": true, "LeaseCheckpointPersist": true, "PriorityRequest": true, "SetMemberLocalAddr": true,
	"StopGRPCServiceOnDefrag": true, "TxnModeWriteWithSharedBuffer": true,
}

func (g *gates) Type() string { return "features" }

func (g *gates) String() string { return "" }

func (g *gates) Set(value string) error {
	set := gates{}
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, text, ok := strings.Cut(part, "=")
		on, err := strconv.ParseBool(strings.TrimSpace(text))
		if name = strings.TrimSpace(name); !ok || err != nil {
			return errors.New(part + ": want NAME=true or NAME=false")
		}
		if !known[name] {
			return errors.New(name + " is no feature of etcd 3.7")
		}
		set[name] = on
	}
	if set["AllAlpha"] { // of which both are
		for _, name := range []string{"CompactHashCheck", "InitialCorruptCheck"} {
			if _, said := set[name]; !said {
				set[name] = true
			}
		}
	}
	*g = set
	return nil
}
