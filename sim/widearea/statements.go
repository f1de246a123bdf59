package widearea

// statements measures what the paper states in its text, as far as the policies were
// measured that it takes.
func (m *Measured) statements() []Statement {
	leader, all := m.run("leader", Figure6.Name), m.run("all", Figure6.Name)
	quorum, static := m.run("quorum/key", Figure6.Name), m.run("static/key", Uniform.Name)
	found := map[string]float64{}
	if quorum != nil {
		least := 1.0
		for _, s := range quorum.Sites {
			least = min(least, s.Reads.Under10)
		}
		found["quorum-local-reads"] = least
		if m.MinimumOf != "" {
			found["quorum-minimal-writes"] = quorum.Average(minimalWrites)
		}
	}
	if all != nil {
		found["all-local-reads"] = all.Average(LocalReads)
	}
	if all != nil && leader != nil {
		found["all-write-ratio"] = all.Average(MeanWrite) / leader.Average(MeanWrite)
		found["leader-read-ratio"] = leader.Average(MeanRead) / all.Average(MeanRead)
	}
	if static != nil {
		found["static-local-reads"] = static.Average(LocalReads)
		if m.MinimumOf != "" {
			found["static-minimal-writes"] = static.Average(minimalWrites)
		}
	}
	if o := m.run("quorum/key", Together.Name); o != nil && quorum != nil {
		found["together-read-ratio"] = o.Average(MeanRead) / quorum.Average(MeanRead)
		found["together-write-ratio"] = o.Average(MeanWrite) / quorum.Average(MeanWrite)
	}
	if o, megastore := m.run("quorum/key", Apart.Name), m.run("all/key", Apart.Name); o != nil && megastore != nil {
		found["apart-write-ratio"] = o.Average(MeanWrite) / megastore.Average(MeanWrite)
		found["apart-ratio"] = o.Mean / megastore.Mean
	}
	ratio := func(id string, a, b Throughput) {
		if x, y := m.rate(a), m.rate(b); x > 0 && y > 0 {
			found[id] = x / y
		}
	}
	ratio("all-read-throughput", Throughput{Policy: "all", Reads: true, Asks: Anything}, Throughput{Policy: "leader", Reads: true, Asks: TheLeader})
	ratio("quorum-read-throughput", Throughput{Policy: "static/key", Reads: true, Asks: Held}, Throughput{Policy: "all/key", Reads: true, Asks: Anything})
	ratio("quorum-write-throughput", Throughput{Policy: "static/key", Asks: Held}, Throughput{Policy: "leader/key", Asks: Anything})
	for _, t := range m.Deaths {
		if t.Policy == "quorum/key" && t.Site != Sites[Leader] {
			found["quorum-stall"] = t.Held.Slowest / 1000
		}
	}
	for _, t := range m.Controls.Deaths {
		switch {
		case t.Control != "pushed":
		case t.Site == Sites[Leader]:
			found["pushed-leader-stall"] = max(t.Held.Slowest, t.Other.Slowest) / 1000
		default:
			found["pushed-stall"] = t.Held.Slowest / 1000
		}
	}
	measured := []Statement{}
	for _, s := range ThePaper.Statements {
		if v, ok := found[s.ID]; ok {
			s.Value, s.Text = v, ""
			measured = append(measured, s)
		}
	}
	return measured
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

// rate is what a throughput came to, 0 if it was not measured.
func (m *Measured) rate(t Throughput) float64 {
	for _, r := range m.Throughput {
		if r.Policy == t.Policy && r.Asks == t.Asks && (r.What == "reads") == t.Reads {
			return r.Mean
		}
	}
	return 0
}
