package server

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
)

// The HTTP side of a member: mistakes of clients are no errors in its log, gRPC's calls are those of HTTP/2 alone, and an end that
// was asked for is no failure.
func TestTheHTTPSide(t *testing.T) {
	var log said
	all := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w := newWeb(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { io.WriteString(out, "by the handler") }), grpc.NewServer(), time.Second, 0, all)
	w.server.ErrorLog.Print("a client has erred")
	if !log.has("level=DEBUG", "a client has erred") {
		t.Error("what Go says of a client's mistake is not in the log as a detail")
	}
	for major, byHandler := range map[int]bool{1: true, 2: false} {
		r := httptest.NewRequest(http.MethodPost, "/etcdserverpb.KV/Range", nil)
		r.ProtoMajor = major
		r.Header.Set("Content-Type", "application/grpc")
		out := httptest.NewRecorder()
		w.server.Handler.ServeHTTP(out, r)
		if got := out.Body.String() == "by the handler"; got != byHandler {
			t.Errorf("HTTP/%d with gRPC's content: answered by the handler %v, want %v", major, got, byHandler)
		}
	}
	w.lane.Close()
	if err := w.serve(); err != nil {
		t.Errorf("a server whose lane has ended says %v", err)
	}
	w.end()
}

// A listener with a bound closes the connections beyond it, and has room again for each that was closed.
func TestABoundedListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{lane: newLane(), most: 2}
		var taken []net.Conn
		go func() {
			for {
				c, err := b.Accept()
				if err != nil {
					return
				}
				taken = append(taken, c)
			}
		}()
		var closed []*shut
		come := func() {
			closed = append(closed, &shut{})
			b.pass(&guest{Conn: closed[len(closed)-1]})
			synctest.Wait()
		}
		come()
		come()
		come()
		if len(taken) != 2 || !closed[2].closed {
			t.Fatalf("of three connections %d are taken, and the last is closed %v; want 2, and that it is", len(taken), closed[2].closed)
		}
		taken[0].Close()
		taken[0].Close() // which makes no room once more
		come()
		come()
		if len(taken) != 3 || closed[3].closed || !closed[4].closed {
			t.Errorf("when one was closed, twice, two more came: %d are taken in all, want 3", len(taken))
		}
		b.Close()
	})
}

// slowToClose is a connection whose reader returns long after it was closed.
type slowToClose struct {
	net.Conn
	ended chan struct{}
	once  sync.Once
}

func (s *slowToClose) Read([]byte) (int, error) {
	<-s.ended
	time.Sleep(time.Second)
	return 0, net.ErrClosed
}
func (s *slowToClose) Close() error                    { s.once.Do(func() { close(s.ended) }); return nil }
func (*slowToClose) SetDeadline(time.Time) error       { return nil }
func (*slowToClose) RemoteAddr() net.Addr              { return &net.TCPAddr{} }
func (s *slowToClose) SetReadDeadline(time.Time) error { return nil }

// A port that has ended greets nobody any more.
func TestAPortEndsWithItsGreetings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &port{strangers: &strangers{most: 9}, patience: time.Minute, grpc: newLane(), http: newLane()}
		greeted := &slowToClose{ended: make(chan struct{})}
		p.take(greeted)
		synctest.Wait()
		began := time.Now()
		p.end()
		if time.Since(began) != time.Second {
			t.Errorf("a port has ended %v after it was to end, and a greeting goes on for a second", time.Since(began))
		}
	})
}
