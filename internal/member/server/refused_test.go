package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// written are the lines of a log.
type written chan string

func (w written) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

func (w written) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// A client that does not get in is told in the member's log, with the reason.
func TestARefusedClientIsTold(t *testing.T) {
	log := make(written, 1000)
	_, endpoints := startWith(t, 1, func(c *Config) {
		c.ClientTLS, c.Node.Logger = certified(t), log.logger()
		c.ClientTLS.ClientAuth = tls.RequireAnyClientCert
	})
	c, err := tls.Dial("tcp", endpoints[0], &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if err == nil {
		t.Fatal("a client without a certificate gets in")
	}
	for patience := time.After(10 * time.Second); ; {
		select {
		case line := <-log:
			if !strings.Contains(line, "a connection of a client was refused") {
				continue
			}
			for _, want := range []string{"client didn't provide a certificate", c.LocalAddr().String(), endpoints[0]} {
				if !strings.Contains(line, want) {
					t.Errorf("the log's line lacks %q: %s", want, line)
				}
			}
			return
		case <-patience:
			t.Fatal("the log does not tell that a client was refused")
		}
	}
}

// However many are refused, a second has one line; connections that were only closed have none.
func TestRefusedClientsHaveALineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(written, 100)
		r := &refusals{logger: log.logger()}
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		for _, err := range []error{io.EOF, net.ErrClosed, io.ErrClosedPipe, fmt.Errorf("read: %w", syscall.ECONNRESET), syscall.EPIPE} {
			r.tell(here, err)
		}
		if len(log) > 0 {
			t.Errorf("a connection that was only closed is told: %s", <-log)
		}
		bad := errors.New("remote error: bad certificate")
		for range 3 {
			r.tell(here, bad)
		}
		if len(log) != 1 {
			t.Fatalf("%d lines of three refusals at one moment, want one", len(log))
		}
		<-log
		time.Sleep(time.Second)
		r.tell(here, bad)
		if len(log) != 1 {
			t.Fatalf("%d lines a second later, want one", len(log))
		}
		if got := <-log; !strings.Contains(got, `"similar lines left out"=2`) {
			t.Errorf("a second later the log does not tell of the two between: %s", got)
		}
	})
}
