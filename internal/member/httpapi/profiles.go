package httpapi

import (
	"fmt"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

// The paths are those of net/http/pprof, which cannot be used here: it also serves them, unasked,
// at the default mux of the program that embeds the member.
const profilesPath = "/debug/pprof/"

// Profiles take this long unless ?seconds= says something else, and this long at most.
const (
	profileSeconds = 30
	traceSeconds   = 1
	mostSeconds    = 300
)

func serveProfiles(w http.ResponseWriter, r *http.Request) {
	if !gets(w, r) {
		return
	}
	name := strings.TrimPrefix(r.URL.Path, profilesPath)
	switch name {
	case "":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, p := range pprof.Profiles() {
			fmt.Fprintf(w, "%d\t%s%s\n", p.Count(), profilesPath, p.Name())
		}
		return
	case "profile":
		record(w, r, profileSeconds, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
		return
	case "trace":
		record(w, r, traceSeconds, func() error { return trace.Start(w) }, trace.Stop)
		return
	}
	p := pprof.Lookup(name)
	if p == nil {
		http.Error(w, "there is no profile "+strconv.Quote(name), http.StatusNotFound)
		return
	}
	debug, _ := strconv.Atoi(r.URL.Query().Get("debug"))
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	p.WriteTo(w, debug)
}

// record runs a recording for some seconds, or until the client leaves.
func record(w http.ResponseWriter, r *http.Request, seconds int, start func() error, stop func()) {
	if s := r.URL.Query().Get("seconds"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > mostSeconds {
			http.Error(w, fmt.Sprintf("seconds: want 1 to %d", mostSeconds), http.StatusBadRequest)
			return
		}
		seconds = n
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(); err != nil {
		http.Error(w, err.Error(), http.StatusConflict) // another one runs
		return
	}
	defer stop()
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
	case <-r.Context().Done():
	}
}
