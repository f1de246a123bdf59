// Package alarm is the part of the replicated state that says which members have an alarm, and
// which requests are refused for that.
//
//	s := alarm.New()
//	s, resp, err := s.Apply(&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 7, Alarm: pb.AlarmType_NOSPACE})
//	err = s.Refuses(put)    // ErrNoSpace
//
// Alarms are etcd's. A member that has no room raises NOSPACE, and the leader raises CORRUPT
// for a member whose data differ from those of the others. An alarm of one member holds for
// all members, and stays until an operator disarms it:
//
//   - AL-1: While there is a NOSPACE, whatever may make the state larger is refused: puts,
//     transactions with a put in any branch, and grants of leases. All else goes on.
//   - AL-2: While there is a CORRUPT, whatever changes keys or leases for a client is refused.
//     Reads go on, and so do renewals and the ends of leases that nobody renews.
//   - AL-3: A request is judged by the alarms at its place in the log, and so by all members
//     alike.
//   - AL-4: There are at most [Max] alarms: a client may raise them for members that do not
//     exist.
//
// A [State] is a value that never changes: any number of goroutines may read it.
package alarm
