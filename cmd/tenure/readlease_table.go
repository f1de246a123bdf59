package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

func (s *readLeases) table(w io.Writer) {
	fmt.Fprintf(w, "policy %s, %s order, leader %s, term %d\n", s.Policy, s.Order, cmp.Or(s.Leader, "unknown"), s.Term)
	fmt.Fprintln(w, s.progress())
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tROLE\tHOLDS\tLEFT\tBOUND TO IT\tHAS LOG TO\tREADS\tLOCAL\tROUND\tFORWARDED\tTROUBLE")
	for _, m := range s.Members {
		asked := "?\t?"
		if r := m.Reads; r != nil {
			asked = fmt.Sprintf("%d\t%d", r.Rounds, r.Forwarded)
		}
		has := "-"
		if m.Has > 0 {
			has = fmt.Sprint(m.Has)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(m.Name, m.ID), m.role(), cmp.Or(m.Holds, "-"), m.leftText(),
			cmp.Or(strings.Join(m.Grantors, ","), "-"), has, m.Reads.cells(), asked, m.trouble())
	}
	tw.Flush()
	s.someCells(w)
}

// progress describes how far the log is released, and the writes that wait, with their holders.
func (s *readLeases) progress() string {
	switch h := s.HeldUp; {
	case h != nil:
		return fmt.Sprintf("released up to %d of %d: %s", s.Released, s.Committed, h)
	case s.Leader == "":
		return fmt.Sprintf("released up to %d at least; only the leader knows the waiting writes and their holders, and it did not answer, or there is none", s.Released)
	}
	return fmt.Sprintf("released up to %d; nothing is held up", s.Released)
}

func (h *heldUp) String() string {
	entries := fmt.Sprintf("%d entries", h.Entries)
	if h.Entries == 1 {
		entries = "1 entry"
	}
	waiting := (time.Duration(h.WaitingMS * float64(time.Millisecond))).Round(time.Millisecond)
	return fmt.Sprintf("%s held up, for %v by now, by %s", entries, waiting, cmp.Or(strings.Join(h.By, ", "), "members that have yet to report"))
}

// summary is one line for `tenure status`.
func (s *readLeases) summary() string {
	var holders []string
	for _, m := range s.Members {
		if m.Holds != "" {
			holders = append(holders, cmp.Or(m.Name, m.ID)+m.onlySome())
		}
	}
	held := "held by nobody at this time"
	if len(holders) > 0 {
		held = "held by " + strings.Join(holders, ", ")
	}
	line := fmt.Sprintf("read leases: policy %s, %s order, %s", s.Policy, s.Order, held)
	if s.HeldUp != nil {
		line += "; " + s.HeldUp.String()
	}
	return line
}

// onlySome names a member's keys if it does not hold all.
func (m *readLeaseMember) onlySome() string {
	if m.Holds == "all keys" {
		return ""
	}
	return " (" + m.Holds + ")"
}

func (m *readLeaseMember) role() string {
	switch {
	case m.Leader:
		return "leader"
	case m.Learner:
		return "learner"
	case m.Reads == nil:
		return "?"
	}
	return "follower"
}

func (m *readLeaseMember) leftText() string {
	switch {
	case m.Reads == nil:
		return "?"
	case m.left == 0:
		return "-"
	case m.left > 2*quorumlease.MaxTTL: // alone
		return "no end"
	}
	return m.left.Round(time.Millisecond).String()
}

func (m *readLeaseMember) trouble() string {
	if m.Stalled && m.Error == "" {
		return "stalled: not renewed until it has caught up"
	}
	if c := m.Clock; c != nil && m.Error == "" {
		return c.String()
	}
	return strings.ReplaceAll(m.Error, "\n", " ")
}

func (c *memberClock) String() string {
	if c.Doubted {
		return "no lease, for its clock cannot be trusted: " + c.Last
	}
	ago := time.Duration(c.AgoMS * float64(time.Millisecond)).Round(time.Second)
	return fmt.Sprintf("%v ago %s", ago, c.Last)
}

// cells are how many reads there were, and how much of them was local. Nil is a
// member that did not say.
func (r *reads) cells() string {
	switch {
	case r == nil:
		return "?\t?"
	case r.all() == 0:
		return "0\t-"
	}
	return fmt.Sprintf("%d\t%.1f %%", r.all(), 100*float64(r.Local)/float64(r.all()))
}
