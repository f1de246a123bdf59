package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
)

// takeLeases takes leases in the store of this user, until the test ends.
func takeLeases(t *testing.T, claims ...tenure.Claim) {
	t.Helper()
	cfg, err := local()
	if err != nil {
		t.Fatal(err)
	}
	l, err := openAt(t.Context(), place{url: atLocal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if info, err := os.Stat(cfg.Paths[0]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the leases of this user are in a directory of mode %v, %v; want 700", info.Mode(), err)
	}
	for _, c := range claims {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
}

// atStore runs a command line in this process with the store of this user that the test has set.
func atStore(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var b strings.Builder
	root := rootCommand()
	root.SetOut(&b)
	root.SetArgs(args)
	err := root.Execute()
	return b.String(), err
}

// Of the names that are held those with a prefix are listed and completed, in a table with their holders.
func TestListsNames(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("TENURE_AT", "")
	out, err := atStore(t, "lease", "list", "--at", "local", "-o", "json")
	if err != nil || out != "[]\n" {
		t.Errorf("nothing is held, and listed is %q, %v; want an empty list", out, err)
	}
	takeLeases(t, tenure.Claim{Name: "a/x", Holder: "one"}, tenure.Claim{Name: "b/y", Holder: "two", Slots: 3})
	var states []tenure.State
	out, err = atStore(t, "lease", "list", "b", "--at", "local", "-o", "json")
	if err != nil || json.Unmarshal([]byte(out), &states) != nil || len(states) != 1 || states[0].Name != "b/y" || len(states[0].Holders) != 1 || states[0].Holders[0].Slots != 3 {
		t.Errorf("listed is %s, %v; want b/y alone", out, err)
	}
	out, err = atStore(t, "lease", "list", "--at", "local")
	if err != nil || strings.Count(out, "\n") != 3 {
		t.Errorf("listed is\n%s%v; want a head and two names", out, err)
	}
	at := place{url: atLocal}
	for begun, want := range map[string]string{"": "a/x b/y", "a": "a/x", "c": ""} {
		names, _ := completeNames(&at)(nil, nil, begun)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q is completed to %q, want %q", begun, got, want)
		}
	}
	if names, _ := completeNames(&at)(nil, []string{"a/x"}, ""); len(names) > 0 {
		t.Errorf("behind a name it is completed to %q", names)
	}
}

// A table of leases has the holder of a name, for how long, with how many slots, and how many wait.
func TestTableOfLeases(t *testing.T) {
	var text strings.Builder
	leaseTable(&text, []tenure.State{
		{Name: "a", Waiting: 4, Holders: []tenure.Holding{
			{Holder: "one", Token: 7, Slots: 3, Until: time.Now().Add(time.Hour + 400*time.Millisecond)},
			{Holder: "two", Token: 8, Slots: 3, Until: time.Now().Add(2*time.Hour + 400*time.Millisecond)},
		}},
		{Name: "b", Waiting: 5},
		{Name: "d", Holders: []tenure.Holding{{Holder: "most", Token: 9, Slots: tenure.Shared - 1, Until: time.Now().Add(time.Hour + 400*time.Millisecond)}}},
		{Name: "c", Holders: []tenure.Holding{{Holder: "all", Token: 9, Slots: tenure.Shared, Until: time.Now().Add(-time.Hour)}}},
	})
	var got []string
	for line := range strings.Lines(text.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := "NAME HOLDER TOKEN SLOTS EXPIRES IN WAITING|a one 7 3 1h0m0s 4|a two 8 3 2h0m0s 4|b (free) 5|" + fmt.Sprintf("d most 9 %d 1h0m0s 0|c all 9 shared -1h0m0s 0", tenure.Shared-1)
	if strings.Join(got, "|") != want {
		t.Errorf("the table of leases is\n%s\nwant %s", &text, want)
	}
}

// To look at leases no right to write is needed, and nothing is made; to take one an empty directory
// becomes a store, which is told, unless it is this user's own.
func TestLookingMakesNothing(t *testing.T) {
	dir := t.TempDir()
	at := "file://" + dir
	code, out, errs := ran(t, "lease", "show", "n", "--at", at)
	if left, err := os.ReadDir(dir); code != cli.ExitUnavailable || out != "" || !strings.Contains(errs, "make a store in it first") || err != nil || len(left) > 0 {
		t.Errorf("to look into an empty directory ends with %d, %q, and leaves %v, %v; want %d, and nothing", code, errs, left, err, cli.ExitUnavailable)
	}
	if _, err := command(t, "lease", "init", "--at", at, "--single-host", "--delay", "20ms"); err != nil {
		t.Fatal(err)
	}
	handles := func() int {
		all, _ := filepath.Glob(filepath.Join(dir, "handles", "*"))
		return len(all)
	}
	if code, _, errs := ran(t, "lease", "show", "n", "--at", at); code != 0 || handles() != 0 {
		t.Errorf("to look ends with %d, %q, and has made %d handles; want none", code, errs, handles())
	}
	if code, _, errs := ran(t, "lock", "n", "--at", at, "--", "true"); code != 0 || handles() == 0 || strings.Contains(errs, "made a store") {
		t.Errorf("to lock ends with %d, %q, and has made %d handles", code, errs, handles())
	}
	code, _, errs = ran(t, "lock", "n", "--at", "local", "--", "true")
	if code != 0 || errs != "" {
		t.Errorf("this user's own store is made with %d and %q, want in silence", code, errs)
	}
	left, err := os.ReadDir(filepath.Join(os.Getenv("XDG_STATE_HOME"), "tenure"))
	left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return e.Name() == "witness" }) // of one that had to wait
	if err != nil || len(left) != 1 || left[0].Name() != "leases" {
		t.Errorf("in this user's directory there are %v, %v; want leases", left, err)
	}
}

// The making of stores is told in the number of the directories.
func TestStoresThatWereMade(t *testing.T) {
	for want, paths := range map[string][]string{
		"made a store for leases of 15s in /a, which was empty; if there should have been one, look whether it is mounted":                     {"/a"},
		"made a set of 2 stores for leases of 15s in /a, /b, which were empty; if there should have been stores, look whether all are mounted": {"/a", "/b"},
	} {
		if got := madeAt(paths, 15*time.Second); got != want {
			t.Errorf("in %q: %q, want %q", paths, got, want)
		}
	}
}

// An error of lease init has an exit code that says whether the command line, the place or its content is to be changed.
func TestExitCodesOfInit(t *testing.T) {
	dir, used := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "thesis"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, "lease", "init", "--at", "file://"+dir, "--single-host", "--delay", "20ms"); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{
		"file://" + dir:  cli.ExitCannotMake,
		"file://" + used: cli.ExitCannotMake,
		"file://" + t.TempDir() + " --ttl 1s --delay 1s":             cli.ExitUsage,
		"file://" + t.TempDir() + " --handles 3 --single-host":       cli.ExitUsage,
		"file://" + filepath.Join(used, "thesis") + " --single-host": cli.ExitUsage, // for how many?
		"file://relative":                      cli.ExitUsage,
		"file://" + filepath.Join(dir, "none"): cli.ExitUnavailable,
		"redis://127.0.0.1:1":                  cli.ExitUnavailable,
	} {
		_, err := command(t, append([]string{"lease", "init", "--at"}, strings.Fields(args)...)...)
		wantExit(t, err, want)
	}
}

