package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/cli"
)

// Every process that logs logs text on a terminal and JSON elsewhere, unless it is told otherwise.
func TestLogsHaveOneForm(t *testing.T) {
	keys, screen, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer screen.Close()
	shown := bufio.NewReader(keys)
	for name, flags := range logFlags() {
		for format, terminal := range map[string]bool{"": true, "text": true, "console": true, "json": false} {
			f, l := flags()
			if format != "" {
				if err := f.Parse([]string{"--log-format", format}); err != nil {
					t.Fatal(err)
				}
			}
			logger, err := l.Logger(screen)
			if err != nil {
				t.Fatal(err)
			}
			logger.Error("said")
			line, err := shown.ReadBytes('\n')
			if err != nil || json.Valid(line) == terminal {
				t.Errorf("%s --log-format %q logs on a terminal %q, %v; want text: %v", name, format, line, err, terminal)
			}
			path := filepath.Join(t.TempDir(), "log")
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if logger, err = l.Logger(file); err != nil {
				t.Fatal(err)
			}
			logger.Error("said")
			file.Close()
			text := format == "text" || format == "console"
			if line, err := os.ReadFile(path); err != nil || json.Valid(line) == text {
				t.Errorf("%s --log-format %q logs into a file %q, %v; want text: %v", name, format, line, err, text)
			}
		}
	}
}

// logFlags are the flags of each process that logs.
func logFlags() map[string]func() (*pflag.FlagSet, *cli.Log) {
	return map[string]func() (*pflag.FlagSet, *cli.Log){
		"serve": func() (*pflag.FlagSet, *cli.Log) {
			var o serveOptions
			f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			o.register(f)
			return f, &o.log
		},
		"peer": func() (*pflag.FlagSet, *cli.Log) {
			var o peerOptions
			f := pflag.NewFlagSet("peer", pflag.ContinueOnError)
			o.register(f)
			return f, &o.log
		},
		"deliver": func() (*pflag.FlagSet, *cli.Log) {
			var o memberOptions
			cmd := &cobra.Command{}
			o.flags(cmd)
			return cmd.Flags(), &o.log
		},
	}
}

// Each process that logs goes by these flags: none starts with a form that there is not.
func TestLogFlagsAreHeard(t *testing.T) {
	taken := listenLocal(t)
	defer taken.Close()
	at := taken.Addr().String()
	for _, args := range [][]string{
		{"serve", "--data-dir", t.TempDir(), "--listen-client-urls", "http://" + at, "--listen-peer-urls", "http://" + at},
		{"peer", "--self", at, "--peers", at, "--listen", filepath.Join(t.TempDir(), "peer.sock")},
		{"deliver", "--id", "7", "--members", "7=" + at, "--data-dir", t.TempDir()},
	} {
		_, err := command(t, append(args, "--log-format", "xml")...)
		wantRefused(t, err, "--log-format xml: want auto, text, console or json")
	}
}
