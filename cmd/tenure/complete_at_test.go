package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// completed runs the completion of a shell, and returns what it offers, without what is said about it.
func completed(t *testing.T, args ...string) (offers []string, directive string) {
	t.Helper()
	code, out, errs := ran(t, append([]string{cobra.ShellCompRequestCmd}, args...)...)
	if code != 0 || !strings.Contains(errs, "Completion ended with directive") {
		t.Fatalf("the completion of %q ends with %d, %q", args, code, errs)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		offer, _, _ := strings.Cut(line, "\t")
		offers = append(offers, offer)
	}
	return offers, lines[len(lines)-1]
}

// A shell completes --at with the schemes that the command takes.
func TestCompletesSchemes(t *testing.T) {
	servers := []string{"etcd://", "etcds://"}
	all := []string{"local", "file:///", "etcd://", "etcds://", "redis://", "rediss://", "flease:///run/tenure/peer.sock"}
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"lock", "--at", ""}, all}, {[]string{"elect", "--at", ""}, all}, {[]string{"lease", "list", "--at", ""}, all}, {[]string{"peer", "status", "--at", ""}, all},
		{[]string{"status", "--at", ""}, servers}, {[]string{"member", "list", "--at", ""}, servers}, {[]string{"read-lease", "--at", ""}, servers},
		{[]string{"lock", "--at", "red"}, []string{"redis://", "rediss://"}}, {[]string{"lock", "--at=f"}, []string{"file:///", "flease:///run/tenure/peer.sock"}},
		{[]string{"lock", "--at", "etcd://"}, nil}, {[]string{"status", "--at", "file:///"}, nil},
	} {
		if got, directive := completed(t, tt.args...); !slices.Equal(got, tt.want) || directive != ":6" {
			t.Errorf("%q is completed to %q, %s; want %q, and no file and no blank behind it", tt.args, got, directive, tt.want)
		}
	}
	if _, directive := completed(t, "broadcast", "--at", ""); directive != ":16" {
		t.Errorf("a member's directory is completed with %s, want :16, directories", directive)
	}
}

// Behind file:// a shell completes directories, also the second of several, and behind flease:// sockets, too.
func TestCompletesPaths(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"leases", "lent", "other", ".hidden"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("other", filepath.Join(dir, "less")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "let.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := syscall.Mkfifo(filepath.Join(dir, "let.fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for begun, want := range map[string][]string{
		"file://" + dir + "/le":     {"file://" + dir + "/leases/", "file://" + dir + "/lent/", "file://" + dir + "/less/"},
		"file:///a," + dir + "/o":   {"file:///a," + dir + "/other/"},
		"file://" + dir + "/.h":     {"file://" + dir + "/.hidden/"},
		"file://" + dir + "/none/x": nil,
		"flease://" + dir + "/let":  {"flease://" + dir + "/let.sock"},
		"file://" + dir + "/":       {"file://" + dir + "/leases/", "file://" + dir + "/lent/", "file://" + dir + "/less/", "file://" + dir + "/other/"},
	} {
		if got, _ := completed(t, "lock", "--at", begun); !slices.Equal(got, want) {
			t.Errorf("%s is completed to %q, want %q", begun, got, want)
		}
	}
}

// A shell does not wait long for the names of an engine that does not answer, and says nothing of it.
func TestCompletionIsBounded(t *testing.T) {
	silent := listenLocal(t) // takes connections and says nothing
	defer silent.Close()
	for _, args := range [][]string{{"lock"}, {"lease", "show"}, {"member", "promote"}} {
		fastest := time.Hour // of some tries, for the machine may be busy with others
		for range 5 {
			begun := time.Now()
			got, _ := completed(t, append(args, "--at", "etcd://"+silent.Addr().String(), "")...)
			if len(got) > 0 {
				t.Errorf("%q is completed to %q", args, got)
			}
			if fastest = min(fastest, time.Since(begun)); fastest < 3*time.Second {
				break
			}
		}
		if fastest >= 3*time.Second {
			t.Errorf("%q is completed after %v, want nothing after a second", args, fastest)
		}
	}
}

// Members are completed by their names.
func TestCompletesMembers(t *testing.T) {
	at := "etcd://" + startServer(t)
	if got, directive := completed(t, "member", "promote", "--at", at, ""); !slices.Equal(got, []string{"one"}) || directive != ":4" {
		t.Errorf("a member is completed to %q, %s; want one", got, directive)
	}
	if got, _ := completed(t, "member", "promote", "--at", at, "one", ""); len(got) > 0 {
		t.Errorf("behind a member it is completed to %q", got)
	}
}
