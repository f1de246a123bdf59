package replica

import "testing"

// The fate of a batch is decided once, however many batches come after it. A second entry of the batch
// would carry out its requests twice.
func TestFatesOutlastTheirMemory(t *testing.T) {
	var f fates
	if _, known := f.find(1); known {
		t.Error("a leader that has decided about nothing knows of batch 1")
	}
	f.add(1, notNow)
	for seq := uint64(2); seq <= rememberedFates; seq++ {
		f.add(seq, accepted)
	}
	if v, known := f.find(1); !known || v != notNow {
		t.Errorf("the first of %d batches: verdict %v, known %t", rememberedFates, v, known)
	}
	f.add(rememberedFates+1, accepted)
	f.add(rememberedFates+3, accepted) // one was lost on its way
	for seq := uint64(1); seq <= rememberedFates+1; seq++ {
		if v, known := f.find(seq); !known || v != accepted {
			t.Fatalf("batch %d of %d: verdict %v, known %t; it would be appended again", seq, rememberedFates+3, v, known)
		}
	}
	if _, known := f.find(rememberedFates + 2); known {
		t.Error("a batch that comes late, but has not come before, is refused")
	}
	if len(f.order) != rememberedFates || len(f.verdicts) != rememberedFates {
		t.Errorf("%d and %d batches are remembered, and not %d", len(f.order), len(f.verdicts), rememberedFates)
	}
}
