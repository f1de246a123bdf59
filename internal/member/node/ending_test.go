package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/watch"
)

// Stop waits for all operations in progress, and the log stays open until they end. A stopped member
// has no lease, even if one was published during Stop. Its watchers are released.
func TestWhatStopWaitsFor(t *testing.T) {
	for _, takes := range []map[string]time.Duration{
		{"what is under way": time.Minute, "a snapshot": time.Hour},
		{"what is under way": time.Hour, "a snapshot": time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, _, links := linked(t)
			n.storage, _ = storageOn(t, waltest.NewDisk().FS())
			n.hub = watch.NewHub(n.View(), watch.Config{})
			n.reads.clock = func() machine.Mono { return 50 }
			n.clocks.turn = 40
			stream := n.Watches().NewStream(0)
			watching := make(chan error, 1)
			go func() { _, err := stream.Next(t.Context()); watching <- err }()
			var mu sync.Mutex
			ended := map[string]error{}
			for what, of := range map[string]*sync.WaitGroup{"what is under way": &n.done, "a snapshot": &n.snapshots.done} {
				of.Go(func() {
					<-n.stop
					time.Sleep(takes[what])
					mu.Lock()
					defer mu.Unlock()
					ended[what] = n.storage.log.Sync()
				})
			}
			hold := make(chan struct{})
			n.driver.Gather(func() (replica.Input, bool) {
				<-hold
				n.handle([]replica.Outcome{replica.ReadLease{Until: 1 << 60}, &replica.KeyLease{Until: 1 << 60}})
				return nil, false
			})
			synctest.Wait()
			stopped := false
			go func() { n.Stop(); stopped = true }()
			synctest.Wait()
			if stopped {
				t.Error("it is stopped while its replica is stepped")
			}
			close(hold)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if !stopped {
				t.Error("two hours later it is not stopped")
			}
			for what := range takes {
				if err, over := ended[what]; !over || err != nil {
					t.Errorf("when it is stopped %s has ended: %v, and the log was open until then: %v", what, over, err)
				}
			}
			if _, leased := n.reads.leased(); leased || n.keyLease() != nil {
				t.Errorf("a lease that was published while it stopped lets others read: %v, in key order: %v", leased, n.keyLease() != nil)
			}
			if links.closed != 1 {
				t.Errorf("its connections are closed %d times, want once", links.closed)
			}
			select {
			case err := <-watching:
				if err == nil {
					t.Error("a watcher is told something when the member stops, and no error")
				}
			default:
				t.Error("a watcher still waits")
				n.hub.Close()
			}
			if n.storage.log.Sync() == nil {
				t.Error("the log is open when the member is stopped")
			}
		})
	}
}

// A member that ends cancels its questions to other members, and waits until they have ended.
func TestAQuestionEndsWithItsMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, _ := linked(t)
		asks, over := 0, 0
		n.cfg.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
			asks++
			<-ctx.Done()
			if ctx.Err() == context.Canceled {
				time.Sleep(time.Second) // it takes a while to end
				over++
			}
			return nil, ctx.Err()
		}
		n.leadership.Store(&leadership{at: time.Now().Add(-time.Hour)})
		n.lookAround(time.Now())
		synctest.Wait()
		n.end()
		if asks == 0 || over != asks {
			t.Errorf("of %d questions that were under way %d were given up when the member had ended", asks, over)
		}
		time.Sleep(time.Minute) // until they are
	})
}

// A member that ends cancels the snapshots that it is sending, and waits for them.
func TestASnapshotIsNotSentWhenTheMemberHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, links := linked(t)
		n.storage, _ = storageOn(t, waltest.NewDisk().FS())
		defer n.storage.log.Close()
		n.storage.save(t, 9, 3, nil)
		over := false
		links.streams = func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			over = true
			return ctx.Err()
		}
		n.snapshots.send(n, replica.SendSnapshot{To: 2, Message: messageOf(9, 3)})
		synctest.Wait()
		n.halt()
		if n.snapshots.wait(); !over {
			t.Error("the member does not wait for a snapshot that is being sent")
		}
		time.Sleep(time.Minute)
		n.end()
	})
}

// The process is informed of a failure on a goroutine of its own. It may stop the member, and Stop
// waits for the goroutine that failed.
func TestWhoFailsDoesNotWaitForItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, _ := linked(t)
		release := make(chan struct{})
		n.cfg.Fail = func(error) { <-release }
		failed := false
		go func() { n.fail(errDisk); failed = true }()
		if synctest.Wait(); !failed {
			t.Error("the goroutine that failed waits for the process to hear of that")
		}
		close(release)
		n.driver.Stop()
	})
}

