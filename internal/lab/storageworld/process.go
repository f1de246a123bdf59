package storageworld

import (
	"errors"
	"path"
	"strings"
	"syscall"
	"time"

	holder "github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/holders"
	"github.com/tenure-lease/tenure/internal/machine"
)

// process is a process, from its start to its end.
type process struct {
	holders.Holder
	*scene
	clock *clock.Simulated
	host  string // also its boot
	state string // the host's directory of witnesses
}

// hook is what befalls a call.
func (x *process) hook(op, name string) error {
	x.count(op, name)
	part := dirOf(name)
	if x.calm() {
		return nil
	}
	if x.down(name) {
		return syscall.EIO
	}
	x.Process.Sleep(20*time.Microsecond + x.UpTo(part, 200*time.Microsecond))
	if op != x.plan.calls {
		return nil
	}
	what := x.Float(part)
	if what -= x.plan.stalls; what < 0 {
		x.w.Count("stalls", 1)
		x.Process.Stop(x.UpTo(part, x.plan.longest))
		x.Process.Gate()
		return nil
	}
	if what -= x.plan.slows; what < 0 {
		x.w.Count("slow calls", 1)
		x.Process.Sleep(x.UpTo(part, x.plan.longest))
		return nil
	}
	if what -= x.plan.deaths; what < 0 {
		x.w.Count("killed at a call", 1)
		x.w.Trace.Add("%s is killed before %s %s", x.Name, op, path.Base(name))
		x.Process.End()
		return syscall.EIO
	}
	if what -= x.plan.errs; what < 0 {
		x.w.Count("failed calls", 1)
		if op == "create" || op == "write" {
			return syscall.ENOSPC
		}
		return syscall.EIO
	}
	return nil
}

// smallest is the size of a handle's first file.
const smallest = (2 + 2*8) * 4096

// count takes note of the events of handles' files.
func (x *process) count(op, name string) {
	aside := strings.Contains(path.Base(name), ".") && !strings.HasSuffix(name, ".new")
	switch {
	case op == "rename" && aside:
		x.w.Count("condemned", 1)
	case op == "rename":
		x.w.Count("pardoned", 1)
		x.w.Trace.Add("%s pardons %s", x.Name, path.Base(name))
	case op == "remove" && aside:
		x.w.Count("discarded", 1)
	case op == "link" && x.tree.Size(name+".new") > smallest:
		x.w.Count("larger files", 1)
	}
}

// open opens the stores, if it can.
func (x *process) open() error {
	var stores []register.Store
	var errs []error
	sys := x.tree.FSOn(x.host, x.plan.network, x.Process, x.hook)
	var lines storage.Lifelines
	for i := range x.plan.dirs {
		s, err := file.Open(dir(i), file.Options{
			Clock: x.clock.Now, FS: sys, Holder: x.Name,
			Obsolete: func(_ string, v machine.Value, writer machine.ID) bool { return storage.Obsolete(v, writer) },
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if l := holder.Lifelines(s, x.host, false); x.plan.lifelines && l != nil {
			lines = counted{l, x.w}
		}
		stores = append(stores, s)
	}
	if len(stores) <= x.plan.dirs/2 {
		return errors.Join(errs...)
	}
	set, err := register.NewSetBy(x.clock.Now, stores)
	if err != nil {
		return err
	}
	x.Leaser = storage.New(set, storage.Options{Clock: x.clock, State: x.state, Lifelines: lines})
	return nil
}

// counted are lifelines of which a world takes note.
type counted struct {
	storage.Lifelines
	w *world.World
}

func (c counted) Tie(id machine.ID) (storage.Lifeline, error) {
	line, err := c.Lifelines.Tie(id)
	if err == nil {
		c.w.Count("tied", 1)
	}
	return line, err
}

func (c counted) Ended(id machine.ID, stamp uint64) bool {
	ended := c.Lifelines.Ended(id, stamp)
	if ended {
		c.w.Count("ended", 1)
		c.w.Trace.Add("the holder of stamp %d of claim %v has ended", stamp, id)
	}
	return ended
}
