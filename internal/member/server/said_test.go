package server

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
)

// said is a log whose lines have all attributes.
type said struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

func (s *said) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

func (s *said) has(words ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.all.String()) {
		has := true
		for _, w := range words {
			has = has && strings.Contains(line, w)
		}
		if has {
			return true
		}
	}
	return false
}

// The lines of a member's log say at which listener, for which error, and with which figures.
func TestLinesHaveTheirAttributes(t *testing.T) {
	var log said
	broken := brokenListener{listen(t)}
	notADirectory := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notADirectory, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	startWith(t, 1, func(c *Config) {
		c.Node.Logger, c.API.BackupDir = log.logger(), notADirectory
		c.Clients = append(c.Clients, broken)
	})
	until(t, "the log tells which listener is broken, and how", func() bool {
		return log.has(`msg="serving clients ended"`, "level=ERROR", "at="+broken.Addr().String(), `err="out of order"`)
	})
	if !log.has(`msg="remove snapshots that an earlier life did not finish"`, "level=WARN", notADirectory) {
		t.Error("the log does not tell that snapshots of an earlier life could not be removed, and why")
	}
	m := newMemory(1000, log.logger())
	m.look(800)
	m.look(699)
	for _, words := range [][]string{
		{"level=WARN", "memory is short", "live=800", "limit=1000"},
		{"level=INFO", "memory is no longer short", "live=699", "limit=1000"},
	} {
		if !log.has(words...) {
			t.Errorf("the log lacks a line with %q", words)
		}
	}
}

// The figures of a member name the versions of its API.
func TestFiguresNameTheVersions(t *testing.T) {
	_, endpoints := start(t, 1)
	_, body := get(t, webClient(t, func(p *http.Protocols) { p.SetHTTP1(true) }), "http://"+endpoints[0]+"/metrics")
	if want := `etcd_server_version{server_version="` + etcdapi.Versions().Server + `"} 1`; !strings.Contains(body, want) {
		t.Errorf("the figures lack %s", want)
	}
}
