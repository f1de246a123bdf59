// Package holders has processes that take leases in a [world.World], and the judge of their
// tenures: the common part of the worlds of different stores.
//
// The judge stands apart and knows true time. It wants that
//
//   - no two hold at once whose claims exclude each other, by their Check at one moment;
//   - the token of an exclusive tenure is greater than that of each tenure before it, and that of
//     a shared tenure greater than that of each exclusive one before, over releases and deaths;
//   - a record that was set is read by each later holder, or a later one is;
//   - nothing is lost that was acquired when nothing was left of the faults.
package holders
