package kv

import "errors"

// Each of these stands for one of etcd's codes, unless it says otherwise.
var (
	// ErrCompacted: the revision is older than the history that is kept.
	ErrCompacted = errors.New("kv: revision has been compacted: read a newer one")
	// ErrFutureRevision: the revision has not happened yet.
	ErrFutureRevision = errors.New("kv: revision is in the future: read the current one or wait for it")
	// ErrEmptyKey: a request or a comparison without a key.
	ErrEmptyKey = errors.New("kv: key is empty: give at least one byte")
	// ErrKeyNotFound: ignore_value or ignore_lease for a key that does not exist,
	// or an operation of a transaction that holds no request.
	ErrKeyNotFound = errors.New("kv: key not found: put it with its value and lease first")
	// ErrValueProvided: a value beside ignore_value.
	ErrValueProvided = errors.New("kv: value given together with ignore_value: leave one out")
	// ErrLeaseProvided: a lease beside ignore_lease.
	ErrLeaseProvided = errors.New("kv: lease given together with ignore_lease: leave one out")
	// ErrInvalidSort: a sort order or target that does not exist.
	ErrInvalidSort = errors.New("kv: unknown sort order or target")
	// ErrTooManyOps: more operations in a transaction than permitted.
	ErrTooManyOps = errors.New("kv: too many operations in one transaction: split it")
	// ErrDuplicateKey: one branch of a transaction puts a key twice, or puts and
	// deletes it.
	ErrDuplicateKey = errors.New("kv: key is changed twice in one branch of a transaction: keep one change")
	// ErrLeaseNotFound: the lease was never granted, was revoked or has expired.
	ErrLeaseNotFound = errors.New("kv: lease not found: grant a new one")
	// ErrLeaseExists: the id of a new lease is taken.
	ErrLeaseExists = errors.New("kv: lease already exists: choose another id")
	// ErrLeaseTTLTooLarge: a time-to-live above [MaxLeaseTTL].
	ErrLeaseTTLTooLarge = errors.New("kv: lease time-to-live is above 9,000,000,000 seconds")
)

// These are not etcd's.
var (
	// ErrStaleView: history that the View needs to answer at its own revision was
	// reclaimed after a compaction. Take a newer View and try again.
	ErrStaleView = errors.New("kv: view is older than the history that was reclaimed: take a newer view")
	// ErrNoState: the View is the zero one, of no state.
	ErrNoState = errors.New("kv: there is no state to read yet: try again")
	// errNotReadOnly: [View.Txn] was given a transaction that writes.
	errNotReadOnly = errors.New("kv: transaction writes: apply it to the store, not to a view")
	// errSnapshotCorrupt: a snapshot is cut short, damaged or inconsistent.
	errSnapshotCorrupt = errors.New("kv: snapshot is corrupt: take another copy")
	// errSnapshotVersion: a snapshot of a format that this program does not know.
	errSnapshotVersion = errors.New("kv: snapshot has an unknown format version: use the program that wrote it, or a newer one")
)
