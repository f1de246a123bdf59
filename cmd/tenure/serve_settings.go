package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// fileSections are the sections of etcd's file: the prefix of their names as flags, and the flags with other
// names.
var fileSections = map[string]struct {
	prefix string
	names  map[string]string
}{
	"client-transport-security": {"", map[string]string{
		"allowed-cn": "client-cert-allowed-cn", "allowed-hostname": "client-cert-allowed-hostname", "crl-file": "client-crl-file",
	}},
	"peer-transport-security": {"peer-", map[string]string{
		"allowed-cn": "peer-cert-allowed-cn", "allowed-hostname": "peer-cert-allowed-hostname",
	}},
	"socket-options":   {"socket-", nil},
	"discovery-config": {"discovery-", nil},
}

// complete takes from the environment and the file what no flag has set, and returns the
// variables that look like settings and are none.
func (o *serveOptions) complete(f *pflag.FlagSet, environ []string) (unknown []string, err error) {
	env := map[string]string{}
	for _, line := range environ {
		key, value, _ := strings.Cut(line, "=")
		env[key] = value
	}
	var failed error
	set := func(name, value, where string) {
		if f.Changed(name) || failed != nil {
			return
		}
		if err := f.Set(name, value); err != nil {
			failed = fmt.Errorf("%s: %w", where, err)
		}
	}
	for _, prefix := range []string{"TENURE_", "ETCD_", "ETCD_EXPERIMENTAL_"} {
		f.VisitAll(func(flag *pflag.Flag) {
			key := prefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
			if value := env[key]; value != "" {
				set(flag.Name, value, key)
			}
		})
	}
	if failed != nil {
		return nil, failed
	}
	if unknown, err = judgeUnknown(f, env); err != nil || o.configFile == "" {
		return unknown, err
	}
	settings, err := readConfigFile(o.configFile)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		flag := f.Lookup(s[0])
		if flag == nil {
			return nil, fmt.Errorf("--config-file %s: there is no setting %q here; `tenure serve --help` lists them", o.configFile, s[0])
		}
		if _, err := strconv.ParseInt(s[1], 10, 64); err == nil && flag.Value.Type() == "duration" {
			s[1] += "ns" // as etcd's file has durations
		}
		set(s[0], s[1], o.configFile)
	}
	return unknown, failed
}

// readConfigFile returns the settings of a YAML file, in the order of their names. One
// without a value is none.
func readConfigFile(path string) ([][2]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config-file: %w", err)
	}
	var file map[string]any
	if err := yaml.UnmarshalStrict(raw, &file); err != nil {
		return nil, fmt.Errorf("--config-file %s: %w", path, err)
	}
	var settings [][2]string
	add := func(name string, value any) {
		if value != nil {
			settings = append(settings, [2]string{name, settingText(value)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		value := file[key]
		section, secure := fileSections[key]
		if !secure {
			if key == "read-lease" && value == false {
				value = string(quorumlease.Off) // a bare off is a boolean, to YAML
			}
			add(key, value)
			continue
		}
		inner, ok := value.(map[string]any)
		if !ok && value != nil {
			return nil, fmt.Errorf("--config-file %s: %s should hold settings", path, key)
		}
		for _, key := range slices.Sorted(maps.Keys(inner)) {
			name, renamed := section.names[key]
			if !renamed {
				name = section.prefix + key
			}
			add(name, inner[key])
		}
	}
	slices.SortFunc(settings, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return settings, nil
}

// settingText is the value as the flag of that name takes it: numbers without an exponent,
// lists with commas.
func settingText(v any) string {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = settingText(v[i])
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v)
}
