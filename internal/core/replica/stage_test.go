package replica

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// stage is a cluster of three that does as a script says. Writes are durable and
// entries applied at once; messages wait until they are delivered.
type stage struct {
	t       *testing.T
	now     machine.Mono
	members []*member
	wire    []machine.Envelope
	applied uint64 // the highest index of which was told
	said    []string
	reads   ReadLeases
}

type member struct {
	id       machine.NodeID
	boot     uint64
	r        *Replica
	a        *Applier
	log      Log
	nextID   uint64
	paused   bool
	cut      bool
	stalled  bool
	inbox    []any
	queue    []any // for the Applier
	readNext uint64
}

func newStage(t *testing.T) *stage { return newStageOf(t, ReadLeases{}) }

func newStageOf(t *testing.T, reads ReadLeases) *stage {
	s := &stage{t: t, now: machine.Mono(time.Hour), reads: reads}
	for id := machine.NodeID(1); id <= 3; id++ {
		m := &member{id: id, log: Genesis([]machine.NodeID{1, 2, 3})}
		s.members = append(s.members, m)
		s.boot(m)
	}
	return s
}

func (s *stage) boot(m *member) {
	m.boot++
	m.nextID, m.readNext, m.inbox, m.queue = 0, 0, nil, nil
	m.a = NewApplier(m.id, m.boot)
	m.a.Found(FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}, {ID: 3}}))
	r, err := New(Config{
		ID: m.id, Boot: m.boot, Tick: 100 * time.Millisecond, ElectionTicks: 10,
		Log: m.log, Restored: m.a.Restored(), ReadLeases: s.reads,
	}, machine.Now{Mono: s.now})
	if err != nil {
		s.t.Fatal(err)
	}
	m.r = r
	s.ready(m)
}

func (s *stage) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *stage) member(arg string) *member {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 1 || n > len(s.members) {
		s.t.Fatalf("no member %q", arg)
	}
	return s.members[n-1]
}

// do runs one command and returns what happened.
func (s *stage) do(command string) []string {
	s.said = nil
	args := strings.Fields(command)
	if len(args) < 2 {
		args = append(args, "0")
	}
	number := func(i int) int64 {
		n, err := strconv.ParseInt(args[i], 10, 64)
		if err != nil {
			s.t.Fatalf("%s: %v", command, err)
		}
		return n
	}
	switch args[0] {
	case "elect": // a member, by having it campaign at once
		m := s.member(args[1])
		if err := m.r.raft.Campaign(); err != nil {
			s.t.Fatal(err)
		}
		s.ready(m)
		s.deliver(true)
	case "put": // member key value [lease]
		req := &pb.PutRequest{Key: []byte(args[2]), Value: []byte(args[3])}
		if len(args) > 4 {
			req.Lease = number(4)
		}
		s.propose(s.member(args[1]), req)
	case "grant": // member lease seconds
		s.propose(s.member(args[1]), &pb.LeaseGrantRequest{ID: number(2), TTL: number(3)})
	case "revoke": // member lease
		s.propose(s.member(args[1]), &pb.LeaseRevokeRequest{ID: number(2)})
	case "read": // member
		m := s.member(args[1])
		m.readNext++
		s.step(m, Read{Number: m.readNext})
	case "renew", "look": // member lease
		m := s.member(args[1])
		m.nextID++
		s.step(m, AskLease{ID: m.nextID, Lease: number(2), Renew: args[0] == "renew"})
	case "deliver": // all messages, and what follows from them
		s.deliver(true)
	case "once": // all messages that wait now, and nothing that follows
		s.deliver(false)
	case "lose": // all messages that wait
		for _, env := range s.wire {
			s.tell(env, "lost: ")
		}
		s.wire = nil
	case "pass": // time, in steps of a tick, with all messages delivered
		d, err := time.ParseDuration(args[1])
		if err != nil {
			s.t.Fatal(err)
		}
		for end := s.now.Add(d); s.now < end; {
			s.now = min(end, s.now.Add(20*time.Millisecond))
			for _, m := range s.members {
				s.step(m, labstage.Wake{})
			}
			s.deliver(true)
		}
	case "pause": // member: it takes no part, but messages wait for it
		s.member(args[1]).paused = true
	case "wake": // member
		m := s.member(args[1])
		m.paused = false
		for _, in := range m.inbox {
			labstage.Feed(m.r, machine.Now{Mono: s.now}, in)
		}
		m.inbox = nil
		s.ready(m)
	case "cut": // member: all to and from it is lost
		s.member(args[1]).cut = true
	case "mend": // member
		s.member(args[1]).cut = false
	case "stall": // member: its Applier stands still
		s.member(args[1]).stalled = true
	case "resume": // member
		m := s.member(args[1])
		m.stalled = false
		s.apply(m)
	case "kill", "hide": // member: the others see its connections close
		m := s.member(args[1])
		m.cut, m.paused = true, true
		for _, o := range s.members {
			if o != m {
				s.step(o, Down{Node: m.id})
			}
		}
	case "restart": // member
		m := s.member(args[1])
		m.cut, m.paused = false, false
		s.boot(m)
	case "leases": // of a member
		for _, c := range s.member(args[1]).a.leaseList() {
			s.say("lease %d of %d s, checkpoint %d ms", c.ID, c.TTL, c.Checkpoint)
		}
		if len(s.said) == 0 {
			s.say("none")
		}
	default:
		s.t.Fatalf("unknown command %q", command)
	}
	return s.said
}

