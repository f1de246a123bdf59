package kv

import "sort"

// chunkSize is the number of events in a chunk of the log.
const chunkSize = 256

type chunk [chunkSize]*version

// eventLog holds the versions that were made since the compact revision, in the
// order in which they were made. A copy of the value is a snapshot of the log:
// the writer only fills slots and appends chunks behind what the copy sees, and
// dropping chunks makes a new slice.
type eventLog struct {
	chunks []*chunk // all full but the last
	n      int      // events in them
}

func (l *eventLog) add(v *version) {
	if l.n == len(l.chunks)*chunkSize {
		l.chunks = append(l.chunks, new(chunk))
	}
	l.chunks[l.n/chunkSize][l.n%chunkSize] = v
	l.n++
}

func (l *eventLog) at(i int) *version { return l.chunks[i/chunkSize][i%chunkSize] }

// search gives the position of the first event at or above revision rev.
func (l *eventLog) search(rev int64) int {
	return sort.Search(l.n, func(i int) bool { return l.at(i).kv.ModRevision >= rev })
}

// drop forgets the chunks that hold only events before position i and returns how
// many events those were.
func (l *eventLog) drop(i int) int {
	k := i / chunkSize
	if k == 0 {
		return 0
	}
	l.chunks = append([]*chunk(nil), l.chunks[k:]...)
	l.n -= k * chunkSize
	return k * chunkSize
}
