package redis

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

var me = machine.ID{9}

func put(name string, seq uint64, data string) register.Op {
	return register.Op{Name: name, Writer: me, Op: quorumregister.Put{Version: machine.Version{Seq: seq, Writer: me}, Data: []byte(data)}}
}

func query(name string) register.Op { return register.Op{Name: name, Op: quorumregister.Query{}} }

// settled repeats a query for as long as its error comes from a connection that broke.
func settled(tb testing.TB, s *redis.Store, name string) register.Reply {
	tb.Helper()
	var r register.Reply
	for range 500 {
		r = s.Do([]register.Op{query(name)})[0]
		if r.Err == nil || errors.Is(r.Err, register.ErrGone) || errors.Is(r.Err, redis.ErrReplica) {
			break
		}
		time.Sleep(10 * time.Millisecond) // a real server comes back when it does
	}
	return r
}

// TestRestart kills a server with -9 and starts it over what it has on disk.
func TestRestart(t *testing.T) {
	for _, c := range []struct {
		what string
		how  []string
		keep bool
	}{
		{"in memory", inMemory, false},
		{"everysec", everysec, false},
		{"always", always, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			s, store := base(t, 0, 1, c.how...)
			if err := store.Do([]register.Op{put("x", 7, "seven")})[0].Err; err != nil {
				t.Fatal(err)
			}
			if w := store.Warning(); (w == "") != c.keep {
				t.Errorf("the warning is %q", w)
			}
			for range 2 { // the data outlive a second restart
				s.kill()
				s.start(c.how...)
				r := settled(t, store, "x")
				switch {
				case !c.keep && !errors.Is(r.Err, register.ErrGone):
					t.Errorf("got %+v, want %v", r, register.ErrGone)
				case c.keep && (r.Err != nil || r.Value.(quorumregister.State).Version.Seq != 7):
					t.Errorf("got %+v, want version 7", r)
				}
			}
		})
	}
}

// TestStaleCopy has a server come back with an old dump.
func TestStaleCopy(t *testing.T) {
	s, store := base(t, 0, 3, inMemory...)
	store.Do([]register.Op{put("x", 1, "old")})
	s.must("SAVE")
	store.Do([]register.Op{put("x", 2, "new")})
	s.kill()
	s.start(inMemory...)
	for range 2 {
		if r := settled(t, store, "x"); !errors.Is(r.Err, redis.ErrStale) {
			t.Errorf("got %+v, want %v", r, redis.ErrStale)
		}
	}
	if _, err := redis.Open(t.Context(), redis.Options{Addr: s.addr}); !errors.Is(err, redis.ErrStale) {
		t.Errorf("open: %v, want %v", err, redis.ErrStale)
	}
}

// TestStopped lets a put time out at a stopped server and land late.
func TestStopped(t *testing.T) {
	s, store := base(t, 0, 1, always...)
	other := open(t, s)
	store.Do([]register.Op{put("x", 1, "first")})
	s.signal(syscall.SIGSTOP)
	start := time.Now()
	if err := store.Do([]register.Op{put("x", 2, "stuck")})[0].Err; err == nil {
		t.Error("a stopped server acknowledged a put")
	}
	if took := time.Since(start); took > header(0, 1).Term {
		t.Errorf("the error took %v, more than a lease lasts", took)
	}
	s.signal(syscall.SIGCONT)
	if err := other.Do([]register.Op{put("x", 3, "third")})[0].Err; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r := settled(t, store, "x")
		if r.Err != nil || string(r.Value.(quorumregister.State).Data) != "third" {
			t.Errorf("got %+v, want the third", r)
		}
	}
}

