// Package abcast composes consensus and leases without clocks: [Consensus] is package
// fastct over package asynclease.
package abcast
