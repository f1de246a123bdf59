package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// fault is a thing the nemesis does.
type fault int

const (
	killLeader fault = iota
	killFollower
	killAll
	stopLeader
	stopFollower
	stopHolder
	killHolder
	upgrade // not drawn: see upgrades
)

func (f fault) String() string {
	return [...]string{
		"kill -9 the leader", "kill -9 a follower", "kill -9 all",
		"SIGSTOP the leader", "SIGSTOP a follower", "SIGSTOP a holder", "kill -9 a holder",
		"upgrade a member",
	}[f]
}

// attack is a fault at a time, that is undone (started again, resumed) later.
type attack struct {
	Wait  time.Duration // since the last was undone
	Fault fault
	Last  time.Duration // until it is undone
	Pick  int           // which follower, holder or member
}

func (a attack) String() string {
	return fmt.Sprintf("after %v %v, number %d, for %v", a.Wait, a.Fault, a.Pick, a.Last)
}

// schedule draws attacks that take about the given time. Short stops are
// shorter than an election, long ones longer than the TTL.
func schedule(seed uint64, total time.Duration) (attacks []attack) {
	random := rand.New(rand.NewPCG(seed, 1))
	ms := func(from, to int) time.Duration { return time.Duration(from+random.IntN(to-from)) * time.Millisecond }
	beyondTTL := func() time.Duration { return holderTTL*time.Second + ms(200, 2500) }
	for sum := time.Duration(0); sum < total; {
		a := attack{Wait: ms(200, 1500), Fault: fault(random.IntN(int(upgrade))), Pick: random.IntN(100)}
		switch a.Fault {
		case stopLeader, stopFollower:
			a.Last = ms(100, 1200)
			if random.IntN(2) == 0 {
				a.Last = beyondTTL()
			}
		case stopHolder:
			a.Last = beyondTTL()
		case killHolder:
		default:
			a.Last = ms(0, 3000)
		}
		attacks = append(attacks, a)
		sum += a.Wait + a.Last
	}
	return attacks
}

// upgrades puts the upgrade of each member among the attacks, spread over them all, in an order
// that the seed draws: before the first and after the last of them the attacks go on.
func upgrades(seed uint64, attacks []attack, members int) (all []attack) {
	order := rand.New(rand.NewPCG(seed, 2)).Perm(members)
	for i, a := range attacks {
		for done := members - len(order); len(order) > 0 && i >= (done+1)*len(attacks)/(members+1); done++ {
			all = append(all, attack{Wait: a.Wait, Fault: upgrade, Pick: order[0]})
			order = order[1:]
		}
		all = append(all, a)
	}
	return all
}

// nemesis carries the attacks out.
type nemesis struct {
	cluster *server.Cluster
	holders *holders
	newer   string // the program that a member runs once it is upgraded
}

func (n *nemesis) run(ctx context.Context, attacks []attack) error {
	for _, a := range attacks {
		time.Sleep(a.Wait)
		if err := n.attack(ctx, a); err != nil {
			return fmt.Errorf("%v: %w", a, err)
		}
	}
	return nil
}

func (n *nemesis) attack(ctx context.Context, a attack) error {
	switch a.Fault {
	case stopHolder:
		n.holders.signal(a.Pick, syscall.SIGSTOP)
		time.Sleep(a.Last)
		n.holders.signal(a.Pick, syscall.SIGCONT)
		return nil
	case killHolder:
		return n.holders.replace(a.Pick)
	case killAll:
		n.cluster.Stop()
		time.Sleep(a.Last)
		return n.cluster.Restart(ctx)
	case upgrade:
		m := n.cluster.Members[a.Pick]
		if !m.Terminate() {
			return fmt.Errorf("%s does not end when it is told to", m.Name)
		}
		m.Upgrade(n.newer)
		return m.Start(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	leader, err := n.cluster.Leader(ctx)
	if err != nil {
		return err
	}
	victim := n.cluster.Members[leader]
	if a.Fault == killFollower || a.Fault == stopFollower {
		victim = n.cluster.Members[(leader+1+a.Pick%2)%len(n.cluster.Members)]
	}
	if a.Fault == killLeader || a.Fault == killFollower {
		victim.Kill()
		time.Sleep(a.Last)
		return victim.Start(ctx)
	}
	victim.Pause()
	time.Sleep(a.Last)
	victim.Resume()
	return nil
}
