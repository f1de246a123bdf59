package file

import (
	"errors"
	"io/fs"
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/storage"
)

// Each field of a Config and of a Spec is passed on, and to the right place.
func TestOptionsReachTheEngine(t *testing.T) {
	cfg := Config{Paths: []string{"/a"}, Existing: true, SingleHost: true, ReadOnly: true, State: "/state"}
	if want := (file.Config{Paths: cfg.Paths, Existing: true, SingleHost: true, ReadOnly: true, State: "/state"}); !reflect.DeepEqual(cfg.internal(), want) {
		t.Errorf("the engine is configured as %+v, want %+v", cfg.internal(), want)
	}
	for i := range reflect.TypeFor[Config]().NumField() { // one that is swapped for another would not show above
		var one Config
		field, name := reflect.ValueOf(&one).Elem().Field(i), reflect.TypeFor[Config]().Field(i).Name
		field.Set(reflect.ValueOf(cfg).Field(i))
		if got := reflect.ValueOf(one.internal()).FieldByName(name); got.IsZero() {
			t.Errorf("%s does not reach the engine's %s", name, name)
		}
	}
	spec := Spec{TTL: 1, Delay: 2, Drift: 3, SingleHost: true, Handles: 4}
	want := file.Spec{Spec: storage.Spec{Term: 1, Delay: 2, Drift: 3}, SingleHost: true, Handles: 4}
	if got := spec.internal(); got != want {
		t.Errorf("stores are made by %+v, want %+v", got, want)
	}
}

// Init makes a store once, with what the Spec says, and Open takes leases in it.
func TestLeases(t *testing.T) {
	dir := t.TempDir()
	spec := Spec{TTL: 20 * time.Second, SingleHost: true}
	if err := Init(t.Context(), []string{dir}, spec); err != nil {
		t.Fatal(err)
	}
	if err := Init(t.Context(), []string{dir}, spec); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Init says %v, want %v", err, fs.ErrExist)
	}
	l, err := Open(t.Context(), Config{Paths: []string{dir}, Existing: true, State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "job", TTL: 20 * time.Second}); err != nil {
		t.Error(err)
	}
	if names, err := l.(tenure.Lister).List(t.Context(), "j"); err != nil || len(names) != 1 || names[0] != "job" {
		t.Errorf("it lists %q, %v; want the name that it holds", names, err)
	}
}

// Open returns no Leaser when there is no store.
func TestNoStore(t *testing.T) {
	if l, err := Open(t.Context(), Config{Paths: []string{t.TempDir()}, Existing: true}); err == nil || l != nil {
		t.Errorf("got %v, %v", l, err)
	}
}
