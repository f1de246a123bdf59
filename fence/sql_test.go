package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// table is a database with one table, which understands the three statements of Row
// and one transaction at a time.
type table struct {
	rows   map[string]int64
	mysql  bool   // ? for placeholders; rows that stay as they are do not count
	race   func() // called between UPDATE and SELECT
	before map[string]int64
}

func (t *table) Connect(context.Context) (driver.Conn, error) { return conn{t}, nil }
func (t *table) Driver() driver.Driver                        { return nil }

type conn struct{ t *table }

func (c conn) Close() error                              { return nil }
func (c conn) Prepare(query string) (driver.Stmt, error) { return stmt{c.t, query}, nil }

func (c conn) Begin() (driver.Tx, error) {
	c.t.before = map[string]int64{}
	for k, v := range c.t.rows {
		c.t.before[k] = v
	}
	return c, nil
}

func (c conn) Commit() error   { return nil }
func (c conn) Rollback() error { c.t.rows = c.t.before; return nil }

type stmt struct {
	t     *table
	query string
}

func (s stmt) Close() error  { return nil }
func (s stmt) NumInput() int { return -1 }

func (s stmt) is(query string) bool {
	if s.t.mysql {
		for _, mark := range []string{"$1", "$2", "$3"} {
			query = strings.ReplaceAll(query, mark, "?")
		}
	}
	return s.query == query
}

func (s stmt) Exec(args []driver.Value) (driver.Result, error) {
	switch {
	case s.is("UPDATE fence SET token = $1 WHERE resource = $2 AND token <= $3"):
		token, name := args[0].(int64), args[1].(string)
		old, ok := s.t.rows[name]
		if !ok || old > args[2].(int64) || s.t.mysql && old == token {
			return driver.RowsAffected(0), nil
		}
		s.t.rows[name] = token
	case s.is("INSERT INTO fence (resource, token) VALUES ($1, $2)"):
		name := args[0].(string)
		if _, ok := s.t.rows[name]; ok {
			return nil, errors.New("duplicate key")
		}
		s.t.rows[name] = args[1].(int64)
	default:
		return nil, fmt.Errorf("syntax error: %s", s.query)
	}
	return driver.RowsAffected(1), nil
}

func (s stmt) Query(args []driver.Value) (driver.Rows, error) {
	if !s.is("SELECT token FROM fence WHERE resource = $1") {
		return nil, fmt.Errorf("syntax error: %s", s.query)
	}
	if s.t.race != nil {
		s.t.race()
	}
	token, ok := s.t.rows[args[0].(string)]
	return &rows{token, ok}, nil
}

type rows struct {
	token int64
	left  bool
}

func (r *rows) Columns() []string { return []string{"token"} }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(dest []driver.Value) error {
	if !r.left {
		return io.EOF
	}
	dest[0], r.left = r.token, false
	return nil
}

func TestRow(t *testing.T) {
	for _, mysql := range []bool{false, true} {
		tab := &table{rows: map[string]int64{}, mysql: mysql}
		db := sql.OpenDB(tab)
		defer db.Close()
		row := Row{Question: mysql}
		for _, step := range []struct {
			resource string
			token    uint64
			want     error
		}{
			{"a", 0, ErrNoToken}, {"a", 5, nil}, {"a", 5, nil}, {"a", 4, ErrStale}, {"b", 1, nil}, {"a", 9, nil}, {"a", 5, ErrStale}, {"b", 2, nil},
		} {
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			err = row.Check(t.Context(), tx, step.resource, step.token)
			if !errors.Is(err, step.want) {
				t.Errorf("mysql %v: %q token %d: got %v, want %v", mysql, step.resource, step.token, err, step.want)
			}
			if err != nil {
				err = tx.Rollback()
			} else {
				err = tx.Commit()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if tab.rows["a"] != 9 || tab.rows["b"] != 2 {
			t.Errorf("mysql %v: the table holds %v, want a 9 and b 2", mysql, tab.rows)
		}
	}
}

// TestRowRollsBack: a transaction that fails later on has not raised the token.
func TestRowRollsBack(t *testing.T) {
	tab := &table{rows: map[string]int64{"a": 3}}
	db := sql.OpenDB(tab)
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := (Row{}).Check(t.Context(), tx, "a", 8); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if tab.rows["a"] != 3 {
		t.Errorf("the token is %d after a rollback, want 3", tab.rows["a"])
	}
}

// TestRowRace: another's first token is committed between our statements.
func TestRowRace(t *testing.T) {
	tab := &table{rows: map[string]int64{}}
	tab.race = func() { tab.rows["a"] = 3 }
	db := sql.OpenDB(tab)
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := (Row{}).Check(t.Context(), tx, "a", 8); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("got %v, want to try again: the token was not raised", err)
	}
}

func TestRowErrors(t *testing.T) {
	db := sql.OpenDB(&table{rows: map[string]int64{}})
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := (Row{Table: "other"}).Check(t.Context(), tx, "a", 8); err == nil || !strings.Contains(err.Error(), `raise the token of "a": syntax error`) {
		t.Errorf("got %v, want the database's error", err)
	}
	if err := (Row{}).Check(t.Context(), tx, "a", 1<<63); err == nil || !strings.Contains(err.Error(), "does not fit a BIGINT") {
		t.Errorf("got %v, want that the token is too large", err)
	}
}
