package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// table is a database with one table, which understands the three statements of Row
// and one transaction at a time.
type table struct {
	rows   map[string]int64
	mysql  bool   // ? for placeholders; rows that stay as they are do not count; a plain SELECT shows the snapshot
	race   func() // called between UPDATE and SELECT
	before map[string]int64
	locked bool   // by the transaction's UPDATE or SELECT FOR UPDATE
	name   string // of the table; "fence" if empty
	fails  string // the verb of the statement that fails
	silent bool   // the driver does not tell how many rows changed
}

func (t *table) Connect(context.Context) (driver.Conn, error) { return conn{t}, nil }
func (t *table) Driver() driver.Driver                        { return nil }

type conn struct{ t *table }

func (c conn) Close() error                              { return nil }
func (c conn) Prepare(query string) (driver.Stmt, error) { return stmt{c.t, query}, nil }

func (c conn) Begin() (driver.Tx, error) {
	c.t.before, c.t.locked = map[string]int64{}, false
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
	if s.t.name != "" {
		query = strings.ReplaceAll(query, "fence", s.t.name)
	}
	if s.t.mysql {
		for _, mark := range []string{"$1", "$2", "$3"} {
			query = strings.ReplaceAll(query, mark, "?")
		}
	}
	return s.query == query
}

var (
	errDisk  = errors.New("the disk is broken")
	errTypes = errors.New("a column has another type than the value")
)

// are reports whether arguments have the types of others.
func are(args []driver.Value, like ...any) bool {
	return slices.EqualFunc(args, like, func(a driver.Value, b any) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) })
}

func (s stmt) breaks() bool { return s.t.fails != "" && strings.HasPrefix(s.query, s.t.fails) }

func (s stmt) Exec(args []driver.Value) (driver.Result, error) {
	switch {
	case s.breaks():
		return nil, errDisk
	case s.is("UPDATE fence SET token = $1 WHERE resource = $2 AND token <= $3"):
		if !are(args, int64(0), "", int64(0)) {
			return nil, errTypes
		}
		token, name := args[0].(int64), args[1].(string)
		old, ok := s.t.rows[name]
		if !ok || old > args[2].(int64) || s.t.mysql && old == token {
			return driver.RowsAffected(0), nil
		}
		s.t.rows[name], s.t.locked = token, true
		if s.t.silent {
			return driver.ResultNoRows, nil
		}
	case s.is("INSERT INTO fence (resource, token) VALUES ($1, $2)"):
		if !are(args, "", int64(0)) {
			return nil, errTypes
		}
		name := args[0].(string)
		if _, ok := s.t.rows[name]; ok {
			return nil, errors.New("duplicate key")
		}
		s.t.rows[name], s.t.locked = args[1].(int64), true
	default:
		return nil, fmt.Errorf("syntax error: %s", s.query)
	}
	return driver.RowsAffected(1), nil
}

func (s stmt) Query(args []driver.Value) (driver.Rows, error) {
	query, current := strings.CutSuffix(s.query, " FOR UPDATE")
	if plain := (stmt{s.t, query}); !plain.is("SELECT token FROM fence WHERE resource = $1") || current && !s.t.mysql {
		return nil, fmt.Errorf("syntax error: %s", s.query)
	}
	if !are(args, "") {
		return nil, errTypes
	}
	if s.breaks() {
		return nil, errDisk
	}
	if s.t.race != nil {
		s.t.race()
	}
	shown := s.t.rows
	if s.t.mysql && !current {
		shown = s.t.before
	}
	s.t.locked = s.t.locked || current
	token, ok := shown[args[0].(string)]
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
		row := Row{MySQL: mysql}
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

// TestRowOnASnapshot has MySQL's REPEATABLE READ: a transaction's plain SELECT shows the rows as they were
// when it began, its UPDATE and SELECT FOR UPDATE show what was committed since.
func TestRowOnASnapshot(t *testing.T) {
	for _, tt := range []struct {
		name              string
		before, committed int64 // the highest token, 0 for no row
		token             uint64
		want              error
	}{
		{"a newer token was committed over ours", 5, 6, 5, ErrStale},
		{"a newer token was committed over an older one", 4, 6, 5, ErrStale},
		{"the first token is a newer one", 0, 6, 5, ErrStale},
		{"our token was committed by another transaction of ours", 4, 5, 5, nil},
		{"the first token is ours, from another transaction", 0, 5, 5, nil},
		{"an older one was committed", 3, 4, 5, nil},
		{"nothing was", 5, 5, 5, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tab := &table{rows: map[string]int64{}, mysql: true}
			if tt.before > 0 {
				tab.rows["a"] = tt.before
			}
			db := sql.OpenDB(tab)
			defer db.Close()
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			tab.rows["a"] = tt.committed // by another transaction
			err = (Row{MySQL: true}).Check(t.Context(), tx, "a", tt.token)
			if !errors.Is(err, tt.want) {
				t.Errorf("token %d, with a snapshot of %d and %d committed: got %v, want %v", tt.token, tt.before, tt.committed, err, tt.want)
			}
			if err == nil && !tab.locked {
				t.Errorf("token %d is let in, and the row is not locked: a newer token would not wait", tt.token)
			}
		})
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

// TestRowInATableOfAnotherName: all three statements go to the table that is named.
func TestRowInATableOfAnotherName(t *testing.T) {
	tab := &table{rows: map[string]int64{}, name: "guards"}
	db := sql.OpenDB(tab)
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	row := Row{Table: "guards"}
	for _, token := range []uint64{5, 8} { // the first is inserted
		if err := row.Check(t.Context(), tx, "a", token); err != nil {
			t.Errorf("token %d in a table of another name: %v", token, err)
		}
	}
	if err := row.Check(t.Context(), tx, "a", 7); !errors.Is(err, ErrStale) {
		t.Errorf("token 7 after 8: got %v, want %v", err, ErrStale)
	}
}

// TestRowWhoseStatementsFail: a check whose database fails lets nobody write, and its error says what failed.
func TestRowWhoseStatementsFail(t *testing.T) {
	for verb, want := range map[string]string{
		"UPDATE": `raise the token of "a"`,
		"SELECT": `read the token of "a"`,
		"INSERT": `first token of "a"`,
	} {
		db := sql.OpenDB(&table{rows: map[string]int64{}, fails: verb})
		defer db.Close()
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if err := (Row{}).Check(t.Context(), tx, "a", 8); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), want) {
			t.Errorf("a database whose %s fails: got %v, want %v and %q", verb, err, errDisk, want)
		}
	}
	db := sql.OpenDB(&table{rows: map[string]int64{"a": 3}, fails: "SELECT"})
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := (Row{}).Check(t.Context(), tx, "a", 8); err != nil {
		t.Errorf("the UPDATE has raised the token, which needs no SELECT: got %v", err)
	}
	db = sql.OpenDB(&table{rows: map[string]int64{"a": 3}, silent: true})
	defer db.Close()
	if tx, err = db.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := (Row{}).Check(t.Context(), tx, "a", 8); err == nil || !strings.Contains(err.Error(), "does not tell how many rows changed") {
		t.Errorf("a driver that counts no rows: got %v, want an error that says so", err)
	}
}

// TestRowTakesEveryToken: a BIGINT has room for all but the upper half of the tokens.
func TestRowTakesEveryToken(t *testing.T) {
	db := sql.OpenDB(&table{rows: map[string]int64{}})
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := (Row{}).Check(t.Context(), tx, "a", 1<<63-1); err != nil {
		t.Errorf("the greatest token that fits: %v", err)
	}
}
