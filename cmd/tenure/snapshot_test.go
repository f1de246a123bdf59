package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure/internal/cli"
)

// jsonOf runs a command line, and reads its JSON.
func jsonOf[T any](t *testing.T, args ...string) (got T) {
	t.Helper()
	out, err := command(t, append(args, "-o", "json")...)
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil {
		t.Fatalf("tenure %q: %v\n%s", args, err, out)
	}
	return got
}

// savedFile saves a server of one key and one lease to a file below a directory.
func savedFile(t *testing.T, dir string) (at, file string, saved savedSnapshot) {
	t.Helper()
	at, file = "etcd://"+startServer(t), filepath.Join(dir, "saved.db")
	client, err := serverAt(t.Context(), place{url: at})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Grant(t.Context(), 3600); err != nil {
		t.Fatal(err)
	}
	return at, file, jsonOf[savedSnapshot](t, "snapshot", "save", file, "--at", at)
}

// A snapshot is told as it is: by the command that saves it, by that which looks into it, and by that which makes a directory of it.
func TestASnapshotIsToldAsItIs(t *testing.T) {
	t.Chdir(t.TempDir())
	at, file, saved := savedFile(t, t.TempDir())
	c := jsonOf[cluster](t, "member", "list", "--at", at)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if saved.File != file || saved.Bytes != info.Size() || saved.Revision < 2 || saved.Cluster != c.Cluster || saved.Member != c.Members[0].ID || saved.Version != "3.7.0" || saved.TookMS <= 0 || saved.TookMS > 60_000 {
		t.Errorf("saved is %+v, want %d bytes of member %s of cluster %s", saved, info.Size(), c.Members[0].ID, c.Cluster)
	}
	s := jsonOf[snapshotStatus](t, "snapshot", "status", file)
	if s.Hash == 0 || s.Revision != saved.Revision || s.TotalKey != 1 || s.TotalSize <= 0 || s.TotalSize > saved.Bytes || s.Version != "3.7.0" || s.Compacted > 0 || s.Leases != 1 || !s.Checksum {
		t.Errorf("in the file is %+v, want one key and one lease of revision %d", s, saved.Revision)
	}
	out, err := command(t, "snapshot", "status", file)
	want := fmt.Sprintf("HASH REVISION HISTORY FROM KEYS LEASES BYTES VERSION CHECKSUM|%x %d the first 1 1 %d 3.7.0 matches", s.Hash, s.Revision, s.TotalSize)
	if squeezed(out) != want || err != nil {
		t.Errorf("in the file is %s, %v; want %s", squeezed(out), err, want)
	}
	r := jsonOf[restoredSnapshot](t, "snapshot", "restore", file, "--name", "one", "--bump-revision", "0")
	if r.File != file || r.DataDir != "one.tenure" || r.Name != "one" || r.Cluster == "" || r.Cluster == "0" || r.Revision != s.Revision || r.Keys != 1 || r.Leases != 1 || r.Orphans != 0 {
		t.Errorf("restored is %+v, want the file in one.tenure", r)
	}
	raised := jsonOf[restoredSnapshot](t, "snapshot", "restore", file, "--name", "one", "--data-dir", "raised", "--bump-revision", "1000", "--mark-compacted")
	if raised.Revision <= r.Revision+1000-2 || raised.DataDir != "raised" || raised.Cluster == r.Cluster {
		t.Errorf("raised by 1000 is %+v, want it of another cluster than %+v: its members may not meet those", raised, r)
	}
	log := filepath.Join(t.TempDir(), "log")
	jsonOf[restoredSnapshot](t, "snapshot", "restore", file, "--name", "one", "--data-dir", "apart", "--wal-dir", log)
	if segments, err := filepath.Glob(filepath.Join(log, "*.wal")); err != nil || len(segments) == 0 {
		t.Errorf("restored with its log elsewhere, it has %q there, %v", segments, err)
	}
	least := jsonOf[restoredSnapshot](t, "snapshot", "restore", file, "--name", "one", "--data-dir", "least", "--bump-revision", "1", "--mark-compacted")
	if least.Revision+999 != raised.Revision || least.Revision <= r.Revision {
		t.Errorf("raised by 1 and by 1000 the revision %d is %d and %d", r.Revision, least.Revision, raised.Revision)
	}
	if d := jsonOf[restoredSnapshot](t, "snapshot", "restore", file, "--data-dir", "default"); d.Revision-r.Revision != 1_000_000_000 || d.Name != "default" {
		t.Errorf("restored without a word on the revision is %+v, want %d raised by a thousand million", d, r.Revision)
	}
	again := jsonOf[restoredSnapshot](t, "snapshot", "restore", file, "--name", "one", "--data-dir", "again", "--bump-revision", "0")
	if again.Cluster != r.Cluster {
		t.Errorf("two members of the same file are of clusters %s and %s", r.Cluster, again.Cluster)
	}
	other := jsonOf[restoredSnapshot](t, "snapshot", "restore", file, "--name", "one", "--data-dir", "other", "--initial-cluster-token", "other", "--bump-revision", "0")
	if other.Cluster == r.Cluster {
		t.Error("a cluster with another token has the same ID")
	}
	for _, dir := range []string{"one.tenure", "raised", "again", "other"} {
		if _, err := os.Stat(filepath.Join(dir, "wal")); err != nil {
			t.Errorf("no log was made in %s: %v", dir, err)
		}
	}
}

