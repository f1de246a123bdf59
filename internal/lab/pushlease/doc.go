// Package pushlease has the paper's own ways of quorum read leases, to measure beside those of
// the product (Moraru, Andersen and Kaminsky, Paxos Quorum Leases, SoCC 2014): promises that
// grantors push, with guard and grace (sections 3.5, 3.7 and 3.8, Figure 5), leases that lapse
// or former holders that are waited for when keys change hands (section 3.5), suspects that are
// planned without (section 3.7), and members that stand aside after a restart (t_wait, sections
// 3.7 and 3.8). Each is as safe as the way that it replaces, and none is better.
//
// [Ways] are the ways of a cluster; all its members have the same. [Ways.Promises] goes into
// replica.Config, in place of the promises that holders ask for, with read leases that are
// never idle. Messages are values, which a simulated network may hand over as they are.
//
// A grantor takes the place of quorumlease.Grantor, and a holder that of
// quorumlease.Holder.
package pushlease
