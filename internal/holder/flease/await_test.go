package flease_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// TestAwaitTogether: many callers that await a name at one peer, clients among them, share its looks.
// All are told of a new holder, and then the peer looks no more.
func TestAwaitTogether(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, brief)
	c.ready()
	path := filepath.Join(t.TempDir(), "s")
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go c.peers[0].Serve(socket)
	client, err := engine.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	own := c.peers[0].Leaser()
	defer own.Close()
	elsewhere := c.peers[1].Leaser()
	defer elsewhere.Close()
	first, err := elsewhere.Acquire(t.Context(), tenure.Claim{Name: "x", Holder: "first"})
	if err != nil {
		t.Fatal(err)
	}
	since, err := own.Observe(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}

	const many = 100
	watched := func(want int) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			names, refs := c.peers[0].Watched()
			if refs == want && names == min(want, 1) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d await %d names; want %d", refs, names, want)
			}
		}
	}
	ctx, giveUp := context.WithCancel(t.Context())
	var bored sync.WaitGroup
	for _, a := range []tenure.Awaiter{own, client} {
		bored.Go(func() {
			if _, err := a.Await(ctx, since); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	watched(2)
	giveUp()
	bored.Wait()
	watched(0)

	var told sync.WaitGroup
	for i := range many {
		var a tenure.Awaiter = own
		if i%2 == 0 {
			a = client
		}
		told.Go(func() {
			s, err := a.Await(t.Context(), since)
			if err != nil || len(s.Holders) > 0 && s.Holders[0].Holder != "second" {
				t.Error(s, err)
			}
		})
	}
	watched(many)
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := elsewhere.Acquire(t.Context(), tenure.Claim{Name: "x", Holder: "second"}); err != nil {
		t.Fatal(err)
	}
	told.Wait()
	watched(0)
}

// TestNobodyLooksForNobody: a peer stops looking at a name that no caller awaits any more.
func TestNobodyLooksForNobody(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		p := l.peers[0]
		from := p.Leaser()
		defer from.Close()
		ctx, giveUp := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		before := p.Asked()
		go func() {
			_, err := from.Await(ctx, tenure.State{Name: "x"})
			ended <- err
		}()
		time.Sleep(10 * time.Second)
		if looks := p.Asked() - before; looks < 10 {
			t.Errorf("somebody awaits a name, and the peer has looked at it %d times", looks)
		}
		giveUp()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		before = p.Asked()
		time.Sleep(time.Minute)
		if looks := p.Asked() - before; looks > 0 {
			t.Errorf("nobody awaits a name any more, and the peer has looked at it %d times since", looks)
		}
	})
}
