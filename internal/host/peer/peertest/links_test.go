package peertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Bytes sent in pieces are under way at once. A piece does not wait for the one before, and
// all arrive in order.
func TestCarry(t *testing.T) {
	const pieces = 200
	sender, in := net.Pipe() // which keeps nothing itself
	out, receiver := net.Pipe()
	gate, arrivals, last := make(chan bool), 0, time.Time{}
	done := make(chan bool)
	go func() {
		carry(out, in, func(arrived time.Time) error {
			<-gate
			if arrived.Before(last) {
				t.Errorf("piece %d arrived before the one that was sent before it", arrivals)
			}
			arrivals, last = arrivals+1, arrived
			return nil
		})
		close(done)
	}()
	sender.SetWriteDeadline(time.Now().Add(time.Minute))
	for i := range pieces {
		if _, err := sender.Write([]byte{byte(i)}); err != nil {
			t.Fatalf("piece %d waits for those before it: %v", i, err)
		}
	}
	sender.Close()
	close(gate)
	data, err := io.ReadAll(receiver)
	if err != nil || len(data) != pieces {
		t.Fatalf("%d bytes arrived, %v", len(data), err)
	}
	for i, b := range data {
		if int(b) != i {
			t.Fatalf("in place of %d came %d", i, b)
		}
	}
	<-done
	if arrivals != pieces+1 {
		t.Errorf("%d pieces passed: want %d and the end", arrivals, pieces)
	}
}

// Bytes that cannot be delivered end the connection, and unsent ones are gone.
func TestCarryToNobody(t *testing.T) {
	for name, pass := range map[string]error{"closed": nil, "ended": errEnded} {
		sender, in := net.Pipe()
		out, receiver := net.Pipe()
		if pass == nil {
			receiver.Close()
		}
		go func() {
			for range 3 * underWay {
				sender.Write([]byte{1})
			}
			sender.Close()
		}()
		carry(out, in, func(time.Time) error { return pass })
		receiver.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := receiver.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: the receiver is not told: %v", name, err)
		}
	}
}

const oneWay = 60 * time.Millisecond

// A member that says who it is reaches the other after the time that the way takes, in
// each direction its own.
func TestProxy(t *testing.T) {
	real, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	go func() {
		for {
			c, err := real.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	links := New()
	defer links.Stop()
	at, err := links.Proxy(1, "127.0.0.1:0", real.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	links.Know([]uint64{70, 80, 90})
	links.Delay(0, 1, oneWay)
	links.Delay(1, 0, 2*oneWay)
	hello := func(id uint64) []byte { return binary.LittleEndian.AppendUint64(make([]byte, greeted-8), id) }
	for _, tt := range []struct {
		name  string
		from  uint64
		least time.Duration
	}{{"slow", 70, 3 * oneWay}, {"at once", 90, 0}, {"unknown", 4711, 0}} {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		for _, message := range [][]byte{hello(tt.from), []byte("again")} {
			sent, got := time.Now(), make([]byte, len(message))
			c.Write(message)
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, message) {
				t.Fatalf("%s: %q came back, %v", tt.name, got, err)
			}
			if took := time.Since(sent); took < tt.least {
				t.Errorf("%s: there and back took %v, want %v at least", tt.name, took, tt.least)
			}
		}
	}
}

// A program that takes a SOCKS5 proxy from its environment, as etcd does, reaches the
// others by addresses that are nowhere, in the time that it takes from where it is.
func TestSocks(t *testing.T) {
	var members []Target
	for _, name := range []string{"192.0.2.1", "192.0.2.2", "third.example", "down.example"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "I am "+name) }))
		defer s.Close()
		members = append(members, Target{net.JoinHostPort(name, "2380"), s.Listener.Addr().String()})
		if strings.HasPrefix(name, "down") {
			s.Close()
		}
	}
	links := New()
	defer links.Stop()
	links.Delay(0, 1, oneWay)
	links.Delay(1, 0, oneWay)
	ask := func(from int, host string) (string, time.Duration, error) {
		at, err := links.Socks(from, members)
		if err != nil {
			t.Fatal(err)
		}
		client := http.Client{Timeout: time.Minute, Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5", Host: at})}}
		defer client.CloseIdleConnections()
		sent := time.Now()
		answer, err := client.Get("http://" + net.JoinHostPort(host, "2380"))
		if err != nil {
			return "", 0, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return string(text), time.Since(sent), err
	}
	for _, tt := range []struct {
		from  int
		host  string
		least time.Duration // connected after one round trip, answered after another
	}{{0, "192.0.2.2", 4 * oneWay}, {1, "192.0.2.1", 4 * oneWay}, {2, "192.0.2.2", 0}, {0, "third.example", 0}} {
		text, took, err := ask(tt.from, tt.host)
		if err != nil || text != "I am "+tt.host {
			t.Errorf("member %d asks %s: %q, %v", tt.from, tt.host, text, err)
		}
		if took < tt.least {
			t.Errorf("member %d has its answer from %s after %v, want %v at least", tt.from, tt.host, took, tt.least)
		}
	}
	for _, host := range []string{"down.example", "192.0.2.9"} {
		if text, _, err := ask(0, host); err == nil {
			t.Errorf("%s answers %q", host, text)
		}
	}
}

// Held bytes do not arrive, in that direction, until they are let go. Stop ends all of it.
func TestHold(t *testing.T) {
	real, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	links := New()
	at, err := links.Socks(0, []Target{{}, {"b.example:1", real.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	here, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	here.SetDeadline(time.Now().Add(time.Minute))
	here.Write([]byte("\x05\x01\x00" + "\x05\x01\x00\x03\x09b.example\x00\x01"))
	if _, err := io.ReadFull(here, make([]byte, 2+10)); err != nil {
		t.Fatal(err)
	}
	there, err := real.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	links.Hold(0, 1)
	here.Write([]byte("x"))
	there.SetReadDeadline(time.Now().Add(3 * oneWay))
	if n, _ := there.Read(make([]byte, 1)); n > 0 {
		t.Error("what is held arrived")
	}
	there.SetDeadline(time.Now().Add(time.Minute))
	there.Write([]byte("y"))
	got := make([]byte, 1)
	if _, err := io.ReadFull(here, got); err != nil || got[0] != 'y' {
		t.Errorf("the other direction is held, too: %q, %v", got, err)
	}
	links.Release(0, 1)
	if _, err := io.ReadFull(there, got); err != nil || got[0] != 'x' {
		t.Errorf("after it was let go: %q, %v", got, err)
	}
	links.Hold(0, 1)
	here.Write([]byte("z"))
	links.Stop()
	if n, err := here.Read(got); err == nil {
		t.Errorf("%d bytes came over links that have ended", n)
	}
	if _, err := links.Socks(0, nil); err == nil {
		t.Error("links that have ended listen")
	}
}
