package network_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/network"
)

const (
	least = 10 * time.Millisecond
	most  = 20 * time.Millisecond
)

// two plays a world with a connection from a to b.
func two(t *testing.T, body func(w *world.World, n *network.Network, a, b net.Conn)) {
	t.Helper()
	world.Play(t, world.Options{Seed: 1}, func(w *world.World) {
		n := network.New(w, least, most)
		pa, pb := w.Start("a"), w.Start("b")
		l, err := n.Listen(pb, 1)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		a, err := n.Dialer(pa)(context.Background(), "b:1")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2*least || took > 2*most {
			t.Errorf("dialing took %v", took)
		}
		b, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		body(w, n, a, b)
		for _, c := range []io.Closer{a, b, l} {
			c.Close()
		}
	})
}

func read(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestBytesArriveLaterAndInOrder(t *testing.T) {
	two(t, func(_ *world.World, _ *network.Network, a, b net.Conn) {
		began := time.Now()
		write(t, a, "hel")
		write(t, a, "lo")
		if got := read(t, b, 5); got != "hello" {
			t.Errorf("got %q", got)
		}
		if took := time.Since(began); took < least || took > most {
			t.Errorf("it was under way for %v", took)
		}
		a.Close()
		_, err := b.Read(make([]byte, 1))
		wants(t, "after a close", err, io.EOF)
	})
}

func TestAWriterWaitsForAReader(t *testing.T) {
	two(t, func(_ *world.World, _ *network.Network, a, b net.Conn) {
		much := bytes.Repeat([]byte("x"), 1<<20)
		a.SetWriteDeadline(time.Now().Add(time.Minute))
		n, err := a.Write(much)
		wants(t, "a write that nobody reads", err, os.ErrDeadlineExceeded)
		if n == 0 || n == len(much) {
			t.Errorf("%d of %d bytes were taken", n, len(much))
		}
		a.SetWriteDeadline(time.Time{})
		go io.Copy(a, bytes.NewReader(much[n:]))
		read(t, b, len(much))
	})
}

func TestACutInOneDirectionHoldsBytesBack(t *testing.T) {
	two(t, func(_ *world.World, n *network.Network, a, b net.Conn) {
		n.Cut("a", "b", 10*time.Second)
		began := time.Now()
		write(t, a, "x")
		write(t, b, "y")
		read(t, a, 1)
		if took := time.Since(began); took > most {
			t.Errorf("the other direction took %v", took)
		}
		read(t, b, 1)
		if took := time.Since(began); took < 10*time.Second || took > 10*time.Second+most {
			t.Errorf("it arrived after %v, want when the cut heals", took)
		}
	})
}

func TestResetAndRefusal(t *testing.T) {
	two(t, func(w *world.World, n *network.Network, a, b net.Conn) {
		n.Reset("b", "a")
		_, err := a.Read(make([]byte, 1))
		wants(t, "read", err, syscall.ECONNRESET)
		_, err = b.Write([]byte("x"))
		wants(t, "write", err, syscall.ECONNRESET)
		_, err = n.Dialer(w.Process("a"))(context.Background(), "b:2")
		wants(t, "dial where nobody listens", err, syscall.ECONNREFUSED)
		n.Isolate("b", time.Hour)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = n.Dialer(w.Process("a"))(ctx, "b:1")
		wants(t, "dial what is cut off", err, context.DeadlineExceeded)
	})
}

func TestExitIsHeardAndPowerOffIsNot(t *testing.T) {
	two(t, func(w *world.World, n *network.Network, a, b net.Conn) {
		write(t, b, "last words")
		w.Process("b").End()
		n.Exit(w.Process("b"))
		if got := read(t, a, 10); got != "last words" {
			t.Errorf("got %q", got)
		}
		_, err := a.Read(make([]byte, 1))
		wants(t, "after an exit", err, io.EOF)
	})
	two(t, func(w *world.World, n *network.Network, a, b net.Conn) {
		w.Process("b").End()
		n.PowerOff(w.Process("b"))
		a.SetDeadline(time.Now().Add(time.Minute))
		_, err := a.Read(make([]byte, 1))
		wants(t, "without power", err, os.ErrDeadlineExceeded)
		a.SetDeadline(time.Time{})
		write(t, a, "x") // into the void
		n.PowerOn("b")
		_, err = a.Read(make([]byte, 1))
		wants(t, "with power again", err, syscall.ECONNRESET)
	})
}

func TestHalfOpenIsNoticedByWhoeverSends(t *testing.T) {
	two(t, func(_ *world.World, n *network.Network, a, b net.Conn) {
		if n.HalfOpen("b") != 1 {
			t.Error("no connection was half open")
		}
		a.SetReadDeadline(time.Now().Add(time.Minute))
		_, err := a.Read(make([]byte, 1))
		wants(t, "a reader", err, os.ErrDeadlineExceeded)
		a.SetReadDeadline(time.Time{})
		write(t, a, "x")
		_, err = a.Read(make([]byte, 1))
		wants(t, "after a write", err, syscall.ECONNRESET)
	})
}

// The end of a process ends its reads, also those of a connection that is half open, of which it
// hears only when it sends.
func TestTheEndOfAProcessEndsItsReads(t *testing.T) {
	two(t, func(w *world.World, n *network.Network, a, b net.Conn) {
		n.HalfOpen("b")
		if n.HalfOpen("b") != 0 {
			t.Error("what is half open already is made so again")
		}
		pa := w.Process("a")
		time.AfterFunc(time.Second, func() {
			pa.End()
			n.Exit(pa)
		})
		began := time.Now()
		a.SetReadDeadline(began.Add(time.Minute))
		if _, err := a.Read(make([]byte, 1)); err == nil || time.Since(began) > 2*time.Second {
			t.Error("a process has ended, and goes on to read from a connection that is half open")
		}
	})
}

// A connection that no process has accepted is none that a process has left open.
func TestAConnectionThatNobodyAccepts(t *testing.T) {
	world.Play(t, world.Options{Seed: 1}, func(w *world.World) {
		n := network.New(w, least, most)
		pa, pb := w.Start("a"), w.Start("b")
		l, err := n.Listen(pb, 1)
		if err != nil {
			t.Fatal(err)
		}
		a, err := n.Dialer(pa)(context.Background(), "b:1")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if left := n.Has(pb); left != 0 {
			t.Errorf("a listener is closed with a connection that it has not accepted, and its process has left open %d", left)
		}
		_, err = a.Read(make([]byte, 1))
		wants(t, "a read by the dialer", err, syscall.ECONNRESET)
		a.Close()
	})
}

func TestAProcessThatStandsStillReadsNothing(t *testing.T) {
	two(t, func(w *world.World, _ *network.Network, a, b net.Conn) {
		began := time.Now()
		w.Process("b").Stop(time.Minute)
		write(t, a, "x")
		read(t, b, 1)
		if took := time.Since(began); took < time.Minute {
			t.Errorf("it read after %v", took)
		}
	})
}

func TestWaysAreLongerAndBytesAreSentAgain(t *testing.T) {
	two(t, func(_ *world.World, n *network.Network, a, b net.Conn) {
		n.Far(func(from, _ string) time.Duration {
			if from == "a" {
				return time.Second
			}
			return 0
		})
		began := time.Now()
		write(t, a, "x")
		write(t, b, "y")
		read(t, a, 1)
		if took := time.Since(began); took > most {
			t.Errorf("the way to a took %v", took)
		}
		read(t, b, 1)
		if took := time.Since(began); took < time.Second+least || took > time.Second+most {
			t.Errorf("the way to b took %v", took)
		}
		n.Far(nil)
		n.Lose(2)
		late := 0
		for range 100 {
			began := time.Now()
			write(t, a, "x")
			read(t, b, 1)
			if time.Since(began) > 100*time.Millisecond {
				late++
			}
		}
		if late < 20 || late > 80 {
			t.Errorf("%d of 100 were lost, and one in 2 should be", late)
		}
	})
}