// The history of a file begins where it was compacted, and a file without a checksum is told apart.
func TestTableOfASnapshot(t *testing.T) {
	for want, s := range map[string]snapshotStatus{
		"1f 9 the first 3 4 5 3.6 none":    {Hash: 31, Revision: 9, TotalKey: 3, Leases: 4, TotalSize: 5, Version: "3.6", Compacted: -1},
		"1f 9 the first 3 4 5 3.6 matches": {Hash: 31, Revision: 9, TotalKey: 3, Leases: 4, TotalSize: 5, Version: "3.6", Compacted: 0, Checksum: true},
		"1f 9 1 3 4 5 3.6 none":            {Hash: 31, Revision: 9, TotalKey: 3, Leases: 4, TotalSize: 5, Version: "3.6", Compacted: 1},
		"1f 9 7 3 4 5 3.6 none":            {Hash: 31, Revision: 9, TotalKey: 3, Leases: 4, TotalSize: 5, Version: "3.6", Compacted: 7},
	} {
		var b strings.Builder
		s.table(&b)
		if got := squeezed(b.String()); got != "HASH REVISION HISTORY FROM KEYS LEASES BYTES VERSION CHECKSUM|"+want {
			t.Errorf("%+v is told as %s, want %s", s, got, want)
		}
	}
}

// A sentence tells of the restored state, and another tells of keys that have lost their lease.
func TestWhatWasRestored(t *testing.T) {
	for orphans, more := range map[int]string{0: "", 1: "1 keys had a lease that is not in the file: they stay, without a lease\n", 7: "7 keys had a lease that is not in the file: they stay, without a lease\n"} {
		var b strings.Builder
		restoredSnapshot{File: "f", DataDir: "d", Name: "n", Cluster: "c1", Revision: 4, Keys: 5, Leases: 6, Orphans: orphans}.table(&b)
		if want := "made d of f: revision 4, 5 keys, 6 leases; member n of cluster c1\n" + more; b.String() != want {
			t.Errorf("restored with %d keys that had a lease is told as %q, want %q", orphans, &b, want)
		}
	}
}

// partOfSnapshot is a member that sends a part of a snapshot.
type partOfSnapshot struct {
	stockMember
	whole bool // it sends an end, which is none
}

