package leasetest

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// A record that is on its way when the lease expires at the store is not set.
func TestMemoryTakesNoLateRecord(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := NewMemory()
		e := m.enqueue(tenure.Claim{Name: "x", TTL: time.Second, Slots: 1})
		if !m.setRecord(e, []byte("1")) {
			t.Error("a record is refused to a tenure that lasts")
		}
		time.Sleep(time.Second)
		if m.setRecord(e, []byte("2")) || string(m.record("x")) != "1" {
			t.Errorf("the record %q is set by a tenure that has expired", m.record("x"))
		}
	})
}

// A record that was read is the reader's own: to change it changes nothing in the store.
func TestMemoryKeepsItsRecords(t *testing.T) {
	m := NewMemory()
	if !m.setRecord(m.enqueue(tenure.Claim{Name: "x", TTL: time.Minute, Slots: 1}), []byte("mine")) {
		t.Fatal("a record is refused to a tenure that lasts")
	}
	copy(m.record("x"), "yours")
	if got := m.record("x"); string(got) != "mine" {
		t.Errorf("a reader changed what it read, and others read %q", got)
	}
}
