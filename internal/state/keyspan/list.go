package keyspan

// list is a chain of entries in order of index. An entry is on one list at most.
type list struct {
	head, tail *entry
}

// insert puts e in its place, which is looked for from the end.
func (l *list) insert(e *entry) {
	after := l.tail
	for after != nil && after.index > e.index {
		after = after.prev
	}
	e.prev = after
	if after != nil {
		e.next, after.next = after.next, e
	} else {
		e.next, l.head = l.head, e
	}
	if e.next != nil {
		e.next.prev = e
	} else {
		l.tail = e
	}
}

func (l *list) remove(e *entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		l.head = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		l.tail = e.prev
	}
	e.prev, e.next = nil, nil
}
