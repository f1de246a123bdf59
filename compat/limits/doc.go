// Package limits holds a member process against docs/limits.md where a figure depends on the whole process: the memory that
// answers take which nobody reads, and how long the heaviest transactions hold others up.
package limits
