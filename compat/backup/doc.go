// Package backup has tests that carry a state from etcd to Tenure and back in snapshots, by the tools of
// both: what one has saved, the other restores.
package backup
