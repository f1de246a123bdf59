// Package fence tests fence.Row with real databases, from Debian's packages mariadb-server
// and postgresql, at each of their isolation levels. Some transactions took their snapshot
// before another's token was committed, and some wait for each other.
//
// A database whose server is not on the machine is skipped.
package fence
