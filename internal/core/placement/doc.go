// Package placement decides who holds read leases on which keys: the lease configurations
// of Moraru, Andersen, Kaminsky, Paxos Quorum Leases: Fast Reads Without Sacrificing
// Writes, SoCC 2014, sections 3.4, 3.9, 5.2 and 5.5. It is pure, without clock or I/O:
// counts come in, and a [Configuration] comes out.
//
// A replica that holds a key reads it from its own memory, and every write to the key waits
// until all its holders have it. So each holder makes reads there quick and writes
// everywhere slower, and there is something to decide. A planner's decision never affects
// safety: configurations are entries of the log, and any of them is safe. The reading of a
// configuration does affect safety: all members must read the same in it.
//
// # How to drive it
//
// Each replica counts what its clients do, and tells the leader every few seconds, 5 by default in package replica:
//
//	c := placement.NewCounter(placement.MaxBuckets)
//	c.Read(key)                        // a client here read, wherever the reply came from
//	c.Write(origin, keys...)           // once in the group: at its origin, or at the leader
//	c.Follow(conf)                     // when a configuration comes into force
//	send(leader, c.Take().Encode())    // some 3 bytes a key used, and 704 hot ones at most
//
// A Counter takes 200 ns a read. A replica that reads in many goroutines has some, and
// sends what each has counted.
//
// The leader plans, and proposes what has changed:
//
//	p, err := placement.NewPlanner(placement.Settings{
//		Policy: placement.Cost, Members: members, Leader: self,
//	}, inForce)                        // a new one for each leadership
//	p.RTT(a, b, rtt)                   // as measured, between each two
//	p.Down(id, true)                   // given up: holds nothing from the next plan on
//	p.Observe(from, counts)
//	if conf, changed := p.Plan(now); changed {
//		propose(conf.Encode())
//	}
//
// And everybody asks the configuration in force:
//
//	conf.Holders(key)                  // who may read it, and whom a write waits for
//	conf.HoldersOfRange(key, end)      // who holds all of it, and who some of it
//
// For the policy "static" there is no planner: [Parse] reads what people write, and
// [Configuration.Rebase] adds the leader.
//
// # What is in a configuration
//
// It divides the key space, keys that do not exist included. A key that is hot, or a
// range that is read as a range, may have a cell of its own. All other keys are in
// hash buckets, and buckets of which nothing is known are left to the default. With
// 65,536 buckets each of 100,000 keys has one for itself nearly, at a byte or two: that
// is what makes it possible to know every key, where the paper lists them.
//
// Fewer buckets have this cost, for the paper's workload (100,000 keys, Zipf 0.99, 90 %
// reads), perfect frequencies, and no cells:
//
//	buckets              each key  131,072  65,536  32,768  16,384  4,096
//	cost: mean operation  15.7 ms    16.2    16.5    17.0    17.6   18.9
//	quorum: local reads   94.2 %     93.3    92.5    91.4    89.9   86.1
//
// So there are 65,536, unless the key space is small. The configuration of a cluster
// whose habits differ by key is then some 20 to 100 KiB, and at most what
// [Configuration.Encode] says.
//
// # The policies
//
// [Quorum] is the paper's: the holders of a key are the leader and the floor(N/2) others
// that read it most. Of members that read alike, it takes those that delay writes least;
// the paper leaves that open. A key that is written and that no other member reads is the
// leader's alone. A key that nobody was seen to use has free places. All others take these
// in turn, a part of the key space each, with the members that delay writes least.
//
// [Cost] takes whatever set, the leader always in it, for which the sum over sites of
//
//	reads × round trip to the leader, but for holders, + writes × write latency
//
// is least. A replica that does not hold a key asks the leader how far the log has to be
// released, and answers itself (R29, docs/rules.md). The nearest holder could not tell it
// sooner, since the holder's answer has to be in the asker's log, and released by the
// leader's word. Where all clients ask the nearest holder themselves, [Settings] Nearest
// counts the way to that holder. Write latency is that of three one-way delays (origin,
// leader, follower, origin), as late as a majority and all holders take
// ([Distances.Write]), or of four. All sets are tried, among the leader and the seven
// others that do most.
//
// Their results on that workload, over the paper's wide area, by this package's own model
// (TestModel), as means over the sites; no read waits for a write, and frequencies are
// perfect:
//
//	reads  scheme        local reads   read      write    operation
//	50 %   leader           20 %      75.1 ms   112 ms     93.4 ms
//	       all             100 %       0.4 ms   211 ms    105.5 ms
//	       quorum           94.2 %     5.8 ms   167 ms     86.2 ms
//	       cost             90.8 %    11.5 ms   118 ms     64.8 ms
//	90 %   leader           20 %      75.1 ms   112 ms     78.7 ms
//	       all             100 %       0.4 ms   211 ms     21.4 ms
//	       quorum           94.2 %     5.8 ms   167 ms     21.9 ms
//	       cost             99.1 %     1.4 ms   144 ms     15.7 ms
//
// # Keys that are seldom seen
//
// Most keys of a Zipf distribution are read once in a long time, and that is where the
// paper's local reads end (81 to 89 %, Table 2). [Cost] has a prior: a bucket counts as if
// it had seen a few operations of the usual mix already. The usual mix is taken over buckets,
// none with more say than those few, so that a hot key does not speak for all.
// Keys that were never seen get the default, which is best for that mix: all members, when
// reads prevail. A member that would usually have read a cell five times, and has not, does
// not hold it. Holding would cost nothing as long as it lives, and make writes wait for its
// lease when it dies.
//
// # Forgetting, and not wavering
//
// Counts halve every half-life. A cell changes its holders when the saving would have
// exceeded both a price and the effect of chance: a multiple of the standard deviation of
// the saving, for operations that come at random. A tenth more or less of a round-trip time
// is not news. A planner that takes over from another begins with the configuration in
// force, and undoes for want of evidence only after four half-lives.
//
// The planner learns this of that workload at 90 % reads and 150 operations a second and
// site, with half-lives of 5 minutes, by the model. Sites are JP, CA (the leader), OR, VA,
// IRL:
//
//	        after    local reads, % by site    operation   bytes   changes in 10 s
//	cost     5 min   99.6 100 99.8 99.8 99.7    17.6 ms     5,200        91
//	        20 min   99.4 100 99.7 99.7 99.5    17.0 ms     7,400        31
//	quorum   5 min   81.3 100 89.0 89.0 81.3    26.7 ms    65,100       520
//	        12 min   85.5 100 88.3 88.3 85.5    25.7 ms    88,200       280
//
// Keys that nobody has been seen to read slow [Quorum] down. Without its turns it has,
// after 5 minutes, 75 % of the reads at JP and IRL and 85 % at OR and VA.
//
// # Keys that are used together
//
// Keys either of which is mostly written in a transaction with the other form a group of up
// to 16, which gets one set of holders (section 3.9). A range that is read as a range is
// local only at members that hold all of it, which with hash buckets means all buckets.
// Where it pays, a range gets a cell, and the operations on its keys are counted there.
// There are 32 such at most, and they do not overlap.
//
// # Assumptions and limits
//
// Per-key holders make sense only where reads of a key need not be ordered with all
// others (--read-lease-order=key); else a member holds
// the whole key space or nothing ([Configuration.Everything]).
//
// Counts are honest. One that is lost, or comes twice, makes a plan a little worse. Keys of
// more than 1,024 bytes have no cells, but buckets. Writes of whole ranges (deletes) are
// not counted. Costs are those of an idle network. They leave out queues, reads that wait
// for a write to their key, and a holder's CPU time. They also leave out the risk that each
// further holder may stall writes by its silence.
//
// # Differences from the paper
//
// Replicas send what they count (the first way of section 3.4); the implementation there
// counts at the leader what is forwarded to it, so that it never hears of local reads.
// Counts decay. Cells are buckets as well as keys. A free place among the holders goes to
// the member that delays writes least; there, to the replica with the next number. [Cost]
// is not in the paper, which says that other goals are possible.
//
// # Left out
//
// Moving the leader to where the writes are. Holders for a part of the day. Splitting
// a hot range by where it is read. Patches between configurations: an entry has
// the whole configuration.
package placement