func (s *stage) propose(m *member, req proto.Message) {
	body, err := EncodeRequest(req)
	if err != nil {
		s.t.Fatal(err)
	}
	m.nextID++
	s.step(m, Propose{ID: m.nextID, Body: body})
}

func (s *stage) step(m *member, input any) {
	if m.paused {
		if input != (labstage.Wake{}) {
			m.inbox = append(m.inbox, input)
		}
		return
	}
	labstage.Feed(m.r, machine.Now{Mono: s.now}, input)
	s.ready(m)
}

// ready is the driver's part.
func (s *stage) ready(m *member) {
	rd := m.r.Ready()
	s.wire = append(s.wire, rd.Sends...)
	for _, p := range rd.Persists {
		s.write(m, p.Record.(Record))
	}
	for _, out := range rd.Outcomes {
		s.outcome(m, out)
	}
	for _, p := range rd.Persists {
		for _, env := range p.Then {
			if env.To == m.id {
				s.step(m, env)
			} else {
				s.wire = append(s.wire, env)
			}
		}
	}
}

// write keeps what a member's disk would.
func (s *stage) write(m *member, rec Record) {
	for _, e := range rec.Entries {
		if n := len(m.log.Entries); n > 0 {
			m.log.Entries = m.log.Entries[:e.GetIndex()-m.log.Entries[0].GetIndex()]
		}
		m.log.Entries = append(m.log.Entries, e)
	}
	if rec.HardState != nil {
		m.log.HardState = rec.HardState
	}
}

func (s *stage) outcome(m *member, out any) {
	switch out := out.(type) {
	case Committed:
		m.queue = append(m.queue, out.Entries)
		s.apply(m)
	case ReadReady:
		s.say("%d: reads up to %d may be served from %d", m.id, out.Number, out.Index)
	case AnswerLease:
		if out.TTL == 0 {
			s.say("%d: #%d lease %d is unknown", m.id, out.ID, out.Lease)
		} else {
			s.say("%d: #%d lease %d has %d of %d ms", m.id, out.ID, out.Lease, out.Remaining, out.TTL)
		}
	case Dropped:
		s.say("%d: %v given up, ambiguous %v", m.id, out.IDs, out.Ambiguous)
	case LeaderChanged:
		if out.Leader != 0 {
			s.say("%d: follows %d in term %d", m.id, out.Leader, out.Term)
		}
	case SendSnapshot:
		s.say("%d: a snapshot of entry %d for %d", m.id, out.Message.GetSnapshot().GetMetadata().GetIndex(), out.To)
	case Released, ReadLease: // of read leases: nobody reads here
	default:
		s.t.Fatalf("unexpected outcome %T", out)
	}
}

