package diff

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// A socket is a websocket to a site, and all that it has heard.
type socket struct {
	of     *site
	conn   *websocket.Conn // nil: refused
	status int             // of the answer to the request for a websocket

	mu      sync.Mutex
	heard   []byte // messages, each on a line
	closed  bool   // by the server
	changed chan struct{}
}

// socket opens a websocket for a call, with headers and subprotocols.
func (s *site) socket(ctx context.Context, path string, header http.Header, protocols ...string) *socket {
	dialing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, told, err := websocket.Dial(dialing, "ws://"+s.endpoints[s.at]+path, &websocket.DialOptions{Subprotocols: protocols, HTTPHeader: header})
	of := &socket{of: s, changed: make(chan struct{})}
	if told != nil {
		of.status = told.StatusCode
	}
	if err == nil {
		of.conn = conn
		conn.SetReadLimit(-1)
		go of.receive(ctx)
	}
	return of
}

func (s *socket) receive(ctx context.Context) {
	for {
		_, b, err := s.conn.Read(ctx)
		s.mu.Lock()
		s.closed = err != nil
		if err == nil {
			s.heard = append(append(s.heard, b...), '\n')
		}
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// say sends a message. That a server has closed the connection is heard later.
func (s *socket) say(ctx context.Context, text string) {
	if s.conn != nil {
		s.conn.Write(ctx, websocket.MessageText, []byte(text))
	}
}

// hear waits until what was heard is enough, and reports whether it was before the server closed the connection, or was silent.
func (s *socket) hear(wait time.Duration, enough func(heard []byte) bool) bool {
	late := time.After(wait)
	for {
		s.mu.Lock()
		done, closed, changed := enough(s.heard), s.closed, s.changed
		s.mu.Unlock()
		if done || closed || s.conn == nil {
			return done
		}
		select {
		case <-changed:
		case <-late:
			return false
		}
	}
}

// sync asks a stream of watches for progress until it is told of a revision, and reports whether it was: all events up to it have come then.
func (s *socket) sync(ctx context.Context, revision int64) bool {
	for range int(settleTime / (100 * time.Millisecond)) {
		s.say(ctx, `{"progress_request":{}}`) // one that comes while a watch catches up is dropped
		if s.hear(100*time.Millisecond, func(heard []byte) bool { return progressOf(heard) >= revision }) {
			return true
		}
	}
	return false
}

// progressOf is the revision of the last notification that stands for all watches of a stream.
func progressOf(heard []byte) (revision int64) {
	for _, line := range bytes.Split(heard, []byte("\n")) {
		var m struct {
			Result struct {
				Header struct {
					Revision int64 `json:",string"`
				}
				WatchID string `json:"watch_id"`
				Created bool
			}
		}
		if json.Unmarshal(line, &m) == nil && m.Result.WatchID == "-1" && !m.Result.Created {
			revision = m.Result.Header.Revision
		}
	}
	return revision
}

// close ends the connection.
func (s *socket) close() {
	if s.conn != nil {
		s.conn.CloseNow()
	}
}

// told is the text by which two sockets are compared: how the connection is, and by watch what it was told, with all events in one list. How
// events are cut, and how watches interleave, may differ; so may prev_kv of watches that did not ask for it.
func (s *socket) told(prevKV bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	watches, other := map[string][]any{}, []any{}
	for _, v := range values(s.heard) {
		m, _ := v.(map[string]any)
		result, ok := m["result"].(map[string]any)
		if !ok {
			other = append(other, s.of.plain(v))
			continue
		}
		id, _ := result["watch_id"].(string)
		events, _ := result["events"].([]any)
		switch {
		case len(events) > 0:
			for _, e := range events {
				if e, ok := e.(map[string]any); ok && !prevKV {
					delete(e, "prev_kv")
				}
				watches["events "+id] = append(watches["events "+id], s.of.plain(e))
			}
		case result["created"] == nil && result["canceled"] == nil: // progress
		default:
			if result["compact_revision"] != nil {
				unrevised(result)
			}
			watches["told "+id] = append(watches["told "+id], s.of.plain(result))
		}
	}
	text, err := json.MarshalIndent(watches, "", " ")
	if err != nil {
		panic(err)
	}
	more, err := json.Marshal(other)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("status %d, closed %v, %s %s", s.status, s.closed, slices.Clone(more), text)
}
