package replica

import (
	"bufio"
	"encoding/binary"

	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/wire"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// errAlarmsUnknown: see admitAlarm.
var errAlarmsUnknown = status.Error(codes.FailedPrecondition, "tenure: not all members know alarms: start each with a version that does, and try again when all are connected")

// asksAlarm reports whether a request asks for an alarm to be raised or disarmed.
func asksAlarm(requests []Propose) bool {
	return len(requests) > 0 && len(requests[0].Body) > 0 && requests[0].Body[0] == kindAlarm
}

// admitAlarm decides about a batch that changes an alarm, as admitUsers does about users (AL-5).
func (r *Replica) admitAlarm(term uint64, entry []byte, requests []Propose) verdict {
	if !r.alarmsUsed && !r.levels.all(r.reads.everyone, r.cfg.ID, alarmLevel) {
		if r.now.Sub(r.leadership.since) < r.cfg.electionTimeout() {
			return notNow // they may be about to say so
		}
		return alarmsUnknown
	}
	if !r.append(term, entry, requests) {
		return notNow
	}
	return accepted
}

// Alarms returns the alarms, as they are at Index.
func (a *Applier) Alarms() *alarm.State { return a.alarms }

// alarmed returns why a request is refused while there are alarms (AL-3). Nothing is refused that
// members do by themselves: expiries, and reads that take a place in the log.
func (a *Applier) alarmed(kind byte, m proto.Message) error {
	if kind == kindRead {
		return nil
	}
	return a.alarms.Refuses(m)
}

// changeAlarms applies a change of the alarms.
func (a *Applier) changeAlarms(r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	alarms, resp, err := a.alarms.Apply(r)
	if err != nil {
		return nil, err
	}
	a.alarms = alarms
	resp.Header = a.header()
	return resp, nil
}

// alarmsMagic begins the alarms in a snapshot. They are there only if there ever were any, behind
// the users: other snapshots are as they were before there could be alarms.
const alarmsMagic = "TENUREAL"

// encodeAlarms encodes the section of the alarms: the magic, a length, the state.
func encodeAlarms(alarms *alarm.State) []byte {
	p := alarms.Encode()
	var w wire.Writer
	w.Put([]byte(alarmsMagic))
	w.Put(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
	w.Put(p)
	return w
}

// readAlarms reads the section of the alarms, if it is there.
func readAlarms(r *bufio.Reader) (*alarm.State, error) {
	head, _ := r.Peek(len(alarmsMagic))
	if string(head) != alarmsMagic {
		return alarm.New(), nil // if too little is left, or cannot be read, the state's own reader says so
	}
	if _, err := r.Discard(len(alarmsMagic)); err != nil {
		return nil, err
	}
	p, err := readSection(r)
	if err != nil {
		return nil, err
	}
	return alarm.Decode(p)
}