func (m partOfSnapshot) Snapshot(_ *pb.SnapshotRequest, s pb.Maintenance_SnapshotServer) error {
	if err := s.Send(&pb.SnapshotResponse{Blob: []byte("a part"), RemainingBytes: 7}); err != nil || m.whole {
		return err
	}
	return rpctypes.ErrGRPCTimeout
}

// A snapshot is there whole or not at all, and the exit code says why. A file that is there is not written over, nor is a link to nothing.
func TestASnapshotIsWholeOrNotThere(t *testing.T) {
	dir := t.TempDir()
	at, file, _ := savedFile(t, dir)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "nothing"), dangling); err != nil {
		t.Fatal(err)
	}
	stock := func(whole bool) string {
		l, g := listenLocal(t), grpc.NewServer()
		m := partOfSnapshot{stockMember{url: "http://" + l.Addr().String()}, whole}
		pb.RegisterClusterServer(g, m)
		pb.RegisterMaintenanceServer(g, m)
		serveUntilEnd(t, g, l)
		return "etcd://" + l.Addr().String()
	}
	for _, tt := range []struct {
		file, at string
		code     int
		says     string
	}{
		{file, at, cli.ExitCannotMake, file + " is there already: name another file"},
		{dangling, at, cli.ExitCannotMake, dangling + " is there already: name another file"},
		{filepath.Join(dir, "none", "x"), at, cli.ExitCannotMake, "no such file"},
		{filepath.Join(dir, "x"), stock(false), cli.ExitUnavailable, "; nothing was saved"},
		{filepath.Join(dir, "x"), stock(true), cli.ExitUnavailable, "is not whole"},
		{filepath.Join(dir, "x"), "etcd://" + freeAddresses(t, 1)[0], cli.ExitUnavailable, "; nothing was saved"},
		{filepath.Join(dir, "x"), "file:///x", cli.ExitUsage, "file:///x"},
	} {
		out, err := command(t, "snapshot", "save", tt.file, "--at", tt.at)
		if wantExit(t, err, tt.code); err == nil || !strings.Contains(err.Error(), tt.says) || out != "" {
			t.Errorf("saving to %s from %s: %v, prints %q; want %q", tt.file, tt.at, err, out, tt.says)
		}
	}
	if after, err := os.ReadFile(file); err != nil || !slices.Equal(before, after) {
		t.Errorf("a file that was there has %d bytes of %d, %v", len(after), len(before), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left are %v, %v; want the file and the link", left, err)
	}
}

// A slash at the end of a peer URL is none: the cluster that is restored is the same.
func TestARestoredMemberHasNoSlash(t *testing.T) {
	t.Chdir(t.TempDir())
	_, file, _ := savedFile(t, t.TempDir())
	var want string
	for i, tt := range []struct{ advertised, cluster string }{
		{"http://10.0.0.1:2380", "a=http://10.0.0.1:2380,b=http://10.0.0.2:2380"},
		{"http://10.0.0.1:2380/", "a=http://10.0.0.1:2380,b=http://10.0.0.2:2380"},
		{"http://10.0.0.1:2380", "a=http://10.0.0.1:2380/,b=http://10.0.0.2:2380"},
		{"http://10.0.0.1:2380/", "a=http://10.0.0.1:2380/,b=http://10.0.0.2:2380/"},
		{"http://[::ffff:10.0.0.1]:2380", "a=http://10.0.0.1:2380,b=http://10.0.0.2:2380"}, // the same place
	} {
		made := jsonOf[restoredSnapshot](t, "snapshot", "restore", file, "--name", "a", "--data-dir", fmt.Sprint(i),
			"--initial-advertise-peer-urls", tt.advertised, "--initial-cluster", tt.cluster)
		if i == 0 {
			want = made.Cluster
		}
		if made.Cluster != want || want == "" {
			t.Errorf("at %s of %s the cluster is %s, want %s", tt.advertised, tt.cluster, made.Cluster, want)
		}
	}
}

