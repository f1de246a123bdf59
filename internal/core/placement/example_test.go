package placement_test

import (
	"fmt"
	"log"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Three replicas; clients of the third read a key that clients of the first write now
// and then.
func Example() {
	members := []placement.Member{{ID: 1, Name: "here"}, {ID: 2, Name: "near"}, {ID: 3, Name: "far"}}
	planner, err := placement.NewPlanner(placement.Settings{Policy: placement.Cost, Members: members, Leader: 1}, nil)
	if err != nil {
		log.Fatal(err)
	}
	planner.RTT(1, 2, 10*time.Millisecond)
	planner.RTT(1, 3, 100*time.Millisecond)
	planner.RTT(2, 3, 95*time.Millisecond)

	for id := machine.NodeID(1); id <= 3; id++ { // each of these at its replica
		counter := placement.NewCounter(placement.MaxBuckets)
		for range 100 {
			switch id {
			case 1:
				counter.Write(1, []byte("log"))
				counter.Write(1, []byte("config"))
			case 3:
				for range 50 {
					counter.Read([]byte("config"))
				}
			}
		}
		counts, err := placement.DecodeCounts(counter.Take().Encode()) // over the wire
		if err != nil {
			log.Fatal(err)
		}
		if err := planner.Observe(id, counts); err != nil {
			log.Fatal(err)
		}
	}
	conf, changed := planner.Plan(0)
	fmt.Println(changed)
	for _, key := range []string{"config", "log"} {
		for i, m := range members {
			if conf.Holders([]byte(key)).Has(i) {
				fmt.Println(key, "is read from memory", m.Name)
			}
		}
	}
	// Output:
	// true
	// config is read from memory here
	// config is read from memory far
	// log is read from memory here
}

// The static cells of section 5.2.
func ExampleParse() {
	members := []placement.Member{
		{ID: 1, Name: "JP"}, {ID: 2, Name: "CA"}, {ID: 3, Name: "OR"}, {ID: 4, Name: "VA"}, {ID: 5, Name: "IRL"},
	}
	conf, err := placement.Parse("prefix:/jp/=JP,CA,OR; default=CA,VA,IRL", members)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(conf.Holders([]byte("/jp/tokyo")).Has(conf.Place(1)))
	every, some := conf.Everything()
	fmt.Println(every.Len(), some.Len())

	_, err = placement.Parse("prefix:/jp/=JP; key:/jp/x=MARS; default=CA", members)
	fmt.Println(err)
	_, err = placement.Parse("prefix:/jp/=JP; range:/a../k=VA; default=CA", members)
	fmt.Println(err)
	// Output:
	// true
	// 1 5
	// not a configuration of read leases: "key:/jp/x=MARS": no member is called "MARS"
	// not a configuration of read leases: "range:/a../k=VA": it has keys in common with prefix:/jp/
}
