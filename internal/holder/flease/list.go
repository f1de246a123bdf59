package flease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

var _ tenure.Lister = (*Leaser)(nil)

// inquiry asks a peer for the names that it knows as an acceptor, from After on. Without one, a
// peer answers with its terms.
type inquiry struct {
	Names  bool   `json:"names"`
	Prefix string `json:"prefix,omitempty"`
	After  string `json:"after,omitempty"`

	Record *recordQuestion `json:"record,omitempty"` // it asks for records instead
}

// knownNames is the answer. A Silent peer has forgotten its promises and does not count.
type knownNames struct {
	Names  []string `json:"names"`
	More   bool     `json:"more,omitempty"`
	Silent bool     `json:"silent,omitempty"`
}

// namesBytesMax bounds an answer roughly; package peer's own bound is 1 MiB.
const namesBytesMax = 900 << 10

// names is a page of the names that this peer knows, in order. It holds the machine up only while
// it gathers them.
func (p *Peer) names(in inquiry) (page knownNames) {
	p.mu.Lock()
	page.Silent = !p.serving
	p.mu.Unlock()
	if page.Silent {
		return page
	}
	var names []string
	ran := p.driver.Do(func() {
		for name := range p.machine.Names() {
			if name > in.After && strings.HasPrefix(name, in.Prefix) {
				names = append(names, name)
			}
		}
	})
	if !ran {
		return knownNames{Silent: true}
	}
	page.Names = names
	slices.Sort(page.Names)
	size := 0
	for i, name := range page.Names {
		b, _ := json.Marshal(name) // a string: never fails
		if size += len(b) + 1; size > namesBytesMax {
			page.Names, page.More = page.Names[:i], true
			break
		}
	}
	return page
}

// List implements tenure.Lister. It asks all peers, and fails if so many do not answer that a cell
// could lack a majority. It reads all names that they know, so call it rarely. A name that was
// released a moment ago is listed until every peer has heard of the release.
func (l *Leaser) List(outer context.Context, prefix string) ([]string, error) {
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	p := l.peer
	view := p.Members().view(p.cfg.Replicas)
	answers := make([][]string, len(view.Members))
	failed := make([]error, len(view.Members))
	var all sync.WaitGroup
	for i, id := range view.Members {
		all.Go(func() { answers[i], failed[i] = p.namesOf(ctx, id, prefix) })
	}
	all.Wait()
	missing := 0
	for _, err := range failed {
		if err != nil {
			missing++
		}
	}
	if spare := (len(view.Cell("")) - 1) / 2; missing > spare {
		return nil, fmt.Errorf("list the names: %w: %d peers may be missing: %w", tenure.ErrUnavailable, spare, errors.Join(failed...))
	}
	names := slices.Concat(answers...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// namesOf asks one peer, page by page.
func (p *Peer) namesOf(ctx context.Context, id machine.NodeID, prefix string) (names []string, err error) {
	for in := (inquiry{Names: true, Prefix: prefix}); ; in.After = names[len(names)-1] {
		page, err := p.page(ctx, id, in)
		if err != nil {
			return nil, fmt.Errorf("peer %d: %w", id, err)
		}
		if names = append(names, page.Names...); !page.More {
			return names, nil
		}
	}
}

var errSilentPeer = errors.New("it is silent after its start")

func (p *Peer) page(ctx context.Context, id machine.NodeID, in inquiry) (page knownNames, err error) {
	if id == p.self {
		page = p.names(in)
	} else {
		var say, said []byte
		if say, err = json.Marshal(in); err != nil {
			return page, err
		}
		if said, err = peer.Ask(ctx, p.Members().Addrs[id], p.cfg.TLS, p.cfg.Dial, say); err != nil {
			return page, offline(err)
		}
		if err = json.Unmarshal(said, &page); err != nil {
			return page, err
		}
	}
	switch {
	case page.Silent:
		return page, errSilentPeer
	case page.More && (len(page.Names) == 0 || page.Names[len(page.Names)-1] <= in.After):
		return page, errors.New("it says that there is more and shows nothing new")
	}
	return page, nil
}
