package leasetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tenure-lease/tenure"
)

// errorsAdvise wants errors that name the facts needed to act: the holder, the fault of a
// claim, the reason for a loss, or the silence of the store. Whether the advice is good the
// suite cannot tell.
func errorsAdvise(b *bench) {
	l, m := b.leaser(), b.leaser()
	lease := b.acquire(l, b.claim())
	_, err := m.TryAcquire(b.ctx, b.claim())
	b.wantError("TryAcquire of a held name", err, nil, lease.Name(), lease.Holder())

	for what, edit := range map[string]func(*tenure.Claim){
		"TTL":        func(c *tenure.Claim) { c.TTL = -time.Second },
		"slots":      func(c *tenure.Claim) { c.Slots = -1 },
		"lock delay": func(c *tenure.Claim) { c.LockDelay = -1 },
		"holder":     func(c *tenure.Claim) { c.Holder = "a\nb" },
	} {
		c := b.claim()
		edit(&c)
		_, err := m.TryAcquire(b.ctx, c)
		b.wantError("a claim with a bad "+what, err, tenure.ErrClaim, what)
	}

	b.require("Cut", b.Cut != nil)
	b.Cut(m)
	ctx, cancel := context.WithTimeout(b.ctx, b.TTL/4)
	_, err = m.TryAcquire(ctx, b.claim())
	cancel()
	b.wantError("TryAcquire, cut off", err, tenure.ErrUnavailable)
	b.Heal(m)
	b.lose(l, lease)
	b.wantError("Err of a lost lease", lease.Err(), tenure.ErrLost)
	b.wantError("Check of a lost lease", lease.Check(), tenure.ErrLost)
	b.Heal(l)
}

// wantError reports an error that is not is, does not have the words, says nothing beside its kind,
// or says one thing twice.
func (b *bench) wantError(what string, err, is error, words ...string) {
	b.Helper()
	if err == nil {
		b.Errorf("%s: no error", what)
		return
	}
	text := err.Error()
	if is != nil && (!errors.Is(err, is) || text == is.Error()) {
		b.Errorf("%s: the error %q says nothing beside %q: want to know why", what, text, is)
	}
	for _, word := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
			b.Errorf("%s: the error %q does not say %q", what, text, word)
		}
	}
	said := map[string]bool{}
	for part := range strings.SplitSeq(text, ": ") {
		if said[part] {
			b.Errorf("%s: the error %q says %q twice", what, text, part)
		}
		said[part] = true
	}
	if strings.Contains(text, "%!") {
		b.Errorf("%s: the error %q was put together wrongly", what, text)
	}
}
