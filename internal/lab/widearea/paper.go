package widearea

// Paper is what Moraru, Andersen and Kaminsky report, Paxos Quorum Leases: Fast
// Reads Without Sacrificing Writes, SoCC 2014, section 5.
type Paper struct {
	Source string `json:"source"`
	Setup  string `json:"setup"`
	// Table2 is the share of reads below 10 ms at each site under quorum leases.
	Table2     [len(Sites)]float64 `json:"table_2"`
	Statements []Statement         `json:"statements"`
}

// Statement is a figure of the text. Measured under the same ID stands beside it.
type Statement struct {
	ID    string  `json:"id"`
	Where string  `json:"where"`
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Text  string  `json:"text"` // the figure as the paper has it
}

// ThePaper is the paper's evaluation as far as it has digits; Figures 6 to 8 have none
// beside these.
var ThePaper = Paper{
	Source: "Moraru, Andersen, Kaminsky: Paxos Quorum Leases: Fast Reads Without Sacrificing Writes. SoCC 2014, section 5",
	Setup:  "five EC2 sites, Multi-Paxos with its leader in California, writes answered after three one-way delays, leases of 2 s renewed every 0.5 s, guards of 2 s, grace of 5 s",
	Table2: [len(Sites)]float64{0.81, 0.95, 0.89, 0.89, 0.81},
	Statements: []Statement{
		{"quorum-local-reads", "Figure 6", "quorum leases, 1:1: reads below 10 ms at the site with the fewest", 0.80, "share", "over 80 %"},
		{"quorum-minimal-writes", "Figure 6", "quorum leases, 1:1: writes with the least latency, that of the leader lease", 0.70, "share", "over 70 %"},
		{"all-local-reads", "Figure 6", "every replica holds every key, 1:1: reads below 10 ms", 0.95, "share", "95 %"},
		{"all-write-ratio", "Figure 6", "every replica holds every key, 1:1: mean write over that under the leader lease", 2, "times", "2 to 3 times"},
		{"leader-read-ratio", "Figure 6", "leader lease, 1:1: mean read over that where every replica holds every key", 100, "times", "at least 100 times"},
		{"static-local-reads", "Figure 6", "two static cells, uniform keys: reads below 10 ms", 0.5, "share", "about half"},
		{"static-minimal-writes", "Figure 6", "two static cells, uniform keys: writes with the least latency", 0.5, "share", "about half"},
		{"together-read-ratio", "section 5.5", "quorum leases, 1:1: mean read of three keys that go together over that of one", 1, "times", "similar"},
		{"together-write-ratio", "section 5.5", "quorum leases, 1:1: mean write of three keys that go together over that of one", 1, "times", "similar"},
		{"apart-write-ratio", "section 5.5", "quorum leases, 1:1: mean write of three keys that are leased apart over that where every replica holds every key", 1, "times", "approaches it"},
		{"apart-ratio", "section 5.5", "quorum leases, 1:1: mean operation on such keys over that where every replica holds every key", 1, "times", "may be more"},
		{"all-read-throughput", "Figure 8", "reads a second: every replica holds every key, over all clients asking the leader", 4, "times", "4 times"},
		{"quorum-read-throughput", "Figure 8", "reads a second: quorum leases, clients aware, over every replica holding every key", 1, "times", "narrowly less"},
		{"quorum-write-throughput", "Figure 8", "writes a second: quorum leases, clients aware, over the leader lease", 0.9, "times", "10 % less"},
		{"quorum-stall", "Figure 7", "a holder dies: longest wait of a write to a key that it holds", 9, "s", "about 9 s: grace, guard and lease"},
		{"pushed-stall", "Figure 7", "the same under the paper's own protocol, with its lengths", 9, "s", "about 9 s"},
		{"pushed-leader-stall", "section 3.8", "the leader dies, under the paper's own protocol: longest wait of a write", 9, "s", "an election, or grace, guard and lease"},
	},
}