// TestReplicas: neither a replica, nor a master that was made one under an open
// connection, nor a replica that took over may answer.
func TestReplicas(t *testing.T) {
	a, _ := base(t, 0, 1, always...)
	b := start(t, always...)
	host, port := "127.0.0.1", b.addr[len("127.0.0.1:"):]
	b.must("REPLICAOF", host, a.addr[len("127.0.0.1:"):])
	for b.run("HGET", "{tenure}:store", "header") != nil { // it has no copy yet
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := redis.Open(t.Context(), redis.Options{Addr: b.addr}); !errors.Is(err, redis.ErrReplica) {
		t.Errorf("a replica: %v, want %v", err, redis.ErrReplica)
	}
	if w := open(t, a).Warning(); w == "" {
		t.Error("no warning of a master with a replica")
	}

	b.must("REPLICAOF", "NO", "ONE")
	if _, err := redis.Open(t.Context(), redis.Options{Addr: b.addr}); !errors.Is(err, redis.ErrStale) {
		t.Errorf("a replica that took over: %v, want %v", err, redis.ErrStale)
	}

	store := open(t, a)
	a.must("REPLICAOF", host, port)
	for _, op := range []register.Op{query("x"), put("x", 1, "a"), put("x", 1, "a")} {
		if err := store.Do([]register.Op{op})[0].Err; !errors.Is(err, redis.ErrReplica) && !errors.Is(err, register.ErrGone) {
			t.Errorf("a master that was made a replica: %v, want %v", err, redis.ErrReplica)
		}
	}
}

// TestFullMemory wants leases that exist to go on, and new ones refused.
func TestFullMemory(t *testing.T) {
	s, store := base(t, 0, 1, always...)
	if err := store.Do([]register.Op{put("x", 1, "first")})[0].Err; err != nil {
		t.Fatal(err)
	}
	s.must("CONFIG", "SET", "maxmemory", "1")
	if err := store.Do([]register.Op{put("y", 1, "new")})[0].Err; err == nil {
		t.Error("a full server took a new name")
	}
	if err := store.Do([]register.Op{put("x", 2, "second")})[0].Err; err != nil {
		t.Errorf("a full server refuses a name that it has: %v", err)
	}
	if r := settled(t, store, "x"); r.Err != nil || r.Value.(quorumregister.State).Version.Seq != 2 {
		t.Errorf("a full server shows %+v, want version 2", r)
	}
	s.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if _, err := redis.Open(t.Context(), redis.Options{Addr: s.addr}); !errors.Is(err, redis.ErrEvicts) {
		t.Errorf("a server that evicts: %v, want %v", err, redis.ErrEvicts)
	}
}

// TestLosingAMinority kills one of three that keep nothing, again and again, while
// somebody writes; restores it; and wants nothing lost that was acknowledged.
func TestLosingAMinority(t *testing.T) {
	const n = 3
	servers, opened := bases(t, n, inMemory...)
	set := opened()
	x := set.Register("x")
	last, err := x.Write(t.Context(), []byte("begin"))
	if err != nil {
		t.Fatal(err)
	}
	for round := range n {
		victim := servers[round]
		victim.kill()
		for i := range 20 {
			data := fmt.Sprintf("%d.%d", round, i)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			v, err := x.Write(ctx, []byte(data))
			cancel()
			if err != nil || v.Compare(last) <= 0 {
				t.Fatalf("write %s: version %v after %v, %v", data, v, last, err)
			}
			last = v
			if i == 10 {
				victim.start(inMemory...) // empty
				if _, err := redis.Open(t.Context(), redis.Options{Addr: victim.addr}); !errors.Is(err, register.ErrForeign) {
					t.Fatalf("an empty server: %v, want %v", err, register.ErrForeign)
				}
			}
		}
		var others []*redis.Store
		for i, s := range servers {
			if i != round {
				others = append(others, open(t, s))
			}
		}
		if err := redis.Restore(t.Context(), redis.Options{Addr: victim.addr}, header(round, n), others...); err != nil {
			t.Fatal(err)
		}
		// Opened anew, and without one of those that were there all the time.
		away := servers[(round+1)%n]
		away.signal(syscall.SIGSTOP)
		var stores []register.Store
		for _, s := range servers {
			if s != away {
				stores = append(stores, open(t, s))
			}
		}
		fresh, err := register.NewSet(stores)
		if err != nil {
			t.Fatal(err)
		}
		v, err := fresh.Register("x").Read(t.Context())
		if err != nil || v.Version != last {
			t.Errorf("round %d: read %q under %v, %v; want version %v", round, v.Data, v.Version, err, last)
		}
		away.signal(syscall.SIGCONT)
		_ = fresh.Close()
		set.Close()
		set = opened()
		x = set.Register("x")
	}
}

// TestAStoppedMinority wants nobody to wait for a server that is stopped.
func TestAStoppedMinority(t *testing.T) {
	servers, opened := bases(t, 3, inMemory...)
	x := opened().Register("x")
	if _, err := x.Write(t.Context(), []byte("begin")); err != nil {
		t.Fatal(err)
	}
	for i, s := range servers {
		s.signal(syscall.SIGSTOP)
		for j := range 20 {
			start := time.Now()
			want := fmt.Sprintf("%d.%d", i, j)
			_, err := x.Write(t.Context(), []byte(want))
			v, readErr := x.Read(t.Context())
			if err != nil || readErr != nil || string(v.Data) != want {
				t.Fatalf("wrote %s: %v; read %s: %v", want, err, v.Data, readErr)
			}
			if took := time.Since(start); took > header(0, 3).Term/2 {
				t.Errorf("a write and a read took %v", took)
			}
		}
		s.signal(syscall.SIGCONT)
		for range 500 { // its turn to be missing is over when it answers
			if s.run("PING") == nil {
				break
			}
		}
		settled(t, open(t, s), "x")
	}
}

// TestWhereRedlockFails: a holder is known to A and B; B restarts empty; A is cut
// off. By Redlock the second gets the lock too. The set refuses.
func TestWhereRedlockFails(t *testing.T) {
	servers, opened := bases(t, 3, inMemory...)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.addr)
	}
	first, second := newRedlock(addrs[:2]), newRedlock(addrs[1:])
	first.clients = append(first.clients, second.clients[1]) // C, which is stopped
	defer first.close()
	a, b, c := servers[0], servers[1], servers[2]
	x := opened().Register("x")

	c.signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if first.acquire(ctx, "lock") == "" {
		t.Fatal("Redlock: the first did not get the lock")
	}
	if _, err := x.Write(t.Context(), []byte("the first")); err != nil {
		t.Fatal(err)
	}
	b.kill()
	b.start(inMemory...)
	c.signal(syscall.SIGCONT)
	a.signal(syscall.SIGSTOP)
	defer a.signal(syscall.SIGCONT)

	if second.acquire(t.Context(), "lock") == "" {
		t.Error("Redlock: the second did not get the lock; this test shows nothing any more")
	}
	if _, err := redis.Open(t.Context(), redis.Options{Addr: b.addr}); !errors.Is(err, register.ErrForeign) {
		t.Errorf("B: %v, want %v", err, register.ErrForeign)
	}
	stopped, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if v, err := x.Read(stopped); err == nil {
		t.Errorf("the set, with A cut off and B empty, shows %q", v.Data)
	}
	a.signal(syscall.SIGCONT)
	if v, err := opened().Register("x").Read(t.Context()); err != nil || string(v.Data) != "the first" {
		t.Errorf("with A back: %q, %v; want the first", v.Data, err)
	}
}

