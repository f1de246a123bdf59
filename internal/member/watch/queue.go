package watch

// Kinds of items in a stream's queue.
type kind uint8

const (
	created  kind = iota // the watcher exists now
	refused              // a watch was refused
	events               // of the watcher
	behind               // the watcher gets its next events from the log
	canceled             // the watcher was canceled by its client
	expelled             // the watcher was canceled by Judge
	progress             // of all watchers, or of the one given
)

type item struct {
	kind     kind
	watcher  *watcher
	revision int64
	events   []*Event
	size     int
	reason   string
}

// A queue is what waits on a stream for its client, oldest first.
type queue struct {
	items  []item // from head on
	head   int
	events int // in the items
	bytes  int
}

func (q *queue) empty() bool { return q.head == len(q.items) }

func (q *queue) push(it item) {
	if q.head > 64 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, it)
	q.events += len(it.events)
	q.bytes += it.size
}

func (q *queue) pop() item {
	it := q.items[q.head]
	q.items[q.head] = item{}
	q.head++
	if q.empty() {
		q.items, q.head = q.items[:0], 0
	}
	q.events -= len(it.events)
	q.bytes -= it.size
	return it
}

// merge adds a batch to the newest item if that is of the same watcher, so that
// a client that is slower than the writers gets fewer and larger responses.
func (q *queue) merge(w *watcher, revision int64, batch []*Event, size int) bool {
	if q.empty() {
		return false
	}
	last := &q.items[len(q.items)-1]
	if last.kind != events || last.watcher != w || last.size+size > maxMerged {
		return false
	}
	last.events = append(last.events, batch...)
	last.revision = revision
	last.size += size
	q.events += len(batch)
	q.bytes += size
	return true
}

// maxMerged is the size of a response, in bytes, beyond which merging stops.
const maxMerged = 64 << 10

// advance moves a report of all watchers' progress at the end of the queue on to
// a revision.
func (q *queue) advance(revision int64) bool {
	if q.empty() {
		return false
	}
	last := &q.items[len(q.items)-1]
	if last.kind != progress || last.watcher != nil {
		return false
	}
	last.revision = revision
	return true
}

// push queues an item and wakes Next. The caller holds s.mu.
func (s *Stream) push(it item) {
	s.queue.push(it)
	s.rouse()
}

func (s *Stream) rouse() {
	if s.idle {
		s.idle = false
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// offer queues the batch of a watcher, unless the queue has no room for it. The
// caller holds the hub's mu.
func (s *Stream) offer(w *watcher) bool {
	c := &s.hub.config
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.overflow ||
		s.queue.events+len(w.batch) > c.MaxStreamEvents ||
		s.queue.bytes+w.size > c.MaxStreamBytes ||
		s.hub.queued.Load()+int64(w.size) > c.MaxBytes {
		return false
	}
	s.hub.queued.Add(int64(w.size))
	s.hub.pending.Add(int64(len(w.batch)))
	revision := w.batch[len(w.batch)-1].KV.ModRevision
	if !s.queue.merge(w, revision, w.batch, w.size) {
		s.queue.push(item{kind: events, watcher: w, revision: revision, events: w.batch, size: w.size})
	}
	s.rouse()
	return true
}
