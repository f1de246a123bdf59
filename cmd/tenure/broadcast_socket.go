package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/broadcast"
	"github.com/tenure-lease/tenure/internal/cli"
)

// A member's clients on its machine talk to it by HTTP over a socket in its directory: a user
// that may write there may broadcast. They are no members, and keep nothing.

// socketPath returns the path of the socket of the member with that directory.
func socketPath(dir string) string { return filepath.Join(dir, "client.sock") }

// socketPathMax is the room in a socket's address.
const socketPathMax = 100

// serveClients answers the clients of a member until it is told to stop.
func serveClients(n *broadcast.Node, dir string) (stop func(), err error) {
	path := socketPath(dir)
	if len(path) > socketPathMax {
		return nil, fmt.Errorf("--data-dir %s: the path is too long for a socket in it, of at most %d bytes: choose a shorter one, or a relative one", dir, socketPathMax)
	}
	// The log in the directory is locked: the process that listened there has ended.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /broadcast", func(w http.ResponseWriter, r *http.Request) {
		payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, broadcast.MaxMessageBytes+1))
		if err != nil {
			err = broadcast.ErrTooLarge
		}
		var position broadcast.Position
		if err == nil {
			position, err = n.Broadcast(r.Context(), payload)
		}
		answer(w, position, err)
	})
	mux.HandleFunc("GET /waiting", func(w http.ResponseWriter, r *http.Request) { answer(w, nil, n.Waiting()) })
	mux.HandleFunc("POST /regroup", func(w http.ResponseWriter, r *http.Request) {
		var c regrouping
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&c)
		if err == nil {
			err = regroup(r.Context(), n, c.Remove, c.ID, c.Address)
		}
		answer(w, n.Members(), err)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 16}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(ln) }()
	return func() { shut(server); <-done }, nil
}

// shut stops a server. A client that got its error by the member's end gets the answer; one that waits for
// others does not.
func shut(server interface {
	Shutdown(context.Context) error
	Close() error
}) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}

// regrouping is a client's request to change the members; all zeros mean nothing.
type regrouping struct {
	Remove, ID broadcast.MemberID
	Address    string
}

// answer answers a client: with JSON, or with an error's text.
func answer(w http.ResponseWriter, v any, err error) {
	switch {
	case errors.Is(err, broadcast.ErrTooLarge):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
	case errors.Is(err, broadcast.ErrBusy):
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case err != nil:
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		_ = json.NewEncoder(w).Encode(v)
	}
}

// memberClient talks to the member whose directory is dir.
type memberClient struct {
	dir  string
	http *http.Client
}

func newMemberClient(dir string) *memberClient {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialStarting(ctx, func() (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socketPath(dir))
		})
	}
	return &memberClient{dir, &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// starting is how long a client tries to reach a member that was perhaps started a moment ago.
const starting = 2 * time.Second

// dialStarting dials until it succeeds, for as long as a member may take to start.
func dialStarting(ctx context.Context, dial func() (net.Conn, error)) (net.Conn, error) {
	for end := time.Now().Add(starting); ; {
		conn, err := dial()
		if err == nil || time.Now().After(end) {
			return conn, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (c *memberClient) close() { c.http.CloseIdleConnections() }

// errTooLong is the answer to a message that is too large.
var errTooLong = errors.New("the message is too large")

// ask sends the member a request, and reads its answer.
func (c *memberClient) ask(ctx context.Context, method, path, body string, v any) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		r, err := http.NewRequestWithContext(ctx, method, "http://member"+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		response, err := c.http.Do(r)
		if err != nil {
			return c.unreached(ctx, err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		switch {
		case err != nil:
			return c.unreached(ctx, err)
		case response.StatusCode == http.StatusOK:
			return json.Unmarshal(text, v)
		case response.StatusCode == http.StatusRequestEntityTooLarge:
			return errTooLong
		case response.StatusCode != http.StatusTooManyRequests:
			return errors.New(strings.TrimSpace(string(text)))
		}
		select { // it is busy, and has sent nothing
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unreached returns the error for a member that does not answer.
func (c *memberClient) unreached(ctx context.Context, err error) error {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return cli.Exit(cli.ExitUnavailable, fmt.Errorf("no member runs in the directory %s: start it with tenure deliver --data-dir %s (%w)", c.dir, c.dir, op.Err))
	case ctx.Err() != nil:
		return fmt.Errorf("it may or may not be ordered: %w", context.Cause(ctx))
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return cli.Exit(cli.ExitUnavailable, fmt.Errorf("the member in %s ended, and the message may or may not be ordered: look with tenure deliver, or broadcast it again (%w)", c.dir, err))
}

// patience is the time after which a client reports each time that it waits, and for whom.
const patience = 3 * time.Second

// announceWait prints on a stream, until it is stopped, that a client waits, if that takes long.
func (c *memberClient) announceWait(ctx context.Context, out io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		last := ""
		for {
			select {
			case <-time.After(patience):
			case <-ctx.Done():
				return
			}
			var none any
			why := "the members have not answered for " + patience.String()
			if err := c.ask(ctx, "GET", "/waiting", "", &none); err != nil {
				why = strings.TrimPrefix(err.Error(), "broadcast: ")
			}
			if why != last && ctx.Err() == nil {
				fmt.Fprintln(out, "tenure: waiting:", why)
				last = why
			}
		}
	}()
	return func() { cancel(); <-done }
}
