package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/wire"
)

// directoriesFile in the data directory holds what a member remembers of the data
// directories of the others.
const directoriesFile = "directories.json"

// origin says from which data directory a member was started, and which of the starts
// from there it was.
type origin struct {
	Directory uint64 `json:"directory"` // the random ID of its log; 0 if nothing is known
	Boot      uint64 `json:"boot"`      // the number of the start, and 32 random bits
}

// follows reports whether this start may be the other one or a later one: it is from the
// same directory, which has not gone back to an earlier state in between.
func (o origin) follows(earlier origin) bool {
	return o.Directory == earlier.Directory && (o.Boot == earlier.Boot || o.Boot>>32 > earlier.Boot>>32)
}

// memory is what the file holds.
type memory struct {
	// Own is the member's own data directory.
	Own uint64 `json:"own_directory"`
	// Admitted says that this directory is the first one of its member, as the others
	// have confirmed.
	Admitted bool `json:"admitted,omitempty"`
	// Known are the latest starts of other members, by ID. A member's directory never
	// changes.
	Known map[uint64]origin `json:"members,omitempty"`
	// Doubt is there after another member has heard of starts from this directory of
	// which the directory itself knows nothing.
	Doubt *doubt `json:"doubt,omitempty"`
}

// doubt names the members that have to withdraw it, and the start that they doubted.
type doubt struct {
	By   []uint64 `json:"by"`
	Boot uint64   `json:"boot"`
}

// parties are this member and one that greets it.
type parties struct {
	started, joined bool // this one takes part in the cluster already; it is no founder
	founder, named  bool // the other is a founder; the log has its name
}

// judge tells what a member's directory is worth by what is remembered of it.
func (m memory) judge(from uint64, g greeting, who parties) judgement {
	known, met := m.Known[from]
	switch {
	case !met && who.founder && who.joined && g.First:
		// It was emptied, or waits for another founder since the first day: that is for
		// founders to say.
		return unlikely
	case !met && who.founder && who.started && g.First:
		// A founder that takes part has met all others, so this one had another directory
		// before members remembered such things.
		return forgetful
	case !met && !who.founder && who.named && g.First:
		// Only one that takes part tells its name. The greeting may be of before, though.
		return unlikely
	case !met:
		return news
	case !g.Origin.follows(known):
		return forgetful
	case g.Origin != known:
		return news
	}
	return familiar
}

// judgement is what a greeting is worth.
type judgement int

const (
	familiar  judgement = iota
	news                // to be remembered before it is confirmed
	forgetful           // another directory than before, or an earlier state of it
	unlikely            // not to be confirmed, nor held against the sender
)

// directories keeps a member's memory of the others, on disk and at hand.
type directories struct {
	fs   wal.FS
	path string
	own  uint64

	// changing holds a token while somebody changes the memory. A disk may take long, and
	// readers must not wait for it: mu is never held during a write.
	changing chan struct{}

	mu  sync.Mutex
	now memory
}

// openDirectories reads the memory in a data directory, if there is one. own is the ID of the
// directory's log.
func openDirectories(dir string, own uint64, fsys wal.FS) (*directories, error) {
	d := &directories{fs: fsys, path: filepath.Join(dir, directoriesFile), own: own, changing: make(chan struct{}, 1)}
	f, err := fsys.OpenFile(d.path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, size)
	if n, err := f.ReadAt(raw, 0); n < len(raw) {
		return nil, fmt.Errorf("read %s: %w", d.path, err)
	}
	if d.now, err = decodeMemory(raw); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): keep a copy of the data directory and replace the member; do not delete the file, for the member would not notice any more that another one lost its data", d.path, err)
	}
	return d, nil
}

// encode gives the file's two lines: the memory, and a checksum of that line.
func (m memory) encode() ([]byte, error) {
	p, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(p, "\n%08x\n", wire.Checksum(p)), nil
}

func decodeMemory(raw []byte) (m memory, err error) {
	const tail = len("\n01234567\n")
	if len(raw) < tail {
		return m, errors.New("it is too short")
	}
	p, sum := raw[:len(raw)-tail], raw[len(raw)-tail:]
	if string(sum) != fmt.Sprintf("\n%08x\n", wire.Checksum(p)) {
		return m, errors.New("its checksum is wrong")
	}
	return m, json.Unmarshal(p, &m)
}

// get is the memory of the moment.
func (d *directories) get() memory {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// change makes a change of the memory durable.
func (d *directories) change(how func(*memory)) error {
	d.changing <- struct{}{}
	defer func() { <-d.changing }()
	next := d.get()
	next.Own = d.own
	next.Known = maps.Clone(next.Known)
	if next.Known == nil {
		next.Known = map[uint64]origin{}
	}
	how(&next)
	p, err := next.encode()
	if err == nil {
		err = d.write(p)
	}
	if err != nil {
		return fmt.Errorf("node: write %s: %w", d.path, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = next
	return nil
}

// write replaces the file as a whole.
func (d *directories) write(p []byte) error {
	tmp := d.path + ".tmp"
	f, err := d.fs.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(p, 0)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.fs.Rename(tmp, d.path); err != nil {
		return err
	}
	return d.fs.SyncDir(filepath.Dir(d.path))
}

// met remembers a member's latest start, and forgets members that were removed.
func (d *directories) met(id uint64, from origin, removed []uint64) error {
	return d.change(func(m *memory) {
		maps.DeleteFunc(m.Known, func(id uint64, _ origin) bool {
			_, gone := slices.BinarySearch(removed, id)
			return gone
		})
		m.Known[id] = from
	})
}