// TestRights has a user with the rights that the package's documentation asks for.
func TestRights(t *testing.T) {
	socket := t.TempDir() + "/socket"
	s := start(t, append([]string{"--unixsocket", socket}, always...)...)
	s.must("ACL", "SETUSER", "leases", "on", ">secret", "~{tenure}:*", "-@all", "+@hash", "+@sortedset", "+@scripting",
		"+del", "+exists", "+type", "+persist", "+info", "+config|get", "+ping")
	o := redis.Options{
		Addr: socket, Username: "leases", Password: "secret",
		Obsolete: func(machine.Value, machine.ID) bool { return true },
	}
	h := header(0, 1)
	h.Term = 100 * time.Millisecond
	if err := redis.Init(t.Context(), o, h); err != nil {
		t.Fatal(err)
	}
	use := func() {
		t.Helper()
		store, err := redis.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		ops := []register.Op{
			put("x", 1, "a"), query("x"), {Name: "x", Writer: me, Op: quorumregister.PutNote{Writer: me, Seq: 1}},
			{Name: "x", Writer: me, Op: register.Leave{}},
		}
		for i, r := range store.Do(ops) {
			if r.Err != nil {
				t.Errorf("operation %d: %v", i, r.Err)
			}
		}
		if _, err := store.Names(); err != nil || store.Warning() != "" {
			t.Errorf("names: %v; warning: %q", err, store.Warning())
		}
	}
	use()
	s.must("FLUSHALL")
	if err := redis.Restore(t.Context(), o, h); err != nil {
		t.Fatal(err)
	}
	use()
}
