package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// transcribed are command lines, of which testdata/transcript.txt has all that they ask an engine for, and print.
var transcribed = []string{
	"lock n -- sh -c 'echo $TENURE_LEASE $TENURE_TOKEN $TENURE_AT; echo err >&2; exit 3'",
	"lock n --at etcd://other --ttl 41s --lock-delay 5s --holder me --slots 4 -- true",
	"lock n --shared --holder me -- true",
	"lock n --holder me --wait 50s -- true",
	"lock n --holder me --wait 0 -- true",
	"lock held --holder me -- echo ran",
	"lock held --holder me --wait 50s -- echo ran",
	"lock held --holder me --wait 0 -- echo ran",
	"lock taken --holder me --wait 50s -- echo ran",
	"lock held --holder me --events -- echo ran",
	"lock held --holder me -o json -- echo ran",
	"lock n --holder me --events -- sh -c 'exit 4'",
	"lock lost --holder me --events -- echo ran",
	"lock kept --holder me -- sh -c 'exit 4'",
	"lock unreached --holder me -- echo ran",
	"lock refused --holder me -- echo ran",
	"lock n --at etcd://silent -- echo ran",
	"lock n --holder me -- ./no-such-program",
	"lock n --holder me --every 5h -- echo ran",
	"lock n --holder me --every 5h --wait 0 -- sh -c 'exit 4'",
	"lock done --holder me --every 5h -- echo ran",
	"lock done --holder me --every 5h --events -- echo ran",
	"lock done --holder me --every 30m -- echo ran",
	"lock failed --holder me --every 5h -- echo ran",
	"lock failed --holder me --every 5h --retry --wait 50s -- echo ran",
	"lock future --holder me --every 5h -- echo ran",
	"lock unreached --holder me --every 5h -- echo ran",
	"lock taken --holder me --every 30m --wait 50s -- echo ran",
	"lock unset --holder me --every 5h -- echo ran",
	"lock unended --holder me --every 5h -- sh -c 'exit 4'",
	"lock done --holder me --every 30m -- ./no-such-program",
	"elect n -- sh -c 'echo $TENURE_LEASE $TENURE_TOKEN $TENURE_AT $TENURE_LEADER; echo err >&2; exit 3'",
	"elect n --at etcd://other --ttl 41s --lock-delay 5s --value me -- sh -c 'echo $TENURE_LEADER'",
	"elect held --value me --events -- echo ran",
	"elect n --value me -o json -- true",
	"elect lost --value me -- echo ran",
	"elect lost --value me --once -- echo ran",
	"elect followed --value me --on-leader 'echo $TENURE_LEASE $TENURE_TOKEN $TENURE_AT $TENURE_LEADER >$HOOK' -- sh -c 'until test -s $HOOK; do sleep 0.01; done; cat $HOOK'",
	"elect led --listen",
	"elect led --listen -o json --at etcd://other",
	"elect refused --listen",
	"elect refused n --listen",
	"elect n --listen --at etcd://silent",
	"lease list",
	"lease list a/ --at etcd://other",
	"lease list -o json",
	"lease list none -o json",
	"lease list unreached",
	"lease list partly",
	"lease list --at etcd://silent",
	"lease list watched --watch",
	"lease list watched -w -o json",
	"lease show held",
	"lease show held -o json --at etcd://other",
	"lease show done",
	"lease show done -o json",
	"lease show unreadable",
	"lease show unreadable -o json",
	"lease show unreached",
	"lease show refused",
	"lease show --at etcd://silent n",
	"lease break several",
	"lease break several --yes",
	"lease break several --yes --token 9",
	"lease break several --yes --token 9 -o json --at etcd://other",
	"lease break several --yes --token 4",
	"lease break n --yes",
	"lease break n -o json",
	"lease break unreached --yes",
	"lease break n --at etcd://silent",
	"lease reset done",
	"lease reset done -o json --at etcd://other",
	"lease reset n",
	"lease reset n -o json",
	"lease reset unreached",
	"lease reset taken",
	"lease reset cut",
	"lease reset kept",
	"lease reset n --at etcd://silent",
	"lease init --at file:x",
	"lease init --at redis://a/x",
	"lease init --at file:///none/at/all --delay 20ms",
	"lease init --at etcd://spy",
	"lease bench --at file:x",
	"lease bench --at file:///none/at/all",
	"lease restore --at etcd://spy --server b",
	"lease restore --at redis://a,b --server b:c:d",
	"lock n --user ann --password pw -- true",
	"lock n --user ann --password-file testdata/password.txt -- true",
	"elect n --user ann --password pw -- true",
	"elect n --user ann --password-file testdata/password.txt -- true",
	"lease list --user ann --password pw",
	"lease list --user ann --password-file testdata/password.txt",
	"lease show held --user ann --password pw",
	"lease show held --user ann --password-file testdata/password.txt",
	"lease break several --yes --user ann --password pw",
	"lease break several --yes --user ann --password-file testdata/password.txt",
	"lease reset n --user ann --password pw",
	"lease reset n --user ann --password-file testdata/password.txt",
	"agree n v",
	"agree n v -o json --at redis://other",
	"agree n v --wait 5s",
	"agree n",
	"agree n -o json",
	"agree n --wait 5s --at redis://other",
	"agree none",
	"agree taken v",
	"agree unreached v",
	"agree unreached",
	"agree n v --at etcd://silent",
	"agree n --at etcd://silent",
	"snapshot status none",
	"snapshot restore none --data-dir none",
}

