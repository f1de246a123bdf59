package file

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Store is a directory or a device, opened by one handle.
type Store struct {
	path   string
	header storeHeader
	opts   Options
	vol    volume
	keeper keeper

	mu      sync.Mutex // held by Do, and by Close if no Do hangs
	closing atomic.Bool
	dead    error // why nothing goes any more
	lookout lookout
	home    *home // nil before the first write, and after it was lost
	lost    bool  // the home was lost, and its records are not written again yet
	slots   map[key]*slot
	wrote   machine.Mono // when the home was written last
	hushed  machine.Mono // until when nothing counts
	why     error
	tidied  machine.Mono // when tidy ran last
	checked machine.Mono // when the header was found well last
	rubbish map[string]machine.Mono
	doomed  map[string]bool // condemned since the latest look began
	lineage machine.ID      // of the own files, see nextID

	listing sync.Mutex // held by Names
	listed  *lookout   // by Names, which has to know since when something is damaged; nil before the first
}

var _ register.Store = (*Store)(nil)

// key is whose slot it is.
type key struct {
	writer machine.ID
	name   string
}

// Header returns the header that was fixed when the store was made.
func (s *Store) Header() register.Header { return s.header.Header }

// SingleHost reports whether the store is for the processes of one host only.
func (s *Store) SingleHost() bool { return s.header.single }

// Do implements register.Store. All Queries are served by reading each handle's place
// once, all changes by one write of each run of neighbouring slots to either copy.
func (s *Store) Do(ops []register.Op) []register.Reply {
	s.mu.Lock()
	defer s.end()
	replies := make([]register.Reply, len(ops))
	if err := s.do(ops, replies); err != nil {
		for i := range replies {
			replies[i] = register.Reply{Err: err}
		}
	}
	return replies
}

// end ends a Do. A Close that came meanwhile, at any moment, has left the rest to it.
func (s *Store) end() {
	s.mu.Unlock()
	if s.closing.Load() {
		s.Close()
	}
}

// do returns an error that is every operation's.
func (s *Store) do(ops []register.Op, replies []register.Reply) error {
	if s.dead != nil {
		return s.dead
	}
	s.noteLeavers(ops)
	if s.why != nil && s.lookout.now() < s.hushed {
		return s.why
	}
	var asked map[string]bool
	for _, op := range ops {
		if _, ok := op.Op.(quorumregister.Query); ok {
			if asked == nil {
				asked = map[string]bool{}
			}
			asked[op.Name] = true
		}
	}
	looked := false // at all places
	if asked != nil {
		err := s.query(ops, replies, asked)
		looked = err == nil
		if errors.Is(err, register.ErrGone) || s.dead != nil {
			return err
		}
		for i, op := range ops {
			if _, ok := op.Op.(quorumregister.Query); ok && err != nil {
				replies[i] = register.Reply{Err: err}
			}
		}
	}
	if err := s.change(ops, replies); err != nil {
		return err
	}
	if looked {
		s.tidy(false)
	}
	return nil
}

// noteLeavers notes the writers that leave, which they say only once, even if the other operations
// fail. A writer that never got a place, as on a full disk, is forgotten: else it would have to be
// given one whenever the handle moves.
func (s *Store) noteLeavers(ops []register.Op) {
	for _, op := range ops {
		if _, leaves := op.Op.(register.Leave); !leaves {
			continue
		}
		_, _ = s.accept(op)
		k := key{op.Writer, op.Name}
		if p := s.slots[k]; p != nil && p.at == nowhere && p.rec.gen == 0 {
			delete(s.slots, k)
		}
	}
}

// query answers the Queries. If it fails, each operation gets its error.
func (s *Store) query(ops []register.Op, replies []register.Reply, asked map[string]bool) error {
	if err := s.look(); err != nil {
		return err
	}
	damaged, err := s.lookout.damage()
	if err != nil {
		return err
	}
	states := s.lookout.states(asked)
	for i, op := range ops {
		if _, ok := op.Op.(quorumregister.Query); ok {
			replies[i] = register.Reply{Value: states[op.Name]}
			if err := damaged[op.Name]; err != nil {
				replies[i] = register.Reply{Err: err}
			}
		}
	}
	return nil
}

// look reads all places, and makes sure that our records are still in ours.
func (s *Store) look() error {
	if s.homeless() {
		if err := s.recover(); err != nil && s.lost {
			return err
		}
	}
	// Newcomers go by the header. Without one they may make a store elsewhere, and holders must
	// not go on beside it.
	if now := s.lookout.now(); now.Sub(s.checked) >= s.lookout.wait/8 {
		if err := s.keeper.check(s); err != nil {
			return err
		}
		s.checked = now
	}
	for range turns {
		if err := s.lookout.look(); err != nil {
			return s.missing(err)
		}
		err := s.verify()
		if s.dead != nil {
			return err
		}
		if err != nil && s.home != nil && s.home.doubt == nil { // the check failed
			return err
		}
		if err != nil {
			if err := s.restore(err); err != nil {
				return err
			}
			continue
		}
		again, err := s.pardon()
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		if !again {
			return nil
		}
	}
	return fmt.Errorf("%s: a block reads differently just after it was written: %w", s.path, register.ErrDamaged)
}

