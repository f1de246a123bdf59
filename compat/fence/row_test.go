package fence

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/fence"
)

var levels = []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

func TestMariaDB(t *testing.T) {
	meet(t, mariadb(t), fence.Row{MySQL: true}, levels)
}

func TestPostgreSQL(t *testing.T) {
	meet(t, postgres(t), fence.Row{}, levels)
}

func meet(t *testing.T, db *sql.DB, row fence.Row, levels []sql.IsolationLevel) {
	b := &base{db: db, row: row}
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			b := *b
			b.level = level
			t.Run("snapshots", b.snapshots)
			t.Run("a newer token waits", b.waits)
			t.Run("many at once", b.crowd)
		})
	}
}

// base is a database at a level.
type base struct {
	db    *sql.DB
	row   fence.Row
	level sql.IsolationLevel
}

func (b *base) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := b.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: b.level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// commit raises a resource's token in a transaction of its own.
func (b *base) commit(t *testing.T, resource string, token uint64) {
	t.Helper()
	tx := b.begin(t)
	if err := b.row.Check(t.Context(), tx, resource, token); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func (b *base) highest(t *testing.T, resource string) (token uint64) {
	t.Helper()
	err := b.db.QueryRow("SELECT token FROM fence WHERE resource = '" + resource + "'").Scan(&token)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// snapshots: a transaction looks at the database, another one commits a token, and the first
// one checks its own.
func (b *base) snapshots(t *testing.T) {
	for i, tt := range []struct{ before, committed, token uint64 }{
		{5, 6, 5}, {4, 6, 5}, {0, 6, 5}, {4, 5, 5}, {3, 4, 5}, {0, 5, 5}, {5, 0, 5}, {5, 0, 4}, {6, 0, 5}, {0, 0, 5},
	} {
		t.Run(fmt.Sprintf("%d then %d", tt.before, tt.committed), func(t *testing.T) {
			resource := fmt.Sprintf("%v-%d", b.level, i)
			if tt.before > 0 {
				b.commit(t, resource, tt.before)
			}
			tx := b.begin(t)
			// Another row of the table: at the highest level of MariaDB a look at ours would lock it.
			var n int
			if err := tx.QueryRow("SELECT count(*) FROM fence WHERE resource = 'none'").Scan(&n); err != nil {
				t.Fatal(err)
			}
			if tt.committed > 0 {
				b.commit(t, resource, tt.committed)
			}
			err := b.row.Check(t.Context(), tx, resource, tt.token)
			want := max(tt.before, tt.committed)
			switch {
			case tt.token < want && err == nil:
				t.Errorf("token %d is let in after %d was committed", tt.token, want)
			case tt.token < want && !errors.Is(err, fence.ErrStale):
				t.Logf("token %d after %d fails with %v", tt.token, want, err)
			case tt.token >= want && err != nil && (tt.committed == 0 || b.level < sql.LevelRepeatableRead):
				t.Errorf("token %d after %d: %v", tt.token, want, err)
			case tt.token >= want && err != nil:
				t.Logf("token %d after %d has to be tried again: %v", tt.token, want, err)
			case err == nil:
				want = max(want, tt.token)
			}
			if err != nil {
				err = tx.Rollback()
			} else {
				err = tx.Commit()
			}
			if err != nil {
				t.Fatal(err)
			}
			if want == 0 {
				return
			}
			if got := b.highest(t, resource); got != want {
				t.Errorf("the highest token is %d, want %d", got, want)
			}
		})
	}
}

// waits: a transaction that was let in keeps newer tokens out until it ends, whether it raised
// the token or found its own there.
func (b *base) waits(t *testing.T) {
	for _, before := range []uint64{4, 5} {
		resource := fmt.Sprintf("%v-waits-%d", b.level, before)
		b.commit(t, resource, before)
		tx := b.begin(t)
		if err := b.row.Check(t.Context(), tx, resource, 5); err != nil {
			t.Fatal(err)
		}
		newer := b.begin(t)
		let := make(chan error, 1)
		go func() { let <- b.row.Check(t.Context(), newer, resource, 6) }()
		select {
		case err := <-let:
			t.Errorf("token 6 is answered during a transaction under token 5: %v", err)
			continue
		case <-time.After(200 * time.Millisecond):
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-let; err != nil && b.level < sql.LevelRepeatableRead {
			t.Errorf("token 6 after the transaction under token 5: %v", err)
		}
		if err := newer.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

// crowd: transactions under many tokens write a log in the same transaction; they must
// commit in the order of their tokens.
func (b *base) crowd(t *testing.T) {
	name := fmt.Sprintf("log_%d", b.level)
	resource := fmt.Sprintf("%v-crowd", b.level)
	if _, err := b.db.Exec("CREATE TABLE " + name + " (at INT PRIMARY KEY, token BIGINT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	b.commit(t, resource, 1)
	if _, err := b.db.Exec("INSERT INTO " + name + " VALUES (0, 1)"); err != nil {
		t.Fatal(err)
	}
	// write takes the next place in the log, which has a primary key: a lost update is an error.
	write := func(token uint64) error {
		tx, err := b.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: b.level})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := b.row.Check(t.Context(), tx, resource, token); err != nil {
			return err
		}
		if _, err := tx.Exec(fmt.Sprintf("INSERT INTO %s SELECT max(at) + 1, %d FROM %s", name, token, name)); err != nil {
			return err
		}
		return tx.Commit()
	}
	const writers, each = 6, 30
	done := make(chan bool)
	for w := range writers {
		go func() {
			defer func() { done <- true }()
			for i := range each {
				_ = write(uint64(2 + (i*writers+w*7)/3)) // stale, deadlocked, or let in
			}
		}()
	}
	for range writers {
		<-done
	}
	rows, err := b.db.Query("SELECT token FROM " + name + " ORDER BY at")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var last, n uint64
	for rows.Next() {
		var token uint64
		if err := rows.Scan(&token); err != nil {
			t.Fatal(err)
		}
		if token < last {
			t.Errorf("write %d is under token %d, and the one before under %d", n, token, last)
		}
		last = token
		n++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if n < 5 {
		t.Errorf("%d transactions were let in, want some more", n)
	}
}
