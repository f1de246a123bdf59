package memberworld

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Accounts hold money, and transactions move it from one to another. Together they always have
// accounts × each.
const (
	accounts = 3
	each     = 100
)

// account is the key of one.
func account(i int) string { return fmt.Sprintf("a/%d", i) }

// balance is what one account was seen to have, and the revision that made it so; 0 and each if
// nothing has touched it.
type balance struct {
	rev   int64
	value string
}

// statement is what one read of all accounts showed.
type statement struct {
	began, ended time.Duration
	of           [accounts]balance
}

func (s statement) String() string {
	return fmt.Sprintf("from %v to %v: %+v", s.began, s.ended, s.of)
}

// transfer is one that was acknowledged.
type transfer struct {
	ended    time.Duration
	rev      int64
	from, to int
}

func (t transfer) String() string {
	return fmt.Sprintf("from account %d to %d at revision %d, answered at %v", t.from, t.to, t.rev, t.ended)
}

// ledger knows what clients were told of the accounts.
type ledger struct {
	mu         sync.Mutex
	statements []statement
	transfers  []transfer
}

// accountant is a client that reads all accounts at once, and moves money between two of them if
// they are still as it has read them.
func (c *cluster) accountant(number int) {
	name := fmt.Sprintf("a%d", number)
	r := c.w.Rand("client " + name)
	cl := c.client(name, c.hosts[number%c.spec.Members])
	defer cl.Close()
	for !c.resting() {
		st, err := c.statement(cl)
		if err != nil {
			c.w.Trace.Add("%s: %v", name, err)
		} else if r.IntN(2) == 0 {
			from := r.IntN(accounts)
			c.move(cl, st, from, (from+1+r.IntN(accounts-1))%accounts, 1+r.IntN(9))
		}
		c.pause(time.Duration(r.Int64N(int64(c.spec.Pace))))
	}
}

// statement reads all accounts.
func (c *cluster) statement(cl *clientv3.Client) (st statement, err error) {
	ctx, cancel := within(4 * time.Second)
	defer cancel()
	st.began = c.w.Elapsed()
	resp, err := cl.Get(ctx, "a/", clientv3.WithPrefix())
	if err != nil {
		return st, err
	}
	st.ended = c.w.Elapsed()
	for i := range st.of {
		st.of[i].value = strconv.Itoa(each)
	}
	for _, kv := range resp.Kvs {
		i, err := strconv.Atoi(string(kv.Key[len("a/"):]))
		if err != nil || i < 0 || i >= accounts {
			c.w.Fail("there is an account %q that nobody has made", kv.Key)
			return st, nil
		}
		st.of[i] = balance{kv.ModRevision, string(kv.Value)}
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	c.ledger.statements = append(c.ledger.statements, st)
	return st, nil
}

// move moves an amount, if both accounts are as the statement says.
func (c *cluster) move(cl *clientv3.Client, st statement, from, to, amount int) {
	ctx, cancel := within(4 * time.Second)
	defer cancel()
	has := func(i int) int { n, _ := strconv.Atoi(st.of[i].value); return n }
	is := func(i int) clientv3.Cmp { return clientv3.Compare(clientv3.ModRevision(account(i)), "=", st.of[i].rev) }
	resp, err := cl.Txn(ctx).If(is(from), is(to)).Then(
		clientv3.OpPut(account(from), strconv.Itoa(has(from)-amount)),
		clientv3.OpPut(account(to), strconv.Itoa(has(to)+amount)),
	).Commit()
	if err != nil || !resp.Succeeded {
		return
	}
	c.w.Count("transfers", 1)
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	c.ledger.transfers = append(c.ledger.transfers, transfer{c.w.Elapsed(), resp.Header.Revision, from, to})
}

// audit judges all statements by the log: each balance is one that was written there, and a
// statement shows both sides of a transfer, or neither. It shows each transfer that was acknowledged
// before it was asked for, and nothing older than an earlier statement.
func (l *ledger) audit(log []event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	touched := map[int64][]event{} // the accounts that a revision changes
	for _, e := range log {
		if len(e.key) > 2 && e.key[:2] == "a/" {
			touched[e.rev] = append(touched[e.rev], e)
		}
	}
	for _, t := range l.transfers {
		if got := touched[t.rev]; len(got) != 2 || got[0].key != account(t.from) || got[1].key != account(t.to) {
			return fmt.Errorf("the transfer %v was acknowledged, and the log has %+v there", t, got)
		}
	}
	for _, st := range l.statements {
		sum := 0
		for i, b := range st.of {
			n, err := strconv.Atoi(b.value)
			if err != nil {
				return fmt.Errorf("account %d has %q: %w", i, b.value, err)
			}
			sum += n
			if b.rev == 0 {
				continue
			}
			sides := touched[b.rev]
			if !slices.ContainsFunc(sides, func(e event) bool { return e.key == account(i) && e.value == b.value }) {
				return fmt.Errorf("a statement has %+v for account %d, and the log has %+v there", b, i, sides)
			}
			for _, e := range sides {
				if o, _ := strconv.Atoi(e.key[2:]); st.of[o].rev < b.rev {
					return fmt.Errorf("the statement %v shows one side of the transfer at revision %d, and not that of account %d", st, b.rev, o)
				}
			}
		}
		if sum != accounts*each {
			return fmt.Errorf("the statement %v has %d in all, want %d", st, sum, accounts*each)
		}
	}
	return l.inTime()
}

// inTime judges that statements show the transfers that were over when they were asked for.
func (l *ledger) inTime() error {
	type fact struct {
		at  time.Duration
		of  [accounts]int64 // revisions that must be seen from then on; 0 where it says nothing
		why fmt.Stringer
	}
	var facts []fact
	for _, t := range l.transfers {
		f := fact{at: t.ended, why: t}
		f.of[t.from], f.of[t.to] = t.rev, t.rev
		facts = append(facts, f)
	}
	for _, st := range l.statements {
		f := fact{at: st.ended, why: st}
		for i, b := range st.of {
			f.of[i] = b.rev
		}
		facts = append(facts, f)
	}
	slices.SortStableFunc(facts, func(a, b fact) int { return cmp.Compare(a.at, b.at) })
	asked := slices.SortedFunc(slices.Values(l.statements), func(a, b statement) int { return cmp.Compare(a.began, b.began) })
	var least [accounts]fact
	for _, st := range asked {
		for len(facts) > 0 && facts[0].at < st.began {
			for i := range least {
				if facts[0].of[i] > least[i].of[i] {
					least[i] = facts[0]
				}
			}
			facts = facts[1:]
		}
		for i, b := range st.of {
			if b.rev < least[i].of[i] {
				return fmt.Errorf("the statement %v shows account %d as it was before this, which was over: %v", st, i, least[i].why)
			}
		}
	}
	return nil
}
