// Package tenure is the contract of a lease.
package tenure
