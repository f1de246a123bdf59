package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/compat/server"
)

const (
	writers = 8
	objects = 60 // of each writer
	changes = 4  // of each object, its creation included
	page    = 50
)

// TestAPIServer plays a cluster's life: many objects, one change after the other, while members come and go. A
// stock etcd passes it, too, so it asks for nothing that Kubernetes does not expect.
func TestAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a kube-apiserver")
	}
	for _, kind := range server.Kinds() {
		t.Run(string(kind), func(t *testing.T) { clusterLife(t, kind) })
	}
}

func clusterLife(t *testing.T, kind server.Kind) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	c, err := server.Start(ctx, server.Config{Kind: kind, Members: 3, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	a, err := start(ctx, t.TempDir(), c.Endpoints())
	if err != nil {
		t.Fatal(err)
	}
	defer a.stop()
	defer func() {
		if t.Failed() {
			t.Logf("the log of kube-apiserver ends with\n%s", a.tail())
		}
	}()

	var first list
	if err := a.do(ctx, http.MethodGet, configMaps, nil, &first); err != nil {
		t.Fatal(err)
	}
	version, err := strconv.ParseUint(first.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	w := &watcher{version: version, values: map[string]string{}}
	var following sync.WaitGroup
	following.Go(func() { w.follow(watching, a) })

	// The leader is killed and replaced in the middle.
	half := make(chan struct{})
	replaced := make(chan error, 1)
	go func() {
		<-half
		replaced <- replaceLeader(ctx, c)
	}()
	began := time.Now()
	var writing sync.WaitGroup
	for i := range writers {
		writing.Go(func() {
			for n := range objects {
				if i == 0 && n == objects/3 {
					close(half)
				}
				name := fmt.Sprintf("x-%d-%03d", i, n)
				if err := life(ctx, a, name); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	writing.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if err := <-replaced; err != nil {
		t.Fatalf("the leader is not replaced: %v", err)
	}
	took := time.Since(began)

	// All of it is there, in pages.
	found := map[string]string{}
	pages := 0
	for next := ""; pages == 0 || next != ""; pages++ {
		var l list
		if err := a.do(ctx, http.MethodGet, fmt.Sprintf("%s?limit=%d&continue=%s", configMaps, page, url.QueryEscape(next)), nil, &l); err != nil {
			t.Fatalf("page %d: %v", pages, err)
		}
		if len(l.Items) > page {
			t.Errorf("a page of %d has %d objects", page, len(l.Items))
		}
		for _, o := range l.Items {
			if o.Metadata.Name[0] == 'x' {
				found[o.Metadata.Name] = o.Data["value"]
			}
		}
		next = l.Metadata.Continue
	}
	if len(found) != writers*objects {
		t.Errorf("%d pages have %d objects, want %d", pages, len(found), writers*objects)
	}
	for name, value := range found {
		if value != strconv.Itoa(changes) {
			t.Errorf("%s has the value %s, want the last that was acknowledged, %d", name, value, changes)
		}
	}

	// The watch has told each change once, in order.
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		w.mu.Lock()
		all := maps.Equal(w.values, found)
		w.mu.Unlock()
		if all {
			break
		}
	}
	stopWatching()
	following.Wait()
	for _, wrong := range w.wrong[:min(10, len(w.wrong))] {
		t.Errorf("the watch: %s", wrong)
	}
	if want := writers * objects * changes; w.events != want {
		t.Errorf("the watch told %d events, want %d", w.events, want)
	}
	t.Logf("%d objects changed %d times in %v, with the leader replaced; %d events by %d connections; %d pages",
		writers*objects, changes, took.Round(time.Second), w.events, w.connects, pages)

	t.Run("compaction", func(t *testing.T) { compacted(ctx, t, a, c, version) })
	t.Run("conflict", func(t *testing.T) { conflict(ctx, t, a) })
	t.Run("lease", func(t *testing.T) { leased(ctx, t, a, c) })
	t.Run("deletion", func(t *testing.T) {
		if err := a.do(ctx, http.MethodDelete, configMaps, nil, nil); err != nil {
			t.Fatal(err)
		}
		var l list
		if err := a.do(ctx, http.MethodGet, configMaps, nil, &l); err != nil || len(l.Items) > 1 { // one that controllers make
			t.Errorf("behind the deletion of all: %d objects, %v", len(l.Items), err)
		}
	})
}

// life creates an object and changes it, each time by the version that was read, until all are acknowledged.
func life(ctx context.Context, a *apiserver, name string) error {
	for change := 1; change <= changes; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var now object
		o := configMap(name, strconv.Itoa(change))
		method, path := http.MethodPost, configMaps
		if change > 1 {
			err := a.do(ctx, http.MethodGet, configMaps+"/"+name, nil, &now)
			if code(err) == http.StatusNotFound {
				return fmt.Errorf("acknowledged, and not there: %w", err)
			}
			if err != nil {
				continue // while no member leads
			}
			switch now.Data["value"] {
			case strconv.Itoa(change): // it was done, and its answer was lost
				change++
				continue
			case strconv.Itoa(change - 1):
			default:
				return fmt.Errorf("has the value %s before it is changed to %d", now.Data["value"], change)
			}
			o.Metadata.ResourceVersion = now.Metadata.ResourceVersion
			method, path = http.MethodPut, configMaps+"/"+name
		}
		err := a.do(ctx, method, path, o, nil)
		if err == nil || method == http.MethodPost && code(err) == http.StatusConflict {
			change++
		} else if code(err) == 0 || code(err) >= 500 || code(err) == http.StatusConflict || code(err) == http.StatusTooManyRequests {
			time.Sleep(50 * time.Millisecond)
		} else {
			return err
		}
	}
	return nil
}

// replaceLeader kills the member that leads, and puts another one without data in its place.
func replaceLeader(ctx context.Context, c *server.Cluster) error {
	i, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	m := c.Members[i]
	m.Kill()
	client, err := c.Client((i+1)%3, (i+2)%3)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := again(ctx, func(ctx context.Context) error {
		members, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, is := range members.Members {
			if is.Name == m.Name {
				_, err := client.MemberRemove(ctx, is.ID)
				return errors.Join(err, errors.New("not gone yet"))
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	if err := m.Renew(); err != nil {
		return err
	}
	if err := again(ctx, func(ctx context.Context) error {
		_, err := client.MemberAdd(ctx, []string{m.PeerURL})
		if errors.Is(err, rpctypes.ErrPeerURLExist) {
			return nil
		}
		return err
	}); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	return m.Start(ctx)
}

// again tries until it works.
func again(ctx context.Context, f func(context.Context) error) (err error) {
	for range 60 {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err = f(try)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return err
}

// compacted: kube-apiserver compacts history, and a list or watch from before is told so.
func compacted(ctx context.Context, t *testing.T, a *apiserver, c *server.Cluster, version uint64) {
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = again(ctx, func(ctx context.Context) error {
		_, err := client.Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithRev(int64(version)))
		if errors.Is(err, rpctypes.ErrCompacted) {
			return nil
		}
		return fmt.Errorf("a read at %d is not told that it is compacted: %w", version, err)
	})
	if err != nil {
		t.Fatal(err)
	}
	// It keeps what it saw for a while: this is from before it began.
	err = a.do(ctx, http.MethodGet, configMaps+"?limit=5&resourceVersionMatch=Exact&resourceVersion=2", nil, nil)
	if code(err) != http.StatusGone {
		t.Errorf("a list of compacted history: %v, want 410", err)
	}
}

// conflict: a change by a version that is not the last is refused, as is a second creation.
func conflict(ctx context.Context, t *testing.T, a *apiserver) {
	var o object
	if err := a.do(ctx, http.MethodPost, configMaps, configMap("twice", "1"), &o); err != nil {
		t.Fatal(err)
	}
	if err := a.do(ctx, http.MethodPost, configMaps, configMap("twice", "1"), nil); code(err) != http.StatusConflict {
		t.Errorf("a second creation: %v, want 409", err)
	}
	o.Data["value"] = "2"
	if err := a.do(ctx, http.MethodPut, configMaps+"/twice", o, nil); err != nil {
		t.Fatal(err)
	}
	o.Data["value"] = "3"
	if err := a.do(ctx, http.MethodPut, configMaps+"/twice", o, nil); code(err) != http.StatusConflict {
		t.Errorf("a change by a version that is past: %v, want 409", err)
	}
}

// leased: events are kept under a lease, which is all that ends them.
func leased(ctx context.Context, t *testing.T, a *apiserver, c *server.Cluster) {
	err := a.do(ctx, http.MethodPost, "/api/v1/namespaces/default/events", map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]string{"name": "it-happened"},
		"involvedObject": map[string]string{"kind": "ConfigMap", "namespace": "default", "name": "twice"}, "reason": "Test",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	resp, err := client.Get(ctx, "/registry/events/default/it-happened")
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("the event's key: %v, %v", resp, err)
	}
	lease, err := client.TimeToLive(ctx, clientv3.LeaseID(resp.Kvs[0].Lease))
	if err != nil || lease.TTL < 200 || lease.TTL > 400 {
		t.Errorf("the event's lease has %v, %v; want some 300 s", lease, err)
	}
}