// change performs Puts, PutNotes, Enters and Leaves.
func (s *Store) change(ops []register.Op, replies []register.Reply) error {
	var dirty []*slot
	changes := make([]*slot, len(ops))
	for i, op := range ops {
		p, err := s.accept(op)
		if err != nil {
			replies[i] = register.Reply{Err: err}
		}
		if p != nil && p.dirty && !slices.Contains(dirty, p) {
			dirty = append(dirty, p)
		}
		changes[i] = p
	}
	if len(dirty) == 0 {
		return nil
	}
	err := s.keep(dirty)
	if err != nil {
		s.noteLeavers(ops) // with their latest write
	}
	if errors.Is(err, register.ErrGone) {
		return err
	}
	for i, p := range changes {
		if p != nil && p.dirty {
			replies[i] = register.Reply{Err: err}
		}
	}
	return nil
}

// accept applies the change of an operation. A record that was tried once stays in the slot: a
// failed write may be seen all the same, and must not vanish again.
func (s *Store) accept(op register.Op) (*slot, error) {
	switch in := op.Op.(type) {
	case quorumregister.Query:
		return nil, nil
	case register.Enter:
		p, err := s.slot(op.Name, op.Writer)
		if err == nil && p.at == nowhere {
			p.dirty = true
		}
		return p, err
	case register.Leave:
		if p := s.slots[key{op.Writer, op.Name}]; p != nil {
			p.left = true
		}
		return nil, nil
	case quorumregister.Put:
		if len(in.Data) > register.MaxData {
			return nil, fmt.Errorf("%w: %d bytes of data, at most %d are possible", register.ErrTooLong, len(in.Data), register.MaxData)
		}
		p, err := s.slot(op.Name, op.Writer)
		if err == nil && in.Version.Compare(p.rec.version) > 0 {
			p.rec.version, p.rec.data, p.dirty = in.Version, slices.Clone(in.Data), true
			s.lookout.top = max(s.lookout.top, in.Version.Seq)
		}
		return p, err
	case quorumregister.PutNote:
		if len(in.Data) > register.MaxNote {
			return nil, fmt.Errorf("%w: a note of %d bytes, at most %d are possible", register.ErrTooLong, len(in.Data), register.MaxNote)
		}
		p, err := s.slot(op.Name, in.Writer)
		if err == nil && in.Seq > p.rec.noteSeq {
			p.rec.noteSeq, p.rec.note, p.dirty = in.Seq, slices.Clone(in.Data), true
		}
		return p, err
	}
	return nil, fmt.Errorf("a store knows no operation %T", op.Op)
}

// slot finds or makes the one of a writer at a register.
func (s *Store) slot(name string, writer machine.ID) (*slot, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	k := key{writer, name}
	p := s.slots[k]
	if p == nil {
		p = &slot{rec: record{writer: writer, name: name}, at: nowhere}
		s.slots[k] = p
	}
	p.left, p.idle = false, false
	return p, nil
}

// Names implements register.Store.
func (s *Store) Names() ([]string, error) {
	s.listing.Lock()
	defer s.listing.Unlock()
	if s.listed == nil {
		s.listed = s.newLookout()
	}
	l := s.listed
	if err := l.look(); err != nil {
		return nil, s.missing(err)
	}
	if _, err := l.damage(); err != nil { // it may be that of any name
		return nil, err
	}
	var names []string
	l.records(func(_ spot, r *record) {
		if r.wrote() {
			names = append(names, r.name)
		}
	})
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Close says farewell in the handle's place, so that others may remove it when nobody needs its
// records. If nobody needs them now, Close removes it. It takes as long as the medium does.
func (s *Store) Close() error {
	s.closing.Store(true)
	if s.mu.TryLock() { // else a Do hangs, and shuts if it ever returns
		defer s.mu.Unlock()
		s.shut()
	}
	return nil
}

// shut is best effort: a file that stays behind counts as dead once it has not changed for
// a while.
func (s *Store) shut() {
	if errors.Is(s.dead, os.ErrClosed) {
		return
	}
	if s.dead == nil && s.home != nil && s.look() == nil {
		s.leavePlace()
		s.tidy(true)
		if len(s.doomed) > 0 && s.lookout.look() == nil {
			if again, err := s.pardon(); err == nil && !again {
				s.tidy(true)
			}
		}
	}
	s.drop()
	s.keeper.close()
	s.dead = fmt.Errorf("%s: the store was closed: %w", s.path, os.ErrClosed)
}

// drop forgets the own place.
func (s *Store) drop() {
	if s.home != nil {
		s.home.f.Close()
		s.home = nil
	}
}
