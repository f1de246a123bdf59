package disklease

// LeaseInput is an input of a Lease or an Oracle, ConsensusInput one of a Consensus, Input
// one of any machine of this package.
type (
	LeaseInput interface {
		Input
		leaseInput()
	}
	ConsensusInput interface {
		Input
		consensusInput()
	}
	Input interface{ input() }
)

func (Acquire) input()    {}
func (TryAcquire) input() {}
func (Leave) input()      {}
func (Measured) input()   {}
func (Ended) input()      {}
func (Propose) input()    {}
func (Leads) input()      {}
func (Follows) input()    {}

func (Acquire) leaseInput()    {}
func (TryAcquire) leaseInput() {}
func (Leave) leaseInput()      {}
func (Measured) leaseInput()   {}
func (Ended) leaseInput()      {}

func (Propose) consensusInput() {}
func (Leads) consensusInput()   {}
func (Follows) consensusInput() {}

// Outcome is an outcome of a machine of this package.
type Outcome interface{ outcome() }

func (Acquired) outcome() {}
func (Renewed) outcome()  {}
func (Lost) outcome()     {}
func (Refused) outcome()  {}
func (Left) outcome()     {}
func (Trouble) outcome()  {}
func (Leads) outcome()    {}
func (Follows) outcome()  {}
func (Decided) outcome()  {}

// Beside makes a type that embeds it an input and an outcome beside those of this package:
// for a machine that stands around one of these, or in place of a Lease under an Oracle.
type Beside struct{}

func (Beside) input()      {}
func (Beside) leaseInput() {}
func (Beside) outcome()    {}
