package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine"
	"github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/redis"
	"github.com/tenure-lease/tenure/internal/holder/storage"
)

// The settings chosen for stores, and their consequences, are in the JSON as in the text.
func TestMadeStores(t *testing.T) {
	at := "file://" + t.TempDir()
	out, err := command(t, "lease", "init", "--at", at, "--single-host", "--ttl", "30s", "--delay", "20ms", "--drift", "500", "-o", "json")
	var made madeStores
	if err != nil || json.Unmarshal([]byte(out), &made) != nil {
		t.Fatalf("%s, %v", out, err)
	}
	if len(made.Set) != 32 {
		t.Errorf("the set is %q, want 32 digits", made.Set)
	}
	made.Set = ""
	want := madeStores{At: at, Stores: 1, TTLMS: 30000, DelayMS: 20, DriftPPM: 500, FreeMS: 80, TakeoverMS: made.TakeoverMS}
	if made != want || made.TakeoverMS < 30135 || made.TakeoverMS >= 30136 {
		t.Errorf("got %+v, want %+v, and a takeover within 30135 ms", made, want)
	}
	out, err = command(t, "lease", "init", "--at", "file://"+strings.Join([]string{t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()}, ","), "--single-host", "--ttl", "30s", "--delay", "20ms")
	if err != nil || !strings.Contains(out, "made a set of 4 stores, of which 1 may fail, for leases of 30s; accesses take up to 20ms (as given)") {
		t.Errorf("of four stores it says %q, %v", out, err)
	}
}

// The leases of a user are for one machine's processes: their store needs no direct I/O.
func TestLocalStoresAreOfOneHost(t *testing.T) {
	if _, err := command(t, "lease", "init", "--at", "local", "--delay", "20ms"); err != nil {
		t.Fatal(err)
	}
	header, err := os.ReadFile(filepath.Join(os.Getenv("XDG_STATE_HOME"), "tenure/leases/TENURE"))
	if err != nil {
		t.Fatal(err)
	}
	const single = 19 // behind a block's kind, checksum and format
	if header[single] != 1 {
		t.Errorf("the header of the store begins with %x, want that it is of a single host", header[:single+1])
	}
	if code, _, errs := ran(t, "lock", "n", "--at", "local", "--", "true"); code != 0 {
		t.Fatalf("to lock ends with %d, %q", code, errs)
	}
	if header, err = os.ReadFile(filepath.Join(os.Getenv("XDG_STATE_HOME"), "tenure/leases/TENURE")); err != nil || header[single] != 1 {
		t.Errorf("the header of a store that lock has made begins with %x, %v; want that it is of a single host", header[:single+1], err)
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	if cfg, err := local(); err == nil || !strings.Contains(err.Error(), "set one, or give --at") {
		t.Errorf("without a place for it this user's store is at %q, %v; want to be told what to set", cfg.Paths, err)
	}
}

// redisServer is a stand-in for Redis. It answers INFO itself, with which miniredis would race.
func redisServer(t *testing.T) *miniredis.Miniredis {
	h := miniredis.RunT(t)
	h.Server().SetPreHook(func(c *miniserver.Peer, cmd string, _ ...string) bool {
		if strings.EqualFold(cmd, "INFO") {
			c.WriteBulk("# Clients\r\nconnected_clients:1\r\n")
		}
		return strings.EqualFold(cmd, "INFO")
	})
	return h
}

// Stores on a Redis server are made and shown, with what may happen to them.
func TestShowsWhatRedisMayLose(t *testing.T) {
	h := redisServer(t)
	at := "redis://" + h.Addr()
	if out, err := command(t, "lease", "init", "--at", at, "--ttl", "30s", "--delay", "100ms", "-o", "json"); err != nil || !strings.Contains(out, `"ttl_ms": 30000`) {
		t.Fatalf("%s, %v", out, err)
	}
	out, err := command(t, "lease", "show", "n", "--at", at, "-o", "json")
	var shown shownLease
	if err != nil || json.Unmarshal([]byte(out), &shown) != nil || len(shown.Stores) != 1 {
		t.Fatalf("%s, %v", out, err)
	}
	if s := shown.Stores[0]; s.Store != h.Addr() || s.Error != "" || s.Warning == "" {
		t.Errorf("the store is shown as %+v, want %s, and what it may lose", s, h.Addr())
	}
}

// A store that cannot be read is shown with the reason, beside those that can.
func TestShowsWhyAStoreDoesNotCount(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	at := "file://" + strings.Join(dirs, ",")
	if _, err := command(t, "lease", "init", "--at", at, "--single-host", "--delay", "100ms"); err != nil {
		t.Fatal(err)
	}
	l, err := engine.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "n"}); err != nil {
		t.Fatal(err)
	}
	var shown shownLease
	for range 100 { // its owner may find the damage first, and move to another file
		handles, err := filepath.Glob(filepath.Join(dirs[1], "handles", "*"))
		if err != nil || len(handles) == 0 {
			t.Fatalf("the handles are %q, %v", handles, err)
		}
		content, err := os.ReadFile(handles[0])
		if err != nil {
			continue
		}
		content[100]++ // in its header
		if err := os.WriteFile(handles[0], content, 0); err != nil {
			t.Fatal(err)
		}
		out, err := command(t, "lease", "show", "other", "--at", at, "-o", "json")
		if shown = (shownLease{}); err != nil || json.Unmarshal([]byte(out), &shown) != nil || len(shown.Stores) != 3 {
			t.Fatalf("%s, %v", out, err)
		}
		if shown.Stores[1].Error != "" {
			break
		}
	}
	for i, s := range shown.Stores {
		if i == 1 {
			if s.Store != dirs[i] || !strings.Contains(s.Error, "its checksum is wrong") {
				t.Errorf("the store is shown as %+v, want %s with a checksum that is wrong", s, dirs[i])
			}
		} else if s.Store != dirs[i] || s.Error != "" || s.Handles != 1 {
			t.Errorf("the store is shown as %+v, want %s with one handle", s, dirs[i])
		}
	}
}

