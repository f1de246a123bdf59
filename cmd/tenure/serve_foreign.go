package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// foreign is the value of a flag that etcd has and tenure has not.
type foreign struct {
	refusal *etcdOnly
	kind    foreignKind
	value   string
}

func (v *foreign) String() string { return v.value }

func (v *foreign) Type() string { return v.kind.name }

func (v *foreign) Set(value string) error {
	if err := v.kind.check(value); err != nil {
		return err
	}
	if r := v.refusal; r != nil && value != "" && !slices.Contains(r.nothing, value) {
		return fmt.Errorf("%q is not possible here, and would not be safe to ignore: %s", value, r.instead)
	}
	v.value = value
	return nil
}

// registerForeign registers the flags that only etcd has.
func registerForeign(f *pflag.FlagSet) {
	add := func(name string, v *foreign, usage string) {
		flag := f.VarPF(v, name, "", usage)
		flag.Hidden = true
		if v.kind.name == trueOrFalse.name {
			flag.NoOptDefVal = "true"
		}
	}
	const harmless = "has no effect here; accepted so that etcd's unit files carry over"
	for name := range withoutEffect {
		add(name, &foreign{kind: kindOf(name)}, harmless)
	}
	for name := range switchesWithoutEffect {
		add(name, &foreign{kind: trueOrFalse}, harmless)
	}
	for name, r := range refused {
		add(name, &foreign{refusal: &r, kind: anyText}, "is not possible here: "+r.instead)
	}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.TrimPrefix(name, "experimental-"))
	})
}

// ignoredFlags are the flags without effect that are set, in order.
func ignoredFlags(f *pflag.FlagSet) (names []string) {
	f.Visit(func(flag *pflag.Flag) {
		if v, ok := flag.Value.(*foreign); ok && v.refusal == nil {
			names = append(names, flag.Name)
		}
	})
	slices.Sort(names)
	return names
}

// protects are the words by which an unknown variable is taken for one that is meant to
// protect.
var protects = []string{"ALLOWED", "AUTH", "CA", "CERT", "CIPHER", "CIPHERS", "CRL", "QUOTA", "SAN", "TLS", "TRUSTED"}

// notForServe are variables of other commands.
var notForServe = []string{
	"TENURE_AT", "TENURE_LEADER", "TENURE_LEASE", "TENURE_PASSWORD", "TENURE_PASSWORD_FILE", "TENURE_TOKEN", "TENURE_USER",
}

// judgeUnknown returns the variables with our prefixes that no flag has. It refuses those that
// must be meant to protect something: one that is misspelt would leave it open.
func judgeUnknown(f *pflag.FlagSet, env map[string]string) (unknown []string, err error) {
	for _, key := range slices.Sorted(maps.Keys(env)) {
		name, found := strings.CutPrefix(key, "TENURE_")
		if !found {
			name, found = strings.CutPrefix(key, "ETCD_")
		}
		if !found || env[key] == "" || slices.Contains(notForServe, key) || strings.HasPrefix(key, "TENURE_TEST_") ||
			f.Lookup(strings.ToLower(strings.ReplaceAll(name, "_", "-"))) != nil {
			continue
		}
		if slices.ContainsFunc(strings.Split(name, "_"), func(word string) bool { return slices.Contains(protects, word) }) {
			return nil, fmt.Errorf("%s: there is no such setting, and by its name it protects something: correct it (`tenure serve --help` lists them), or unset it", key)
		}
		unknown = append(unknown, key)
	}
	return unknown, nil
}

// oneDash has flags with one dash, as etcd takes them, written with two.
func oneDash(f *pflag.FlagSet, args []string) []string {
	out := slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, found := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=")
		if found && f.Lookup(name) != nil {
			out[i] = "-" + arg
		}
	}
	return out
}
