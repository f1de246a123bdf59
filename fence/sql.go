package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
)

// Row keeps the highest token of each resource in a row of a table:
//
//	CREATE TABLE fence (resource VARCHAR(512) PRIMARY KEY, token BIGINT NOT NULL)
//
//	UPDATE fence SET token = $1 WHERE resource = $2 AND token <= $3
//	SELECT token FROM fence WHERE resource = $1          when that changed no row
//	INSERT INTO fence (resource, token) VALUES ($1, $2)  when there is none
//
// The zero value uses that table and the placeholders of PostgreSQL and SQLite, such as $1.
// MySQL and MariaDB want the field MySQL. Two transactions that insert a resource's first row
// at the same time meet at the primary key, and one fails; it may be tried again.
type Row struct {
	// Table is the table's name, trusted to be one. Default "fence".
	Table string
	// MySQL is for MySQL and MariaDB: placeholders are ? instead of $1, and the SELECT
	// ends in FOR UPDATE. Their UPDATE sees what others have committed; a plain SELECT
	// sees the transaction's snapshot, and so an older token.
	MySQL bool
}

// Check raises the resource's highest token within the transaction that is to write
// to it, or returns an error that wraps ErrStale: roll back then. The row stays locked
// until the transaction ends, so a newer token waits for it.
//
// Every isolation level will do that the databases named above have. SQLite locks more than
// the row. PostgreSQL's "repeatable read" and "serializable" run on a snapshot and fail a
// transaction whose row was updated by another meanwhile. Another database has to do one or
// the other, and its SELECT must not show less than its UPDATE has met.
func (r Row) Check(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if token == 0 {
		return ErrNoToken
	}
	if token > 1<<63-1 {
		return fmt.Errorf("fencing token %d does not fit a BIGINT", token)
	}
	table := r.Table
	if table == "" {
		table = "fence"
	}
	n := int64(token)
	done, err := tx.ExecContext(ctx, "UPDATE "+table+" SET token = "+r.mark(1)+" WHERE resource = "+r.mark(2)+" AND token <= "+r.mark(3), n, resource, n)
	if err != nil {
		return fmt.Errorf("raise the token of %q: %w", resource, err)
	}
	if changed, err := done.RowsAffected(); err != nil {
		return fmt.Errorf("raise the token of %q: the driver does not tell how many rows changed: %w", resource, err)
	} else if changed > 0 {
		return nil
	}
	var highest int64
	err = tx.QueryRowContext(ctx, "SELECT token FROM "+table+" WHERE resource = "+r.mark(1)+r.current(), resource).Scan(&highest)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" (resource, token) VALUES ("+r.mark(1)+", "+r.mark(2)+")", resource, n)
		if err != nil {
			return fmt.Errorf("first token of %q: %w", resource, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("read the token of %q: %w", resource, err)
	}
	if highest < n {
		return fmt.Errorf("the token of %q was written by another transaction meanwhile: roll back, and try again", resource)
	}
	// An equal one is fine: MySQL does not count a row that stays as it was.
	return check(token, uint64(highest))
}

// current makes a SELECT read, and lock, the row as it was committed last.
func (r Row) current() string {
	if r.MySQL {
		return " FOR UPDATE"
	}
	return ""
}

func (r Row) mark(n int) string {
	if r.MySQL {
		return "?"
	}
	return "$" + strconv.Itoa(n)
}
