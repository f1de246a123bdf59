package broadcast_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/tenure-lease/tenure/broadcast"
)

// A sentence that is the same at all members, as far as each has applied it.
type sentence struct {
	at    broadcast.Position
	words string
}

// follow applies the ordered messages, up to a position.
func (s *sentence) follow(ctx context.Context, n *broadcast.Node, upto broadcast.Position) error {
	for m, err := range n.Deliver(ctx, s.at+1) {
		switch {
		case errors.Is(err, broadcast.ErrTrimmed): // it is in the snapshot
			if err := s.install(n); err != nil {
				return err
			}
			return s.follow(ctx, n, upto)
		case err != nil:
			return err
		}
		s.at, s.words = m.Position, s.words+string(m.Payload)+" "
		if s.at == upto {
			break
		}
	}
	return nil
}

// install begins with the last snapshot.
func (s *sentence) install(n *broadcast.Node) error {
	at, r, err := n.OpenSnapshot()
	if err != nil {
		return err
	}
	defer r.Close()
	state, err := io.ReadAll(r)
	s.at, s.words = at, string(state)
	fmt.Printf("installs %q of %d\n", s.words, s.at)
	return err
}

// snapshot has the sentence take the place of the messages that led to it.
func (s *sentence) snapshot(n *broadcast.Node) error {
	err := n.Snapshot(s.at, func(w io.Writer) error {
		_, err := io.WriteString(w, s.words)
		return err
	})
	return errors.Join(err, n.Trim(s.at))
}

func Example() {
	dir, err := os.MkdirTemp("", "sentence-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	n, err := broadcast.Start(broadcast.Config{
		ID: 1, Group: 42, DataDir: dir, Members: map[broadcast.MemberID]string{1: "localhost:7000"}, // alone, for now
	})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	for word := range strings.FieldsSeq("a right that ends") {
		if _, err := n.Broadcast(ctx, []byte(word)); err != nil {
			log.Fatal(err) // with ErrUnknown, it may have been ordered
		}
	}
	var s sentence
	if err := errors.Join(s.follow(ctx, n, 3), s.snapshot(n)); err != nil {
		log.Fatal(err)
	}
	s = sentence{} // the application is started again, or was never here before
	if err := s.follow(ctx, n, 4); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("has %q at %d\n", s.words, s.at)
	// Output:
	// installs "a right that " of 3
	// has "a right that ends " at 4
}
