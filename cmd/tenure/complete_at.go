package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/holder/flease"
)

// completionLimit is how long a shell waits for names from an engine.
const completionLimit = time.Second

// atKind is an annotation of a flag --at, and says what the URL is of.
const atKind = "tenure_at"

const (
	atLeases  = "leases"
	atServers = "servers"
)

func annotateAt(flags *pflag.FlagSet, kind string) {
	_ = flags.SetAnnotation("at", atKind, []string{kind}) // fails for a flag that is not there
}

// completeAts has each flag --at below a command completed.
func completeAts(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		if flag := flags.Lookup("at"); flag != nil && len(flag.Annotations[atKind]) > 0 {
			// Fails if it is done already, as for a flag of both sets.
			_ = cmd.RegisterFlagCompletionFunc("at", completeAt(flag.Annotations[atKind][0]))
		}
	}
	for _, sub := range cmd.Commands() {
		completeAts(sub)
	}
}

// atSchemes are the beginnings of what --at takes.
var atSchemes = []struct{ begins, about string }{
	{atLocal, "a directory of this user's on this machine"},
	{"file:///", "a directory, or several with commas in between"},
	{"etcd://", "host:port,… of a Tenure server or an etcd"},
	{"etcds://", "the same with TLS: ?cacert=F&cert=F&key=F"},
	{"redis://", "host:port,… of Redis servers"},
	{"rediss://", "the same with TLS"},
	{"flease://" + flease.DefaultSocket, "the socket of this machine's peer"},
}

// completeAt completes an engine's URL: its scheme, and paths behind that.
func completeAt(kind string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		var all []string
		for _, scheme := range []string{"file://", "flease://"} {
			if path, ok := strings.CutPrefix(begun, scheme+"/"); ok && kind == atLeases {
				all = completePath(scheme, "/"+path, scheme == "flease://")
			}
		}
		for _, s := range atSchemes {
			if strings.HasPrefix(s.begins, begun) && s.begins != begun && (kind == atLeases || strings.HasPrefix(s.begins, "etcd")) {
				all = append(all, s.begins+"\t"+s.about)
			}
		}
		return all, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
}

// completePath completes the last of the paths, to directories, or to sockets as well.
func completePath(scheme, paths string, sockets bool) (all []string) {
	before := paths[:strings.LastIndexByte(paths, ',')+1]
	dir, begun := filepath.Split(paths[len(before):])
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		hidden := strings.HasPrefix(name, ".") && !strings.HasPrefix(begun, ".")
		switch {
		case !strings.HasPrefix(name, begun) || hidden:
		case isDir(filepath.Join(dir, name)):
			all = append(all, scheme+before+dir+name+"/")
		case sockets && e.Type() == os.ModeSocket:
			all = append(all, scheme+before+dir+name)
		}
	}
	return all
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
