package file

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// TestNothingIsMeasuredWhereAStoreIs: whichever of the places is taken, Init leaves all as they are,
// and measures none: that writes.
func TestNothingIsMeasuredWhereAStoreIs(t *testing.T) {
	for taken := range 3 {
		paths := []string{t.TempDir(), t.TempDir(), t.TempDir()}
		if _, err := Init(t.Context(), paths[taken:taken+1], brief); err != nil {
			t.Fatal(err)
		}
		measure := brief
		measure.Delay = 0
		looked := false
		_, err := initBy(t.Context(), func() machine.Mono { looked = true; return 0 }, paths, measure)
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("place %d of 3 is taken: %v, want %v", taken+1, err, fs.ErrExist)
		}
		if looked {
			t.Errorf("place %d of 3 is taken, and accesses are measured", taken+1)
		}
		for i, path := range paths {
			if all, err := os.ReadDir(path); err != nil || i != taken && len(all) > 0 {
				t.Errorf("place %d of 3 is taken, and in place %d there is now %v, %v", taken+1, i+1, all, err)
			}
		}
	}
}

// TestAllFindingsAreClosed: stores that were found, and are of no use, are all closed.
func TestAllFindingsAreClosed(t *testing.T) {
	paths := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	if _, err := Init(t.Context(), paths, brief); err != nil {
		t.Fatal(err)
	}
	found := findings{{path: "nothing"}}
	for _, path := range paths {
		store, err := file.Open(path, file.Options{Clock: oneClock().Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		found = append(found, finding{path: path, store: store})
	}
	found.close()
	for _, x := range found[1:] {
		r := x.store.Do([]register.Op{{Name: "x", Writer: machine.ID{1}, Op: quorumregister.Query{}}})[0]
		if !errors.Is(r.Err, os.ErrClosed) {
			t.Errorf("%s was found and closed, and answers %v, want %v", x.path, r.Err, os.ErrClosed)
		}
	}
}