// An error about a server shows how to start one, for each way to name one.
func TestHowToStartAServer(t *testing.T) {
	for at, want := range map[string]bool{"etcd://a": true, "etcds://a": true, "redis://a": false, "file:///a": false, "local": false} {
		if _, err := unavailable(at)(nil, errors.New("odd")); strings.Contains(err.Error(), "`tenure serve` starts one") != want {
			t.Errorf("at %s: %v, want that tenure serve starts one: %v", at, err, want)
		}
		if _, err := unavailable(at)(nil, rpctypes.ErrUserEmpty); !strings.HasSuffix(err.Error(), " (--user or TENURE_USER)") {
			t.Errorf("at %s no user is named: %v, want how to name one", at, err)
		}
	}
}

// These are the defaults of a new store, and their report.
func TestDefaultsOfStores(t *testing.T) {
	out, err := command(t, "lease", "init", "--at", "file://"+t.TempDir(), "--single-host", "-o", "json")
	var made madeStores
	if err != nil || json.Unmarshal([]byte(out), &made) != nil {
		t.Fatalf("%s, %v", out, err)
	}
	if made.TTLMS != 15000 || made.DriftPPM != 1000 || !made.Measured || made.Stores != 1 || made.FreeMS != 4*made.DelayMS {
		t.Errorf("made by default is %+v; want leases of 15s, 1000 ppm, a delay that was measured, and four of them for a free lease", made)
	}
	out, err = command(t, "lease", "init", "--at", "local")
	if err != nil || !strings.Contains(out, "made a store for leases of 15s; ") || !strings.Contains(out, " (measured), clocks differ by up to 1000 ppm\n") {
		t.Errorf("made for this user is %q, %v; want leases of 15s, measured", out, err)
	}
	out, err = command(t, "lease", "init", "--at", "local", "--delay", "20ms", "--ttl", "9s")
	if err != nil || !strings.Contains(out, "for leases of 9s; accesses take up to 20ms (as given)") || !strings.Contains(out, "\n  a free lease is had within about 80ms\n  a dead holder's is another's 9.1") {
		t.Errorf("made for this user is %q, %v; want leases of 9s, as given", out, err)
	}
	_, err = command(t, "lease", "init", "--at", "rediss://127.0.0.1:1")
	if err == nil || strings.Contains(err.Error(), "needs no stores") {
		t.Errorf("a Redis server by TLS: %v, want it tried", err)
	}
}

