package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// A command line, a place or a file that makes no sense is refused as wrong usage, with what to write instead.
func TestWhatIsRefused(t *testing.T) {
	dir := t.TempDir()
	device, settings, flat := filepath.Join(dir, "device"), filepath.Join(dir, "settings"), filepath.Join(dir, "flat")
	for file, text := range map[string]string{device: "x", settings: "nosuch: 1\n", flat: "client-transport-security: 5\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		says string
		args []string
	}{
		{"which directory? write: tenure lease bench --at file:///DIRECTORY", []string{"lease", "bench"}},
		{"is no directory: bench a directory on the same device", []string{"lease", "bench", "--at", "file://" + device}},
		{"--accesses 0: want at least 1", []string{"lease", "bench", "--at", "file://" + dir, "--accesses", "0"}},
		{"which command? write: tenure elect n -- COMMAND", []string{"elect", "n"}},
		{"which name? write: tenure elect NAME -- COMMAND", []string{"elect"}},
		{"--listen takes the name of an election and nothing else", []string{"elect", "--listen"}},
		{"--retry is about runs in a period", []string{"lock", "n", "--retry", "--", "true"}},
		{"--every -1s: give a positive time", []string{"lock", "n", "--every", "-1s", "--", "true"}},
		{"--every 0s: give a positive time", []string{"lock", "n", "--every", "0", "--", "true"}},
		{"--shared and -n exclude each other", []string{"lock", "n", "--shared", "-n", "1", "--", "true"}},
		{"leave out -n and --shared", []string{"lock", "n", "--every", "1h", "-n", "2", "--", "true"}},
		{"leave out -n and --shared", []string{"lock", "n", "--every", "1h", "--shared", "--", "true"}},
		{"which command? write: tenure lock n --every 1h0m0s -- COMMAND", []string{"lock", "n", "--every", "1h", "--events"}},
		{`--members "1=a:1": want ID=HOST:PORT, each ID once`, []string{"deliver", "--id", "1", "--data-dir", dir, "--members", "1=a:1,1=a:1"}},
		{`--members "a:1": want ID=HOST:PORT, each ID once`, []string{"deliver", "--id", "1", "--data-dir", dir, "--members", "1=a:1,a:1"}},
		{"--id 2 is not one of the members [1]", []string{"deliver", "--id", "2", "--data-dir", dir, "--members", "1=a:1"}},
		{"--at \"etcd://a\": want the socket of a peer", []string{"peer", "status", "--at", "etcd://a"}},
		{"the URL of a socket has no options", []string{"peer", "status", "--at", "flease:///s?x=1"}},
		{"there is no setting \"nosuch\" here", []string{"serve", "--initial-cluster-state", "odd", "--config-file", settings}},
		{"client-transport-security should hold settings", []string{"serve", "--initial-cluster-state", "odd", "--config-file", flat}},
		{"--config-file: ", []string{"serve", "--initial-cluster-state", "odd", "--config-file", filepath.Join(dir, "none")}},
		{"--log-level \"loud\": want debug, info, warn, error, panic or fatal", []string{"serve", "--initial-cluster-state", "odd", "--log-level", "loud"}},
		{"--log-format xml: want auto, text, console or json", []string{"serve", "--initial-cluster-state", "odd", "--log-format", "xml"}},
		{"\"true\" is not a flag; a switch that has a value is written --NAME=true", []string{"serve", "--pre-vote", "true"}},
	} {
		_, err := command(t, tt.args...)
		if wantRefused(t, err, tt.says); t.Failed() {
			t.Fatalf("tenure %q", tt.args)
		}
	}
}

// A peer whose socket cannot be made is told how to make its directory.
func TestASocketThatCannotBeMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, socket := range []string{filepath.Join(path, "peer.sock"), filepath.Join(path, "deep", "peer.sock")} {
		_, err := listenSocket(socket, 0o600)
		if want := ": make the directory for the user that runs the peer (install -d -o USER " + filepath.Dir(socket) + "), have systemd make it (RuntimeDirectory=tenure, for /run/tenure), or choose another path with --listen"; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("a socket at %s: %v, want to be told%s", socket, err, want)
		}
	}
}

// Where nothing is known of the holder a wait is told all the same, and trouble with the looks does not end the telling.
func TestAWaitIsToldInTrouble(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		words := &said{}
		ten, looks := fakeTenancy("true"), 0
		ten.words = words
		at := time.Now()
		l := troubled{looking{looks: &looks}, func() (tenure.State, error) {
			if time.Since(at) < 3*time.Second {
				return tenure.State{}, tenure.ErrUnavailable
			}
			return tenure.State{Name: "fake", Holders: []tenure.Holding{{Holder: "second", Token: 2}}}, nil
		}}
		quiet := ten.tellWait(t.Context(), l, tenure.HeldError{})
		wantTold(t, words, `^tenure: waiting for "fake"\n$`)
		time.Sleep(2500 * time.Millisecond)
		wantTold(t, words, `^tenure: waiting for "fake"\n$`)
		time.Sleep(time.Second)
		wantTold(t, words, `\ntenure: still waiting for "fake": second holds it since \d\d:\d\d:\d\d\n$`)
		quiet()
	})
}

// troubled is a Leaser whose holders are not known for a while.
type troubled struct {
	looking
	state func() (tenure.State, error)
}

func (l troubled) Await(ctx context.Context, s tenure.State) (tenure.State, error) {
	next, err := l.state()
	if err == nil && tenure.SameHolders(next, s) {
		<-ctx.Done()
		return s, ctx.Err()
	}
	return next, err
}

// Errors of an end that was not recorded are told, and the command's exit code stays.
func TestAnEndThatIsNotRecordedIsTold(t *testing.T) {
	odd := errors.New("the store is full")
	ten := fakeTenancy("sh", "-c", "exit 3")
	var got []any
	ten.ended = func(lease tenure.Lease, code int, err error) error {
		got = append(got, lease.Name(), code, err)
		return odd
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	os.Stderr = file
	code, err := ten.under(t.Context(), &fakeLease{})
	os.Stderr = stderr
	said, readErr := os.ReadFile(file.Name())
	if want := []any{"fake", 3, error(nil)}; code != 3 || err != nil || !slices.Equal(got, want) || readErr != nil || string(said) != "tenure: the store is full\n" {
		t.Errorf("the end is told as %v, and the command ends with %d, %v, saying %q; want %v, 3, and why the end is not recorded", got, code, err, said, want)
	}
}

// A member's own directory that is a file, or is another's, ends its process before it serves anybody.
func TestAMemberWithoutADirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := memberOptions{id: 1, group: 1, members: []string{"1=" + freeAddresses(t, 1)[0]}, dir: path}
	if n, err := o.start(io.Discard); err == nil {
		n.Close()
		t.Error("a member starts in a file")
	}
	o.log = cli.Log{Level: "loud"}
	_, err := o.start(io.Discard)
	wantRefused(t, err, "--log-level")
}