// flagsElsewhere are the flags of commands that use no engine, or make one. Each has a test beside the transcript.
var flagsElsewhere = map[string]func(*testing.T){
	"lease init --at": TestMadeStores, "lease init --ttl": TestMadeStores, "lease init --delay": TestMadeStores, "lease init --drift": TestMadeStores,
	"lease init --single-host": TestLocalStoresAreOfOneHost, "lease init --output": TestMadeStores, "lease init --handles": TestStoresOnADevice,
	"lease restore --at": TestRestoreCommand, "lease restore --server": TestRestoreCommand, "lease restore --output": TestRestoreCommand,
	"lease bench --at": TestWhatABenchIsAskedFor, "lease bench --accesses": TestWhatABenchIsAskedFor, "lease bench --output": TestWhatABenchIsAskedFor, "lease bench --single-host": TestWhatABenchIsAskedFor,
	"snapshot save --user": TestCommandsAsAUser, "snapshot save --password": TestWhichUserAsks, "snapshot save --password-file": TestWhichUserAsks, "snapshot restore --wal-dir": TestASnapshotIsToldAsItIs,
	"snapshot save --at": TestASnapshotIsToldAsItIs, "snapshot save --output": TestASnapshotIsToldAsItIs, "snapshot status --output": TestASnapshotIsToldAsItIs,
	"snapshot restore --name": TestASnapshotIsToldAsItIs, "snapshot restore --data-dir": TestASnapshotIsToldAsItIs, "snapshot restore --initial-advertise-peer-urls": TestWhatIsNotRestored,
	"snapshot restore --initial-cluster": TestWhatIsNotRestored, "snapshot restore --initial-cluster-token": TestASnapshotIsToldAsItIs, "snapshot restore --bump-revision": TestASnapshotIsToldAsItIs,
	"snapshot restore --mark-compacted": TestWhatIsNotRestored, "snapshot restore --skip-hash-check": TestWhatIsNotRestored, "snapshot restore --output": TestASnapshotIsToldAsItIs,
}

// transcribedBelow are the commands all of whose flags stand in transcribed.
var transcribedBelow = []string{"lock", "elect", "lease list", "lease show", "lease break", "lease reset", "agree"}

// arguments are the words of a line, in which ' encloses one.
func arguments(line string) (args []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	return args
}

