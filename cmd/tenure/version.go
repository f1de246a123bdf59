package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
)

// versions is what `tenure version` tells.
type versions struct {
	Tenure string `json:"tenure"`
	Commit string `json:"commit"`
	API    string `json:"api"`
	Go     string `json:"go"`
	System string `json:"system"`
}

func versionOf() versions {
	info, _ := debug.ReadBuildInfo()
	return versionsIn(info)
}

// unknown stands for what a build does not tell: a binary of a test, or of sources without their repository.
const unknown = "unknown"

// versionsIn are those of a build, of which nothing may be known. None is blank.
func versionsIn(info *debug.BuildInfo) versions {
	v := versions{Tenure: unknown, Commit: unknown, API: "etcd v3", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return v
	}
	v.Tenure = cmp.Or(info.Main.Version, unknown)
	for _, dep := range info.Deps {
		if dep.Path == "go.etcd.io/etcd/api/v3" {
			v.API = "etcd " + dep.Version
		}
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Commit = cmp.Or(s.Value, unknown)
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+dirty" // as in the version of the main module
		}
	}
	if v.Commit != unknown {
		v.Commit += modified
	}
	return v
}

// etcdLines are what `etcd --version` prints, for scripts that read it, and a line for people.
func (v versions) etcdLines() string {
	return fmt.Sprintf("etcd Version: %s\nGit SHA: %.9s\nGo Version: %s\nGo OS/Arch: %s\nTenure Version: %s\n",
		strings.TrimPrefix(v.API, "etcd v"), v.Commit, v.Go, v.System, v.Tenure)
}

func versionCommand() *cobra.Command {
	var o cli.Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print versions of this program and of the API that it serves",
		Example: "  tenure version\n  tenure version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionOf()
			return o.Print(cmd.OutOrStdout(), v, func() {
				fmt.Fprintf(cmd.OutOrStdout(), "tenure %s\ncommit %s\napi    %s\ngo     %s %s\n", v.Tenure, v.Commit, v.API, v.Go, v.System)
			})
		},
	}
	o.Register(cmd)
	return cmd
}
