package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

func TestMain(m *testing.M) {
	if os.Getenv(variable) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestParts runs what can be run here, small, and wants figures from each variant. The
// takeovers take as long as they take, and are left to the long run.
func TestParts(t *testing.T) {
	args := []string{"-dir", t.TempDir(), "-runs=1", "-window=2s"}
	if testing.Short() {
		args = append(args, "-only=acquire,cost 8")
	}
	opt, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var progress bytes.Buffer
	results, err := measure(ctx, opt, &progress)
	t.Logf("\n%s", &progress)
	if err != nil {
		t.Fatal(err)
	}
	medians := summarize(results)
	var text bytes.Buffer
	table(&text, medians)
	t.Logf("\n%s", &text)
	got := map[string]bool{}
	for _, r := range medians {
		got[r.Part+", "+r.Variant] = true
		if r.Took <= 0 && r.CPU <= 0 && r.Process <= 0 {
			t.Errorf("%s, %s: nothing was measured", r.Part, r.Variant)
		}
	}
	want := []string{"acquire, δ = 1 s", "acquire, tenure",
		"cost 8, server", "cost 8, 3 servers", "cost 8, directory", "cost 8, 3 directories"}
	if _, err := exec.LookPath("sanlock"); err == nil {
		want = append(want, "acquire, sanlock")
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		want = append(want, "cost 8, 3 redis")
	}
	if !testing.Short() {
		want = append(want, "release, tenure", "cost 0, server", "takeover, tenure", "takeover, δ = 1 s", "renew, tenure", "renew, δ = 1 s")
	}
	for _, w := range want {
		if !got[w] {
			t.Errorf("there is no %s", w)
		}
	}
	svg := filepath.Join(t.TempDir(), "cost.svg")
	if err := draw(svg, medians); err != nil {
		t.Error(err)
	}
}

// Two programs' traces: libaio, and threads that interrupt each other.
const traced = `22466 1700000000.100000 openat(AT_FDCWD</tmp>, "/tmp/x/f", O_RDWR|O_SYNC|O_DIRECT) = 3</tmp/x/f> <0.000010>
22466 1700000000.100100 io_submit(0x7fc49dea9000, 1, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3</tmp/x/f>, aio_buf=0x55b49f0ea000, aio_nbytes=512, aio_offset=0}]) = 1 <0.000010>
22466 1700000000.100200 io_getevents(0x7fc49dea9000, 1, 1, [{data=0, obj=0x55b49f0e7e70, res=512, res2=0}], {tv_sec=1, tv_nsec=0}) = 1 <0.000100>
22466 1700000000.200000 io_submit(0x7fc49dea9000, 1, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes=3</tmp/x/f>, aio_buf="\20 !"..., aio_nbytes=512, aio_offset=0}]) = 1 <0.000010>
22466 1700000000.200100 io_getevents(0x7fc49dea9000, 1, 1, [{data=0, obj=0x55b49f0e7e70, res=512, res2=0}], {tv_sec=68, tv_nsec=0}) = 1 <0.000900>
30 1700000001.000000 write(5</dev/null>, "bench mark: renew ", 18) = 18 <0.000010>
30 1700000001.100000 pread64(3</tmp/x/f>,  <unfinished ...>
31 1700000001.100100 pwrite64(3</tmp/x/f>, "TenureR"..., 8192, 16384) = 8192 <0.000100>
30 1700000001.100300 <... pread64 resumed>"TenureH"..., 73728, 0) = 73728 <0.000200>
31 1700000001.100400 read(0</tmp/y>, "", 100) = 0 <0.000100>
`

func TestReadTrace(t *testing.T) {
	phases := readTrace(bufio.NewScanner(strings.NewReader(traced)), "/tmp/x")
	a := phases[""]
	if took := a.span().Round(time.Millisecond); took != 101*time.Millisecond {
		t.Errorf("the first phase took %v, want 101ms", took)
	}
	a.first, a.last = 0, 0
	if want := (accesses{Reads: 1, Writes: 1, ReadBytes: 512, WrittenBytes: 512, Others: 1}); a != want {
		t.Errorf("got %+v, want %+v", a, want)
	}
	b := phases["renew"]
	b.first, b.last = 0, 0
	if want := (accesses{Reads: 1, Writes: 1, ReadBytes: 73728, WrittenBytes: 8192}); b != want {
		t.Errorf("got %+v, want %+v", b, want)
	}
}

// TestRecorder has three stores, one of which is slow to show a renewal.
func TestRecorder(t *testing.T) {
	rec := &recorder{stores: 3}
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	version := machine.Version{Seq: 7, Writer: machine.ID{1}}
	for store, shift := range []int{0, 1, 5} {
		for _, a := range []asked{
			{from: at(0), to: at(1)}, {from: at(100), to: at(101)}, {put: version, from: at(102), to: at(103)}, {from: at(113), to: at(114)},
			{from: at(200), to: at(201)},
		} {
			a.store, a.name, a.from, a.to = store, "a", a.from.Add(time.Duration(shift)*time.Millisecond), a.to.Add(time.Duration(shift)*time.Millisecond)
			rec.asked = append(rec.asked, a)
		}
	}
	_, took, _ := rec.renewals()
	if len(took) != 1 || took[0] != 15*time.Millisecond {
		t.Errorf("got %v, want one of 15ms: from the first Query to the second store's last", took)
	}
}

func TestRecorded(t *testing.T) {
	rec := &recorder{}
	s := rec.wrap(register.NewMemory(register.Header{Set: machine.ID{1}, Of: 1, Term: time.Second, Delay: time.Millisecond}).Open())
	s.Do([]register.Op{{Name: "a", Op: quorumregister.Query{}}})
	s.Do([]register.Op{{Name: "a", Op: quorumregister.Put{Version: machine.Version{Seq: 1}}}, {Name: "b", Op: quorumregister.Query{}}})
	s.Do([]register.Op{{Name: "a", Op: quorumregister.Query{}}})
	if n, took, batches := rec.renewals(); n != 1 || len(took) != 1 || batches != 3 {
		t.Errorf("%d renewals, %d whole, in %d batches, want 1, 1, 3", n, len(took), batches)
	}
}

func TestSummarize(t *testing.T) {
	medians := summarize([]result{
		{Part: "renew", Variant: byTenure, Took: 30 * time.Millisecond, CPU: 200},
		{Part: "acquire", Variant: byTenure, Took: time.Millisecond},
		{Part: "acquire", Variant: bySanlock, Process: 4 * time.Second},
		{Part: "acquire", Variant: bySanlock, Took: 2 * time.Second, Reads: 3},
		{Part: "renew", Variant: byTenure, Took: 10 * time.Millisecond, CPU: 100},
		{Part: "renew", Variant: byTenure, Took: 20 * time.Millisecond, Reads: 2},
	})
	want := []result{
		{Part: "acquire", Variant: bySanlock, Runs: 2, Took: 2 * time.Second, Process: 4 * time.Second, Reads: 3},
		{Part: "acquire", Variant: byTenure, Runs: 1, Took: time.Millisecond},
		{Part: "renew", Variant: byTenure, Runs: 3, Took: 20 * time.Millisecond, CPU: 200, Reads: 2},
	}
	if len(medians) != len(want) {
		t.Fatalf("got %+v, want %+v", medians, want)
	}
	for i := range want {
		if medians[i] != want[i] {
			t.Errorf("got %+v, want %+v", medians[i], want[i])
		}
	}
	var text bytes.Buffer
	table(&text, medians)
	if !strings.Contains(text.String(), " 2e+03 ") {
		t.Errorf("the table has no ratio:\n%s", &text)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"-runs=0"}, {"-cost-runs=0"}, {"-o=xml"}, {"-window=10ms"}, {"-nonsense"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
