// Package auth is the state of users and roles, with etcd's semantics: names, password
// hashes, permissions, and whether they are in force. The replicated log changes it, and
// every request is judged by it.
//
//	s := auth.New()                                // revision 1, not enabled
//	s, resp, err := s.Apply(&pb.AuthUserAddRequest{Name: "root", HashedPassword: …})
//	…
//	err = s.Permit(caller, &pb.PutRequest{…}, leaseKeys)
//
// A [State] never changes. [State.Apply] returns another one, so that readers keep what
// they have, and a state of keys can be published together with the permissions that were
// in force then.
//
// # The rules
//
//	AU-1  A request is permitted only if a rule of its kind says so. A kind without a rule is
//	      denied, and so is everything while there is no state.
//	AU-2  A range is permitted if the permissions of all of the user's roles together cover it.
//	      range_end "\0" has no end, and an empty range_end means the key alone.
//	AU-3  A transaction needs the rights of all its comparisons and of all operations of both
//	      branches, at any depth.
//	AU-4  A request about a lease needs the right to write all keys that are attached to it, or
//	      to read them if it lists them. Nobody attaches a key to a lease that they may not end.
//	AU-5  A put that tells what was there before needs the right to read: prev_kv shows the
//	      value, and ignore_value whether there is one. So does a deletion with prev_kv.
//	AU-6  A request that concerns the cluster, and not keys, needs the role root.
//	AU-7  A request on keys that was authorised before the latest change of users or roles is
//	      refused as old (ErrOldRevision). Any request is, if the user was made or got another
//	      password since.
//	AU-8  While users are in force, somebody is root: the user root and its role stay.
//	AU-9  Each change counts one revision; what changes nothing counts none.
//	AU-10 A caller counts from the latest of three: when users were last switched off, when the
//	      user was made, when its password changed.
//
// # Where it differs from etcd
//
//   - AU-5 asks for the right to read with ignore_value.
//   - AU-7 also covers what only root may do: in etcd a signed token of root outlives a
//     change of root's password.
//   - Any request that needs a user needs one that exists. In etcd the name in a client
//     certificate suffices for requests that concern no key.
//   - A permission of an unknown type is refused. Two permissions that begin with the same
//     key are told apart by their ends when one of them is changed.
//   - A range whose end is not behind its key needs permission from its end to its key.
//   - There are limits: see [MaxUsers] and those beside it.
//
// # Left out
//
// No passwords and no tokens: hashes are made and compared by the caller, off this path,
// since that takes long on purpose. Time is no part of this state.
package auth
