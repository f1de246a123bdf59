package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// cpuMetric is the user and system time of a process in seconds, by the name that all Prometheus clients
// give it.
const cpuMetric = "process_cpu_seconds_total "

// metricsAt is the address of a member's metrics, empty for one on a Unix socket.
func metricsAt(endpoint string, encrypted bool) string {
	scheme, host, ok := strings.Cut(endpoint, "://")
	switch {
	case !ok:
		host = endpoint
	case scheme != "http" && scheme != "https":
		return ""
	}
	scheme = "http"
	if encrypted {
		scheme = "https"
	}
	return scheme + "://" + strings.TrimSuffix(host, "/") + "/metrics"
}

// spent asks a member for its CPU time.
func (c *Cluster) spent(ctx context.Context, url string) (time.Duration, error) {
	if url == "" {
		return 0, errors.New("a Unix socket has no metrics")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, answer.Status)
	}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), cpuMetric); ok {
			seconds, err := strconv.ParseFloat(text, 64)
			return time.Duration(seconds * float64(time.Second)), err
		}
	}
	return 0, fmt.Errorf("%s has no %s", url, cpuMetric)
}