// timeless replaces what differs from run to run.
func timeless(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{regexp.QuoteMeta(host()), "HOST:PID"},
		{`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`, "TIME"},
		{`\d\d:\d\d:\d\d`, "CLOCK"},
		{`TENURE\.[0-9a-f]{32}`, "TENURE.NUMBER"},
		{`\b(1h0m\d+s|59m\d+s|58m\d+s)\b`, "AN HOUR"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}

// Each command line asks the engine for what it says, within the time that it says, and prints on each of its outputs,
// and ends with the exit code, that the transcript has.
func TestTranscriptOfCommands(t *testing.T) {
	const file = "testdata/transcript.txt"
	spy := spyOnEngines(t)
	t.Setenv("HOOK", t.TempDir()+"/hook")
	var all strings.Builder
	for _, line := range transcribed {
		spy.notes.Reset()
		clear(spy.times)
		args := arguments(line)
		if !strings.Contains(line, "--at") && args[0] != "snapshot" {
			dash := slices.Index(args, "--")
			if dash < 0 {
				dash = len(args)
			}
			args = slices.Insert(args, dash, "--at", "etcd://spy")
		}
		var code int
		var out, errs string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			code, out, errs = ran(t, args...)
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("tenure %s goes on for a minute", line)
		}
		fmt.Fprintf(&all, "$ tenure %s\n%sexit code %d\n", line, spy.notes.String(), code)
		for i, text := range []string{out, errs} {
			for said := range strings.Lines(text) {
				fmt.Fprintf(&all, "%s: %s\n", []string{"out", "err"}[i], strings.TrimSuffix(said, "\n"))
			}
		}
		all.WriteString("\n")
	}
	got := timeless(all.String())
	wants := strings.SplitAfter(golden.Kept(t, file, got), "\n\n")
	for i, part := range strings.SplitAfter(got, "\n\n") {
		if i >= len(wants) {
			t.Fatalf("not in the transcript:\n%s", part)
		}
		if part != wants[i] {
			t.Errorf("a command line does\n%s\nthe transcript (testdata/transcript.txt) has\n%s", part, wants[i])
		}
	}
}

// Each flag of a command that uses leases stands in a line of the transcript, behind that command, or has a test of its own.
func TestEachFlagIsTranscribed(t *testing.T) {
	each(rootCommand(), nil, func(cmd *cobra.Command, path []string) {
		name := strings.Join(path, " ")
		transcript := slices.Contains(transcribedBelow, name)
		if !transcript && !strings.HasPrefix(name, "lease ") && !strings.HasPrefix(name, "snapshot ") {
			return
		}
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			stands := func(line string) bool {
				own, _, _ := strings.Cut(line, " -- ")
				return strings.HasPrefix(own, name+" ") &&
					(strings.Contains(own+" ", " --"+f.Name+" ") || f.Shorthand != "" && strings.Contains(own+" ", " -"+f.Shorthand+" "))
			}
			switch flag := name + " --" + f.Name; {
			case transcript && !slices.ContainsFunc(transcribed, stands):
				t.Errorf("no line of the transcript has tenure %s: add one to transcribed", flag)
			case !transcript && flagsElsewhere[flag] == nil:
				t.Errorf("no test is named that tenure %s is acted on: add one to flagsElsewhere", flag)
			}
		})
	})
}

// The word that leases are this machine's stays out of what a program reads.
func TestThePlaceIsToldOnStandardError(t *testing.T) {
	for _, line := range []string{"lease list", "lease show n", "lease break n --yes", "lease reset n"} {
		_, out, errs := ran(t, arguments(line)...)
		if word := "tenure: leases are kept in "; !strings.HasPrefix(errs, word) || strings.Contains(out, word) {
			t.Errorf("tenure %s prints %q, and on standard error %q; want the place of leases told there", line, out, errs)
		}
	}
}