// The making of stores is told with how many of them may fail, and how soon leases are had.
func TestTableOfMadeStores(t *testing.T) {
	h := register.Header{Term: 15 * time.Second, Delay: 20 * time.Millisecond, Drift: 1000}
	rest := fmt.Sprintf("clocks differ by up to 1000 ppm| a free lease is had within about 80ms| a dead holder's is another's %v after its last renewal", storage.Takeover(h).Round(time.Millisecond))
	for stores, want := range map[int]string{1: "a store", 2: "a set of 2 stores, of which 0 may fail,", 3: "a set of 3 stores, of which 1 may fail,", 5: "a set of 5 stores, of which 2 may fail,"} {
		for how, measured := range map[string]bool{"measured": true, "as given": false} {
			var b strings.Builder
			madeStores{Stores: stores, Measured: measured}.table(&b, h)
			want := "made " + want + " for leases of 15s; accesses take up to 20ms (" + how + "), " + strings.ReplaceAll(rest, "| ", "|")
			if got := squeezed(b.String()); got != want {
				t.Errorf("made are %d stores, told is\n%s\nwant\n%s", stores, got, want)
			}
		}
	}
}

// A device has as many handles as were asked for, and a store's trouble is shown.
func TestStoresOnADevice(t *testing.T) {
	device := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(device, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	at := "file://" + device
	if _, err := command(t, "lease", "init", "--at", at, "--single-host", "--delay", "20ms"); err == nil || !strings.Contains(err.Error(), "needs the number of handles") {
		t.Errorf("without --handles: %v, want it refused", err)
	}
	if out, err := command(t, "lease", "init", "--at", at, "--single-host", "--delay", "200ms", "--handles", "2"); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	for range 2 {
		l, err := engine.Open(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "n", Slots: 2}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := command(t, "lease", "show", "n", "--at", at)
	if err != nil || !strings.Contains(out, "\n\nSTORE ") || !strings.Contains(out, device) || strings.Count(out, "\nn ") != 2 {
		t.Errorf("shown is\n%s%v; want two holders, and the device", out, err)
	}
}

// unobserved is a leaser that cannot be observed.
type unobserved struct{ tenure.Leaser }

var errUnobserved = errors.New("nobody knows")

func (unobserved) Observe(context.Context, string) (tenure.State, error) {
	return tenure.State{}, errUnobserved
}

// A part that cannot be read is not shown, and the reason is.
func TestShowsNothingItCannotSee(t *testing.T) {
	var text strings.Builder
	if err := showLease(t.Context(), unobserved{}, "n", "table", &text); err != errUnobserved || text.Len() > 0 {
		t.Errorf("a lease that cannot be observed is shown as %q, %v", &text, err)
	}
	dir := t.TempDir()
	if _, err := command(t, "lease", "init", "--at", "file://"+dir, "--single-host", "--delay", "20ms"); err != nil {
		t.Fatal(err)
	}
	l, err := engine.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := showLease(t.Context(), l, "n", "table", &text); err == nil || text.Len() > 0 {
		t.Errorf("a store that is closed is shown as %q, %v", &text, err)
	}
}
