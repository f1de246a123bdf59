package machine

import "time"

// NodeID names a member of a group. Zero is nobody.
type NodeID uint64

// Mono is a reading of a monotonic clock that counts suspend (CLOCK_BOOTTIME on
// Linux), in nanoseconds since an origin that differs from host to host and
// boot to boot. Readings of two hosts must never be compared. The clock of a
// machine of which nothing rests on time may stand still in suspend.
type Mono int64

// Never is the alarm of a machine that waits for input only.
const Never Mono = 1<<63 - 1

// Add returns the reading d later.
func (m Mono) Add(d time.Duration) Mono { return m + Mono(d) }

// Sub returns the time from o to m.
func (m Mono) Sub(o Mono) time.Duration { return time.Duration(m - o) }

// Wall is a reading of a host's wall clock in nanoseconds since the Unix epoch.
// It may step and it differs between hosts; only protocols whose model bounds
// that difference may look at it.
type Wall int64

// Now is what a machine is told about time when it is stepped.
type Now struct {
	Mono Mono
	Wall Wall
}

// Envelope is a message on its way. No holder of the Body may change it.
type Envelope struct {
	From, To NodeID
	Body     any
}

// Persist is a record to make durable, with the messages that may leave only after that.
type Persist struct {
	// Record is what to write; its type is the machine's and its storage's.
	// Nil when Then merely has to wait for the records before it that had a
	// Then of their own.
	Record any
	// Then holds the envelopes that wait for Record and all earlier records; when
	// there are none, Record must be written in its place but not forced.
	// Those addressed to the machine itself are stepped instead of sent.
	Then []Envelope
}

// Ready holds the effects of the steps since the last Ready.
type Ready[Out any] struct {
	Sends    []Envelope // may leave at once
	Persists []Persist  // to be made durable, in order
	Accesses []Access   // operations on shared storage, to begin at once, in any order
	Outcomes []Out      // for the machine's owner
	Alarm    Mono       // when to call Wake; Never if not at all
}

// Machine is a protocol. See the package comment for the driver's duties.
//
// In is the type of its owner's inputs and Out that of its outcomes. Where there is more
// than one kind, they are sealed interfaces: the compiler then refuses an input of another
// machine.
type Machine[In, Out any] interface {
	// Step takes one of the owner's inputs.
	Step(now Now, in In)
	// Wake tells the machine that time has passed. A driver calls it when the alarm has
	// rung.
	Wake(now Now)
	// Ready returns the effects of all steps since the last call.
	Ready() Ready[Out]
}

// Receiver is a machine that takes messages.
type Receiver[In, Out any] interface {
	Machine[In, Out]
	// Receive takes a message of another member, or one of its own that has waited for a
	// record. A message that makes no sense is data and is ignored.
	Receive(now Now, e Envelope)
}

// Storing is a machine with accesses to shared storage.
type Storing[In, Out any] interface {
	Machine[In, Out]
	// Accessed takes the end of an Access.
	Accessed(now Now, a Accessed)
}
