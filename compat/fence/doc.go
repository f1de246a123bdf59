// Package fence has fence.Row meet real databases, as Debian's packages mariadb-server and
// postgresql have them, at each of their isolation levels: transactions whose snapshot was
// taken before another's token was committed, and transactions that wait for each other.
//
// A database whose server is not on the machine is skipped.
package fence
