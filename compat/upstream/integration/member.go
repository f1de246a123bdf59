package integration

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/compat/server"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Member is one process.
type Member struct {
	Name    string
	GRPCURL string // where its client connects
	Client  *clientv3.Client

	process *server.Member
	bridge  *Bridge
}

// Stop ends the process at once.
func (m *Member) Stop(testing.TB) { m.process.Kill() }

// Restart starts it again over its data.
func (m *Member) Restart(t testing.TB) error { return m.process.Start(context.Background()) }

// Terminate ends it for good.
func (m *Member) Terminate(testing.TB) { m.process.Kill() }

// WaitOK waits until the member is ready.
func (m *Member) WaitOK(t testing.TB) {
	t.Helper()
	if err := m.process.WaitReady(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Bridge stands between the client and the member, with UseBridge.
func (m *Member) Bridge() *Bridge { return m.bridge }

// Metric reads a value from the member's /metrics: the first of that name whose
// labels contain all the given ones, "" when there is none.
func (m *Member) Metric(name string, labels ...string) (string, error) {
	res, err := http.Get("http://" + m.process.Endpoint + "/metrics")
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET /metrics: %s", res.Status)
	}
	scan := bufio.NewScanner(res.Body)
lines:
	for scan.Scan() {
		line := scan.Text()
		if !strings.HasPrefix(line, name) {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(line, label) {
				continue lines
			}
		}
		return line[strings.LastIndexByte(line, ' ')+1:], nil
	}
	return "", scan.Err()
}
