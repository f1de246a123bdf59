package flease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// TestList: List returns all names that are held, from any peer or socket, as long as each cell has a
// majority.
func TestList(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5, brief) // cells of three
	c.ready()
	var want []string
	l := c.peers[0].Leaser()
	defer l.Close()
	long := strings.Repeat("x", 480) // so that clients are told in several lines
	for i := range 60 {
		name := fmt.Sprintf("job/%s/%02d", long, i)
		if i%10 == 0 {
			name = fmt.Sprintf("other/%02d", i)
		} else {
			want = append(want, name)
		}
		if _, err := l.Acquire(t.Context(), tenure.Claim{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	freed, err := l.Acquire(t.Context(), tenure.Claim{Name: "job/freed"})
	if err != nil || freed.Release(t.Context()) != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) { // until all peers have heard of it
		if got, err := l.List(t.Context(), "job/freed"); err != nil || len(got) == 0 {
			break
		}
	}

	path := filepath.Join(t.TempDir(), "s")
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go c.peers[4].Serve(socket)
	client, err := engine.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	check := func(from tenure.Lister) {
		t.Helper()
		if got, err := from.List(t.Context(), "job/"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d names, %v; want %d", len(got), err, len(want))
		}
	}
	check(l)
	check(client)
	if got, err := client.List(t.Context(), ""); err != nil || len(got) != 60 {
		t.Errorf("%d names, %v", len(got), err)
	}
	c.peers[1].Close()
	check(l)
	check(client)
	c.peers[2].Close()
	if _, err := client.List(t.Context(), ""); !errors.Is(err, tenure.ErrUnavailable) {
		t.Errorf("with two of a cell missing, perhaps: %v", err)
	}
}

// TestListOfEvenCells: a cell of two has no majority without one peer, nor one of four without two.
// Then List fails, because names may be missing.
func TestListOfEvenCells(t *testing.T) {
	for _, n := range []int{2, 4} {
		cfg := brief
		cfg.Replicas = n
		inLab(t, n, cfg, func(l *lab) {
			from := l.peers[0].Leaser()
			defer from.Close()
			list := func() error {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				_, err := from.List(ctx, "")
				return err
			}
			for away := 1; away <= n/2; away++ {
				if err := list(); err != nil {
					t.Errorf("of %d peers, %d away: %v", n, away-1, err)
				}
				l.net.Cut("h1", fmt.Sprintf("h%d", away+1), time.Minute)
			}
			if err := list(); !errors.Is(err, tenure.ErrUnavailable) {
				t.Errorf("half of %d peers are away, and the names of the others pass for all: %v", n, err)
			}
		})
	}
}

// TestListOfLongNames: List works with more names than an answer between peers has room for, each of
// them much longer in JSON.
func TestListOfLongNames(t *testing.T) {
	inLab(t, 2, brief, func(l *lab) {
		const names = 400
		from := l.peers[1].Leaser()
		defer from.Close()
		for i := range names {
			l.acquire(from, time.Second, tenure.Claim{Name: fmt.Sprintf("%s%03d", strings.Repeat("<", 500), i), TTL: 3 * time.Second})
		}
		asks := l.peers[0].Leaser()
		defer asks.Close()
		if got, err := asks.List(context.Background(), ""); err != nil || len(got) != names {
			t.Errorf("%d long names of %d are listed: %v", len(got), names, err)
		}
	})
}
