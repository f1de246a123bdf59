package torture

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// HolderVariable is the environment variable that makes a program call Holder
// instead of whatever else it does.
const HolderVariable = "TENURE_TORTURE_HOLDER"

// holders are processes that hold locks, and their claims.
type holders struct {
	config  holderConfig
	command string

	mu      sync.Mutex
	procs   []*exec.Cmd
	names   int
	claims  []claimed
	readers sync.WaitGroup
}

// claimed is a claim and whose it is.
type claimed struct {
	claim
	holder string
}

func newHolders(command string, config holderConfig) *holders {
	return &holders{command: command, config: config}
}

// start starts one more holder.
func (h *holders) start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names++
	cfg := h.config
	cfg.Name = fmt.Sprintf("holder-%d", h.names)
	cfg.Seed += uint64(h.names)
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	cmd := exec.Command(h.command)
	cmd.Env = append(os.Environ(), HolderVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	// Its standard input ends when this process does, and then it ends too.
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	h.procs = append(h.procs, cmd)
	h.readers.Go(func() {
		lines := json.NewDecoder(out)
		for {
			var c claim
			if lines.Decode(&c) != nil { // the end, or half a line of a killed holder
				io.Copy(io.Discard, out)
				cmd.Wait()
				return
			}
			h.mu.Lock()
			h.claims = append(h.claims, claimed{c, cfg.Name})
			h.mu.Unlock()
		}
	})
	return nil
}

// signal sends a signal to the i-th holder.
func (h *holders) signal(i int, sig syscall.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.procs[i%len(h.procs)].Process.Signal(sig)
}

// replace kills the i-th holder and starts another.
func (h *holders) replace(i int) error {
	h.mu.Lock()
	i %= len(h.procs)
	h.procs[i].Process.Kill()
	h.procs = slices.Delete(h.procs, i, i+1)
	h.mu.Unlock()
	return h.start()
}

// stop ends all and returns their claims.
func (h *holders) stop() []claimed {
	h.mu.Lock()
	for _, p := range h.procs {
		p.Process.Kill()
	}
	h.procs = nil
	h.mu.Unlock()
	h.readers.Wait()
	return h.claims
}

// tenure is one holding of a lock, from the first claim to the last.
type tenure struct {
	lock, holder string
	token        int64
	from, to     time.Duration
}

// exclusive judges claims: no two holders of a lock at once, and tokens that
// grow with time. It returns how many tenures there were.
func exclusive(claims []claimed) (tenures int, err error) {
	type id struct {
		lock  string
		token int64
	}
	held := map[id]*tenure{}
	var byLock = map[string][]*tenure{}
	for _, c := range claims {
		k := id{c.Lock, c.Token}
		t := held[k]
		if t == nil {
			t = &tenure{lock: c.Lock, holder: c.holder, token: c.Token, from: c.At, to: c.At}
			held[k] = t
			byLock[c.Lock] = append(byLock[c.Lock], t)
		}
		if t.holder != c.holder {
			err = errors.Join(err, fmt.Errorf("%s and %s hold %s with the same token %d", t.holder, c.holder, c.Lock, c.Token))
		}
		t.from, t.to = min(t.from, c.At), max(t.to, c.At)
	}
	for _, list := range byLock {
		slices.SortFunc(list, func(a, b *tenure) int { return cmp.Compare(a.from, b.from) })
		last := list[0] // the one that lasted longest so far
		for _, t := range list[1:] {
			if t.from <= last.to {
				err = errors.Join(err, fmt.Errorf("two holders of %s at once: %+v and %+v", t.lock, *last, *t))
			}
			if t.token <= last.token {
				err = errors.Join(err, fmt.Errorf("the token of %s fell from %d to %d", t.lock, last.token, t.token))
			}
			if t.to > last.to {
				last = t
			}
		}
	}
	return len(held), err
}
