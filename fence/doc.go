// Package fence refuses, at the resource, a holder whose lease has passed to another.
//
// A lease bounds how long others wait; it cannot stop a holder that was paused in
// the middle of a write. The resource can: it remembers the highest token that it has
// seen and refuses lower ones. From the moment when a newer holder has touched the
// resource, no write of an older one gets in. The same token may come as often
// as it likes, for a holder writes more than once.
//
//	file   fence.File{Path: "ledger.token"}.Check(token)     then write, under a lock of the file's
//	SQL    fence.Row{…}.Check(ctx, tx, "ledger", token)      in the transaction that writes
//	HTTP   fence.Handler(store, handler)                     header Tenure-Token on every request that writes
//
// The check and the write must be one: between a check and a write that follows it, a newer
// holder may come and go. Row does both in one transaction. File holds a lock while the
// write is done (see File.Do). Handler refuses a request that was overtaken while it
// waited, and lets one token at a time into the handler.
//
// A newer holder should announce itself by a first write, even an empty one:
// until the resource has seen the new token it cannot know that the old one is
// over.
//
// Tokens are those of one lease name. A resource that is guarded by leases of two
// names needs two fences.
package fence
