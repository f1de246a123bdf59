// Package backup writes a member's state as etcd's snapshots have it, and reads such files.
//
//	err := backup.Write(path, backup.State{View: view, Members: members, Index: index, Term: term})
//	content, err := backup.Read(path) // of etcd's or of ours
//	store, err := content.Store()
//
// The file is etcd's database: a bbolt file with the buckets that etcd 3.7 has. So `etcdutl snapshot
// status` tells of it, `etcdutl snapshot restore` makes a data directory of etcd's of it, and a snapshot that
// was taken of an etcd is a backup here. A snapshot that came over the API ends with the SHA-256
// of all before ([Sum]); a file copied out of a data directory has none.
//
// # The contents of the file
//
//   - key: each version that is kept, under its revision: those that are visible at the compact
//     revision, and all later ones. Its subrevision is its place among those of one revision; of versions
//     from before the compact revision, the order of keys, for nobody can tell any more.
//   - lease: each lease, with its TTL and what remains of it, in seconds.
//   - auth, authUsers, authRoles: users and roles, if there ever were any, and whether they are in force.
//   - meta: the compact revision, and the log's index and term. The format's version is etcd 3.7's.
//   - members, members_removed, cluster: for people; a restore gives a cluster new members.
//
// # Restores
//
// A state that is restored may be older than what clients have seen. [Content.Raise] makes its revision
// greater than any that they know, and has their watches begin anew (etcd-io/etcd#16028).
//
// A file of etcd's may have gaps in its history that our state cannot have: an etcd that was itself raised
// by a restore, for one. Then the history before the last gap counts as compacted; no key is lost.
package backup