// Each store has its line, which names its trouble.
func TestTableOfStores(t *testing.T) {
	silent := shownStoreOf("b", storage.Health{Err: errors.Join(errors.New("it does"), errors.New("not answer"))})
	took := shownStoreOf("a", storage.Health{Took: 1500 * time.Microsecond})
	if silent.Error != "it does\nnot answer" || took.TookMS != 1.5 {
		t.Errorf("got %+v and %+v, want the error of the one and the time of the other", silent, took)
	}
	files := shownFiles(file.Health{Path: "/a", Handles: 3, Damage: []string{"torn"}, Health: storage.Health{Took: time.Millisecond}})
	server := shownServer(redis.Health{Addr: "h:1", Warning: "it may lose", Health: storage.Health{Err: errors.New("odd")}})
	if got, want := fmt.Sprintf("%+v %+v", files, server), "{Store:/a TookMS:1 Error: Handles:3 Damage:[torn] Warning:} {Store:h:1 TookMS:0 Error:odd Handles:0 Damage:[] Warning:it may lose}"; got != want {
		t.Errorf("a directory and a server are shown as %s, want %s: all that is known of them", got, want)
	}
	took.Handles = 3
	var text strings.Builder
	storeTable(&text, []shownStore{took, silent, {Store: "c", Damage: []string{"torn"}}, {Store: "d", Damage: []string{"torn", "cut"}}, {Store: "e", Warning: "it may lose what it has"},
		{Store: "f", Damage: []string{"torn"}, Warning: "it may lose what it has"}, {Store: "g", Error: "silent", Damage: []string{"torn"}, Warning: "it may lose what it has", Handles: 2}})
	var got []string
	for line := range strings.Lines(text.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := "STORE ANSWERS IN HANDLES STATE|a 1.5 ms 3 good|b - 0 it does not answer|c 0.0 ms 0 damaged: torn|d 0.0 ms 0 damaged: torn; cut|e 0.0 ms 0 it may lose what it has|" +
		"f 0.0 ms 0 damaged: torn|g - 2 silent"
	if strings.Join(got, "|") != want {
		t.Errorf("got\n%s\nwant %s", text.String(), want)
	}
}

// The proposal bears the slowest of the stores, and leases last for a hundred accesses at least.
func TestWhatABenchProposes(t *testing.T) {
	ms := func(n ...int) (list []time.Duration) {
		for _, n := range n {
			list = append(list, time.Duration(n)*time.Millisecond)
		}
		return list
	}
	times := file.Times{Read: ms(1, 2), Write: ms(3, 4), Both: ms(5, 200)}
	for name, tt := range map[string]struct {
		both       []int // the slowest read and write of each store, in milliseconds
		delay, ttl float64
	}{
		"quick stores":          {[]int{1, 1, 1}, millis(storage.LeastDelay), 15000},
		"the slowest is first":  {[]int{200, 10, 20}, 400, 40000},
		"the slowest is last":   {[]int{10, 20, 100}, 200, 20000},
		"one that is not quick": {[]int{50}, 100, 15000},
	} {
		var b benched
		delay := storage.LeastDelay
		for i, slowest := range tt.both {
			times.Both = ms(1, slowest)
			delay = b.add(benchedStore{Store: fmt.Sprint("/", i), Accesses: 7}, times, delay)
		}
		if err := b.propose(delay); err != nil || b.Proposed.DelayMS != tt.delay || b.Proposed.TTLMS != tt.ttl || b.Proposed.TakeoverMS <= tt.ttl+6*tt.delay-1 {
			t.Errorf("%s: proposed is %+v, %v; want a delay of %v ms, a TTL of %v ms, and a takeover after more than the TTL and 6 delays", name, b.Proposed, err, tt.delay, tt.ttl)
		}
		if last, want := b.Medium[len(b.Medium)-1], (benchedStore{fmt.Sprint("/", len(tt.both)-1), 7, quantiles{2, 2, 2, 2}, quantiles{4, 4, 4, 4}}); len(b.Medium) != len(tt.both) || last != want {
			t.Errorf("%s: of %d stores, the last is told as %+v, want %+v", name, len(b.Medium), last, want)
		}
	}
}

// A measurement is told whole, in JSON as in the table: how long accesses take, what to make of them, and for whom.
func TestTableOfABench(t *testing.T) {
	times := make([]time.Duration, 2000)
	for i := range times {
		times[i] = time.Duration(i) * time.Millisecond
	}
	if got, want := quantilesOf(times), (quantiles{1000, 1980, 1998, 1999}); got != want {
		t.Errorf("the quantiles of 0 to 1999 ms are %+v, want %+v", got, want)
	}
	b := benched{At: "file:///d", Medium: []benchedStore{{Store: "/d", Accesses: 10, Read: quantiles{1, 2, 3, 4}, Write: quantiles{5, 6, 7, 8}}}}
	b.Proposed.TTLMS, b.Proposed.DelayMS, b.Proposed.TakeoverMS = 15000, 20, 15135
	ms := func(all ...time.Duration) (list []time.Duration) {
		for _, d := range all {
			list = append(list, d*time.Millisecond)
		}
		return list
	}
	b.medians(ms(41, 1, 99), ms(98, 42, 2), ms(3, 97, 43)) // not sorted
	var text strings.Builder
	b.table(&text)
	want := "STORE ACCESS p50 p99 p99.9 MAX|/d read 1.00 ms 2.00 ms 3.00 ms 4.00 ms|/d write 5.00 ms 6.00 ms 7.00 ms 8.00 ms||" +
		"proposed: tenure lease init --at file:///d --ttl 15s --delay 20ms|a dead holder's lease is another's 15.135s after its last renewal|medians: acquire 41.0 ms, renew 42.0 ms, release 43.0 ms"
	var got []string
	for line := range strings.Lines(text.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if strings.Join(got, "|") != want {
		t.Errorf("told is\n%s\nwant %s", &text, want)
	}
}