func (s *stage) apply(m *member) {
	for len(m.queue) > 0 && !m.stalled {
		entries := m.queue[0].([]*raftpb.Entry)
		m.queue = m.queue[1:]
		for _, e := range entries {
			if err := m.a.Apply(e); err != nil {
				s.t.Fatal(err)
			}
			if e.GetIndex() > s.applied {
				s.applied = e.GetIndex()
				s.say("entry %d, term %d: %s", e.GetIndex(), e.GetTerm(), entryText(e))
			}
		}
		applied, results := m.a.Take()
		s.step(m, applied)
		for _, r := range results {
			if r.Err != nil {
				s.say("%d: #%d %v", m.id, r.ID, r.Err)
			} else {
				s.say("%d: #%d done", m.id, r.ID)
			}
		}
	}
}

// deliver hands over what is on the wire; all of it, or what is there now.
func (s *stage) deliver(all bool) {
	for n := len(s.wire); len(s.wire) > 0 && (all || n > 0); n-- {
		if n < -100_000 {
			s.t.Fatalf("members send each other messages without end, and no time passes: %T to member %d is next", s.wire[0].Body, s.wire[0].To)
		}
		env := s.wire[0]
		s.wire = s.wire[1:]
		to := s.members[env.To-1]
		if to.cut || s.members[env.From-1].cut {
			continue
		}
		s.tell(env, "")
		p, err := EncodeBody(env.Body)
		if err != nil {
			s.t.Fatal(err)
		}
		if env.Body, err = DecodeBody(p); err != nil {
			s.t.Fatal(err)
		}
		s.step(to, env)
	}
}

// tell mentions the messages that are not raft's everyday ones.
func (s *stage) tell(env machine.Envelope, how string) {
	text := ""
	switch m := env.Body.(type) {
	case forward:
		text = fmt.Sprintf("forward %d for term %d", m.Seq, m.Term)
	case refused:
		text = fmt.Sprintf("refused %d of term %d", m.Seq, m.Term)
	case readAsk:
		text = "read, please"
	case readAnswer:
		text = fmt.Sprintf("read from %d on", m.Index)
	case leaseAsks:
		text = fmt.Sprintf("%d asks", len(m.Asks))
	case leaseAnswers:
		text = fmt.Sprintf("%d answers", len(m.Answers))
	case quorumlease.News:
		text = fmt.Sprintf("released up to %d", m.Released)
	case announced:
		if m.GetType() != raftpb.MsgHeartbeat || len(m.GetContext()) == 0 {
			return
		}
		text = "confirm, please"
	case *raftpb.Message, reported:
		return
	default:
		text = fmt.Sprintf("%+v", m)
	}
	s.say("%s%d>%d %s", how, env.From, env.To, text)
}

func entryText(e *raftpb.Entry) string {
	if len(e.GetData()) == 0 {
		return "a new leader"
	}
	b, err := decodeBatch(e.GetData())
	if err != nil {
		return err.Error()
	}
	if b.Term != e.GetTerm() {
		return fmt.Sprintf("void, it was for term %d", b.Term)
	}
	var parts []string
	for _, r := range b.Requests {
		kind, m, err := decodeRequest(r.Body)
		if err != nil {
			return err.Error()
		}
		switch m := m.(type) {
		case *pb.PutRequest:
			parts = append(parts, fmt.Sprintf("put %s=%s", m.Key, m.Value))
		case *pb.LeaseGrantRequest:
			parts = append(parts, fmt.Sprintf("grant %d", m.ID))
		case *pb.LeaseRevokeRequest:
			parts = append(parts, fmt.Sprintf("revoke %d", m.ID))
		case *pb.LeaseCheckpointRequest:
			for _, c := range m.Checkpoints {
				switch {
				case kind == kindExpire:
					parts = append(parts, fmt.Sprintf("expire %d", c.ID))
				case c.Remaining_TTL == 0:
					parts = append(parts, fmt.Sprintf("remove the checkpoint of %d", c.ID))
				default:
					parts = append(parts, fmt.Sprintf("checkpoint %d at %d ms", c.ID, c.Remaining_TTL))
				}
			}
		}
	}
	return fmt.Sprintf("from %d: %s", b.From, strings.Join(parts, ", "))
}