// A directory is made of a file that is whole and of words that agree, or nothing is made.
func TestWhatIsNotRestored(t *testing.T) {
	t.Chdir(t.TempDir())
	_, file, _ := savedFile(t, t.TempDir())
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"bare": whole[:len(whole)-32], "odd": append(slices.Clone(whole[:100]), append([]byte("x"), whole[101:]...)...), "used/x": nil} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args string
		code int // 0: none of its own
		says string
	}{
		{file + " --bump-revision -1 --mark-compacted", cli.ExitUsage, "want how many revisions to add"},
		{file + " --bump-revision 1 --mark-compacted=false", cli.ExitUsage, "--bump-revision 1 with --mark-compacted=false: "},
		{file + " --bump-revision 0 --mark-compacted", cli.ExitUsage, "--bump-revision 0 with --mark-compacted=true: "},
		{file + " --bump-revision 9223372036854775807 --mark-compacted", cli.ExitUsage, "--bump-revision: "},
		{file + " --initial-cluster x", cli.ExitUsage, "want name=http://host:port"},
		{file + " --initial-cluster x=http://a:1", cli.ExitUsage, "--initial-cluster does not name default"},
		{file + " --initial-cluster default=http://a:1", cli.ExitUsage, "is at http://a:1, --initial-advertise-peer-urls says http://localhost:2380"},
		{file + " --data-dir used", cli.ExitCannotMake, "used is not empty"},
		{"bare", 0, "its end is missing; --skip-hash-check takes it as it is"},
		{"odd", 0, "odd"},
		{"odd --skip-hash-check", 0, "odd"},
		{"none", 0, "none"},
	} {
		out, err := command(t, append([]string{"snapshot", "restore"}, strings.Fields(tt.args)...)...)
		if tt.code != 0 {
			wantExit(t, err, tt.code)
		} else if err == nil || errors.As(err, new(cli.ExitError)) {
			t.Errorf("restore %s: %v, want it without an exit code of its own", tt.args, err)
		}
		if err == nil || !strings.Contains(err.Error(), tt.says) || out != "" {
			t.Errorf("restore %s: %v, prints %q; want %q", tt.args, err, out, tt.says)
		}
	}
	if made, err := filepath.Glob("*.tenure"); err != nil || len(made) > 0 {
		t.Errorf("nothing can be restored, and made are %q, %v", made, err)
	}
	if _, err := command(t, "snapshot", "restore", "bare", "--skip-hash-check"); err != nil {
		t.Errorf("a file without a checksum is meant: %v", err)
	}
	bare := jsonOf[snapshotStatus](t, "snapshot", "status", "bare")
	if bare.Checksum || bare.TotalKey != 1 {
		t.Errorf("in a file without a checksum is %+v, want one key", bare)
	}
	if _, err := command(t, "snapshot", "status", "odd"); err == nil {
		t.Error("a file that is damaged is taken for a good one")
	}
}

// A meter shows how much has come in all, some times a second, on terminals.
func TestAMeterCountsAll(t *testing.T) {
	var b strings.Builder
	m := &meter{w: &b}
	for range 3 {
		n, err := m.Write(make([]byte, 1<<20))
		if m.shown = m.shown.AddDate(-1, 0, 0); n != 1<<20 || err != nil {
			t.Fatalf("a meter takes %d bytes, %v", n, err)
		}
	}
	if want := "\r\x1b[K1.0 MiB\r\x1b[K2.0 MiB\r\x1b[K3.0 MiB"; b.String() != want {
		t.Errorf("it shows %q, want %q", &b, want)
	}
	b.Reset()
	m = &meter{w: &b}
	for range 3 {
		_, _ = m.Write(nil)
	}
	if n := strings.Count(b.String(), "MiB"); n != 1 {
		t.Errorf("of three writes at once %d are shown, want one", n)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, w := range []io.Writer{&b, null} {
		if m := newMeter(w); m.w != nil {
			t.Errorf("a meter shows on %T, which is no terminal", w)
		}
	}
}
