package server

import "testing"

// TestPortsAreReserved: no two clusters are given one port, though no member listens yet.
func TestPortsAreReserved(t *testing.T) {
	owners := map[int]int{}
	for cluster := range 100 {
		reserved, first, err := reservePorts(6)
		if err != nil {
			t.Fatal(err)
		}
		defer reserved.Close()
		for port := first; port < first+6; port++ {
			if before, taken := owners[port]; taken {
				t.Fatalf("port %d is given to clusters %d and %d", port, before, cluster)
			}
			owners[port] = cluster
		}
	}
}

func TestPortsInUseAreNotReserved(t *testing.T) {
	reserved, first, err := reservePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	defer reserved.Close()
	l, err := listen(first + 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if free(first, 3) {
		t.Error("a port that is listened on counts as free")
	}
}
