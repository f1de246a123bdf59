package widearea

import (
	"cmp"
	"strings"
)

// statements measures the statements of the paper's text, as far as their policies were
// measured.
func (m *Measured) statements() []Finding {
	found := findings{}
	quorum := m.run("quorum/key", Figure6.Name)
	if quorum != nil {
		least := 1.0
		for _, s := range quorum.Sites {
			least = min(least, s.Reads.Under10)
		}
		found.put("quorum-local-reads", least, quorum.Policy)
		found.minimal("quorum-minimal-writes", quorum, m.MinimumOf)
	}
	if all := cmp.Or(m.run("all/key", Figure6.Name), m.run("all", Figure6.Name)); all != nil {
		found.put("all-local-reads", all.Average(LocalReads), all.Policy)
	}
	if all, leader := m.pair(Figure6.Name, "all", "leader"); all != nil {
		found.put("all-write-ratio", all.Average(MeanWrite)/leader.Average(MeanWrite), all.Policy, leader.Policy)
		found.put("leader-read-ratio", leader.Average(MeanRead)/all.Average(MeanRead), leader.Policy, all.Policy)
	}
	if static := m.run("static/key", Uniform.Name); static != nil {
		found.put("static-local-reads", static.Average(LocalReads), static.Policy)
		found.minimal("static-minimal-writes", static, m.MinimumOf)
	}
	if o := m.run("quorum/key", Together.Name); o != nil && quorum != nil {
		found.put("together-read-ratio", o.Average(MeanRead)/quorum.Average(MeanRead), o.Policy)
		found.put("together-write-ratio", o.Average(MeanWrite)/quorum.Average(MeanWrite), o.Policy)
	}
	if o, megastore := m.run("quorum/key", Apart.Name), m.run("all/key", Apart.Name); o != nil && megastore != nil {
		found.put("apart-write-ratio", o.Average(MeanWrite)/megastore.Average(MeanWrite), o.Policy, megastore.Policy)
		found.put("apart-ratio", o.Mean/megastore.Mean, o.Policy, megastore.Policy)
	}
	ratio := func(id string, a, b throughput) {
		if x, y := m.rate(a), m.rate(b); x > 0 && y > 0 {
			found.put(id, x/y, a.Policy, b.Policy)
		}
	}
	ratio("all-read-throughput", throughput{Policy: "all", Reads: true, Asks: Anything}, throughput{Policy: "leader", Reads: true, Asks: TheLeader})
	ratio("quorum-read-throughput", throughput{Policy: "static/key", Reads: true, Asks: Held}, throughput{Policy: "all/key", Reads: true, Asks: Anything})
	ratio("quorum-write-throughput", throughput{Policy: "static/key", Asks: Held}, throughput{Policy: "leader/key", Asks: Anything})
	for _, t := range m.Deaths {
		if t.Policy == "quorum/key" && t.Site != Sites[Leader] {
			found.put("quorum-stall", t.Held.Slowest/1000, t.Policy)
		}
	}
	for _, t := range m.Controls.Deaths {
		switch {
		case t.Control != "pushed":
		case t.Site == Sites[Leader]:
			found.put("pushed-leader-stall", max(t.Held.Slowest, t.Other.Slowest)/1000, t.Policy+", promises pushed")
		default:
			found.put("pushed-stall", t.Held.Slowest/1000, t.Policy+", promises pushed")
		}
	}
	return found.list()
}

// Finding is a measurement beside a statement of the paper's.
type Finding struct {
	Statement
	// Under are the policies that it was measured under, one "over" the other if it
	// compares two.
	Under string `json:"under"`
}

// findings are by the statement's ID.
type findings map[string]Finding

func (f findings) put(id string, value float64, policies ...string) {
	f[id] = Finding{Statement{Value: value}, strings.Join(policies, " over ")}
}

// minimal puts the share of an outcome's writes at the minimum of a policy, if there
// is one.
func (f findings) minimal(id string, o *Outcome, of string) {
	if of != "" {
		f[id] = Finding{Statement{Value: o.Average(minimalWrites)}, o.Policy + ", the least of " + of}
	}
}

// list has them in the paper's order and words.
func (f findings) list() []Finding {
	list := []Finding{}
	for _, s := range ThePaper.Statements {
		if found, ok := f[s.ID]; ok {
			s.Value, s.Text = found.Value, ""
			list = append(list, Finding{s, found.Under})
		}
	}
	return list
}

// pair are the runs of two policies in the same order. The paper's systems answer a write
// after three one-way delays and order the writes of a key, as ours do in key order; in
// strict order they are compared only if that was not measured.
func (m *Measured) pair(workload, a, b string) (x, y *Outcome) {
	for _, order := range []string{"/key", ""} {
		if x, y = m.run(a+order, workload), m.run(b+order, workload); x != nil && y != nil {
			return x, y
		}
	}
	return nil, nil
}

// LocalReads, MeanRead and MeanWrite are of a site.
func LocalReads(s SiteOutcome) float64    { return s.Reads.Under10 }
func minimalWrites(s SiteOutcome) float64 { return s.AtMinimum }
func MeanRead(s SiteOutcome) float64      { return s.Reads.Mean }
func MeanWrite(s SiteOutcome) float64     { return s.Writes.Mean }

// Average is the mean of something over the sites.
func (o *Outcome) Average(of func(SiteOutcome) float64) float64 {
	sum := 0.0
	for _, s := range o.Sites {
		sum += of(s)
	}
	return sum / float64(len(o.Sites))
}

// rate is a throughput's rate, 0 if it was not measured.
func (m *Measured) rate(t throughput) float64 {
	for _, r := range m.Throughput {
		if r.Policy == t.Policy && r.Asks == t.Asks && (r.What == "reads") == t.Reads {
			return r.Mean
		}
	}
	return 0
}
