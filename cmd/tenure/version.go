package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
)

// versions is what `tenure version` tells.
type versions struct {
	Tenure string `json:"tenure"`
	Commit string `json:"commit,omitempty"`
	API    string `json:"api"`
	Go     string `json:"go"`
	System string `json:"system"`
}

func versionOf() versions {
	info, _ := debug.ReadBuildInfo()
	return versionsIn(info)
}

// versionsIn are those of a build, of which nothing may be known.
func versionsIn(info *debug.BuildInfo) versions {
	v := versions{Tenure: "unknown", API: "etcd v3", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return v
	}
	v.Tenure = info.Main.Version
	for _, dep := range info.Deps {
		if dep.Path == "go.etcd.io/etcd/api/v3" {
			v.API = "etcd " + dep.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
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
