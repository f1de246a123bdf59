package flease

// Rank orders the operations of the paper's register: k of section 3.2, a time and a
// process (3.5). Ballot is the same in one word; the product uses that.
type Rank struct {
	Time Time
	Proc int
	// Luck is the random value of section 3.6, for Fuzzy.
	Luck int
}

// Order compares two ranks: negative, zero or positive as a is less than, equal to or
// greater than b.
type Order func(a, b Rank) int

// Strict is the lexicographic order.
func Strict(a, b Rank) int {
	switch {
	case a.Time != b.Time:
		return int(a.Time - b.Time)
	case a.Proc != b.Proc:
		return a.Proc - b.Proc
	}
	return a.Luck - b.Luck
}

// Fuzzy is the comparison of section 3.6: times within ε count as equal, and luck and the
// process decide. It is not transitive and so no order (E1); it is here to show that.
func Fuzzy(eps Time) Order {
	return func(a, b Rank) int {
		if d := a.Time - b.Time; d > eps || -d > eps {
			return int(d)
		}
		if a.Luck != b.Luck {
			return a.Luck - b.Luck
		}
		return a.Proc - b.Proc
	}
}

// Lambda is a lease λ = (p, t) of section 3.1.
type Lambda struct {
	Proc  int
	Until Time
}

// Register is a process's part of Algorithm 1, the acceptor: readi, writei and vi. Nil
// pointers are the paper's 0 and ⊥.
type Register struct {
	Order       Order
	read, write *Rank
	value       *Lambda
}

// Read is `upon receive (READ,k)`: ackREAD with k' and v, or nackREAD.
func (r *Register) Read(k Rank) (ack bool, at *Rank, v *Lambda) {
	if r.atLeast(r.write, k, 0) || r.atLeast(r.read, k, 0) {
		return false, nil, nil
	}
	r.read = &k
	return true, r.write, r.value
}

// Write is `upon receive (WRITE,k,v)`: ackWRITE or nackWRITE.
func (r *Register) Write(k Rank, v *Lambda) (ack bool) {
	if r.atLeast(r.write, k, 1) || r.atLeast(r.read, k, 1) {
		return false
	}
	r.write, r.value = &k, v
	return true
}

// atLeast reports whether a is greater than k by least or more.
func (r *Register) atLeast(a *Rank, k Rank, least int) bool {
	return a != nil && r.Order(*a, k) >= least
}
