package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// configMaps is the path of the test's objects.
const configMaps = "/api/v1/namespaces/default/configmaps"

// watcher follows all objects from a version on, across connections that end, and notes what would be wrong.
type watcher struct {
	mu       sync.Mutex
	version  uint64            // of the last event
	values   map[string]string // by name, the last one seen
	events   int
	connects int
	wrong    []string
}

func (w *watcher) follow(ctx context.Context, a *apiserver) {
	for ctx.Err() == nil {
		w.mu.Lock()
		w.connects++
		from := w.version
		w.mu.Unlock()
		body, err := a.open(ctx, http.MethodGet, fmt.Sprintf("%s?watch=1&resourceVersion=%d&timeoutSeconds=20", configMaps, from), nil)
		if err == nil {
			w.read(body)
			body.Close()
		} else if code(err) == http.StatusGone {
			w.complain("watch from %d: %v", from, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// read takes a connection's events.
func (w *watcher) read(body io.Reader) {
	for d := json.NewDecoder(body); ; {
		var e event
		if err := d.Decode(&e); err != nil {
			return // the connection has ended
		}
		w.see(e)
	}
}

// see judges an event. The values of an object are 1, 2, 3, …
func (w *watcher) see(e event) {
	version, err := strconv.ParseUint(e.Object.Metadata.ResourceVersion, 10, 64)
	if e.Type == "ERROR" || err != nil {
		w.complain("event %+v", e)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name, value := e.Object.Metadata.Name, e.Object.Data["value"]
	if version <= w.version {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: version %d behind %d", name, version, w.version))
	}
	w.version = version
	if name[0] != 'x' { // not the test's
		return
	}
	w.events++
	before, _ := strconv.Atoi(w.values[name])
	if want := strconv.Itoa(before + 1); value != want || (before == 0) != (e.Type == "ADDED") {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: %s with value %s, want %s", name, e.Type, value, want))
	}
	w.values[name] = value
}

func (w *watcher) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}
