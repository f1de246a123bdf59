// Package pushlease has the paper's own ways of quorum read leases, to measure beside those of
// the product (Moraru, Andersen and Kaminsky, Paxos Quorum Leases, SoCC 2014). Grantors push
// promises, with guard and grace (sections 3.5, 3.7 and 3.8, Figure 5). When keys change hands,
// leases lapse or former holders are waited for (section 3.5). Plans leave suspects out
// (section 3.7). And members stand aside after a restart (t_wait, sections 3.7 and 3.8). Each
// is as safe as the way that it replaces, and none is better.
//
// [Ways] are the ways of a cluster; all its members have the same. [Ways.Promises] goes into
// replica.Config, in place of the promises that holders ask for, with read leases that are
// never idle. Messages are values, which a simulated network may hand over as they are.
//
// A grantor takes the place of quorumlease.Grantor, and a holder that of
// quorumlease.Holder.
package pushlease
