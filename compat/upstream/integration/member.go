package integration

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"go.etcd.io/etcd/client/pkg/v3/types"
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

// Restart starts it again over its data, and waits until its client is connected
// again: tests call below the methods that would try again.
func (m *Member) Restart(testing.TB) error {
	if err := m.process.Start(context.Background()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	m.Client.Get(ctx, "/", clientv3.WithSerializable()) // a client may be closed by now
	return nil
}

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

// Pause stops the process where it is, Resume lets it go on.
func (m *Member) Pause()  { m.process.Pause() }
func (m *Member) Resume() { m.process.Resume() }

// ElectionTicks is after how many ticks without a leader members elect one.
const ElectionTicks = 10

// SkipIfNoGoFail skips a test that plants faults in etcd's own code.
func SkipIfNoGoFail(t testing.TB) { t.Skip("plants faults in the code of etcd") }

// ID is the member's id.
func (m *Member) ID() types.ID {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	status, err := m.process.Status(ctx)
	if err != nil {
		panic(err) // the interface has no way to say it
	}
	return types.ID(status.Header.MemberId)
}