// An applier that fails ends its member. If the applier fails because the member was stopped, that is
// not reported.
func TestAnApplierThatCannotGoOn(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, _, _ := linked(t)
			n.storage, _ = storageOn(t, waltest.NewDisk().FS())
			defer n.storage.log.Close()
			var failed error
			n.cfg.Fail = func(err error) { failed = err }
			n.applier = newApplier(n, replica.NewApplier(n.id, 1), 0)
			n.applier.put(replica.Restore{Index: 77, Term: 1}) // there is no such snapshot
			n.applier.put(replica.Released{Through: 99})
			if stopped {
				n.halt()
			}
			over := false
			n.done.Add(1)
			go func() { n.applier.run(); over = true }()
			synctest.Wait()
			if !over || (failed == nil) != stopped {
				t.Errorf("stopped: %v: a snapshot cannot be loaded; the applier ends: %v, and the member with %v, want that it ends unless it was stopped", stopped, over, failed)
			}
			if n.applier.visible.Through() == 99 {
				t.Errorf("stopped: %v: the applier goes on behind what it could not do", stopped)
			}
			n.end()
		})
	}
}

// If raft reports a bug of its own, the process ends. Its error messages are logged.
func TestWhatRaftSaysIsTold(t *testing.T) {
	var log lines
	r := raftLogger{log.logger()}
	for _, tt := range []struct {
		name  string
		say   func()
		level string // in the log
		ends  bool
	}{
		{"Debug", func() { r.Debug("word") }, "", false},
		{"Debugf", func() { r.Debugf("%s", "word") }, "", false},
		{"Info", func() { r.Info("word") }, "DEBUG", false},
		{"Infof", func() { r.Infof("%s", "word") }, "DEBUG", false},
		{"Warning", func() { r.Warning("word") }, "DEBUG", false},
		{"Warningf", func() { r.Warningf("%s", "word") }, "DEBUG", false},
		{"Error", func() { r.Error("word") }, "ERROR", false},
		{"Errorf", func() { r.Errorf("%s", "word") }, "ERROR", false},
		{"Fatal", func() { r.Fatal("word") }, "", true},
		{"Fatalf", func() { r.Fatalf("%s", "word") }, "", true},
		{"Panic", func() { r.Panic("word") }, "", true},
		{"Panicf", func() { r.Panicf("%s", "word") }, "", true},
	} {
		log.list = nil
		ends := func() (what any) {
			defer func() { what = recover() }()
			tt.say()
			return nil
		}()
		if (ends != nil) != tt.ends || tt.ends && ends != "word" {
			t.Errorf("%s: raft goes on: %v, want that it ends with its words: %v", tt.name, ends == nil, tt.ends)
		}
		var want []string
		if tt.level != "" {
			want = []string{tt.level + " word"}
		}
		if got := log.list; len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
			t.Errorf("%s: the log says %q, want %q", tt.name, got, want)
		}
	}
}

// A newcomer asks the other members that it was given, and not itself, for at most the time of a
// request.
func TestWhomANewcomerAsks(t *testing.T) {
	for _, tt := range []struct {
		name     string
		founders int
		asks     []string
		last     error
	}{{"of three", 3, []string{"127.0.0.1:2", "127.0.0.1:3"}, errDisk}, {"that was told of nobody else", 1, nil, nil}} {
		synctest.Test(t, func(t *testing.T) {
			n, _, _ := linked(t)
			defer n.end()
			n.founders, n.cfg.RequestTimeout = n.founders[:tt.founders], 3*time.Second
			asked, late := map[string]int{}, false
			began, patience := time.Now(), time.Duration(0)
			n.cfg.Dial = func(_ context.Context, addr string) (net.Conn, error) {
				patience = time.Since(began)
				if asked[addr]++; late {
					runtime.Goexit() // or this test would not end
				}
				return nil, errDisk
			}
			var err error
			over := false
			go func() { _, err = n.join(); over = true }()
			time.Sleep(n.cfg.RequestTimeout + time.Second)
			if synctest.Wait(); !over || err == nil || errors.Is(err, errDisk) != (tt.last != nil) {
				t.Errorf("one %s has given up a second after a request's time: %v, with %v; want %v", tt.name, over, err, tt.last)
			}
			if tt.asks == nil && !strings.Contains(fmt.Sprint(err), "name them in --initial-cluster") {
				t.Errorf("one %s is told %v, want that others have to be named", tt.name, err)
			}
			if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, tt.asks) {
				t.Errorf("one %s asks %v, want %v", tt.name, got, tt.asks)
			}
			if tt.asks != nil && patience < n.cfg.RequestTimeout-n.cfg.HeartbeatInterval {
				t.Errorf("one %s asks for %v, want the %v of a request", tt.name, patience, n.cfg.RequestTimeout)
			}
			for addr, times := range asked {
				if times < 2 {
					t.Errorf("one %s asks %s once, want it to ask again and again", tt.name, addr)
				}
			}
			late = true
			time.Sleep(time.Minute)
		})
	}
}

// lines is a log of lines with a level and a message each; sees is called with each of them.
type lines struct {
	list []string
	sees func(line string)
}

func (l *lines) logger() *slog.Logger { return slog.New(l) }

func (*lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	l.list = append(l.list, line)
	if l.sees != nil {
		l.sees(line)
	}
	return nil
}

func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *lines) WithGroup(string) slog.Handler      { return l }
